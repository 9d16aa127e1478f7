//! `GET /{code}+`.

use super::{assert_page, visit};
use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::json;

const TARGET: &str = "https://example.com/secret?a=1&b=<2>";
const SHOWN: &str = "https://example.com/secret?a=1&#38;b=&#60;2&#62;";

#[tokio::test]
async fn preview_when_opened_shows_the_target_and_does_not_redirect() {
    let server = Running::start().await;
    let title = "</title><script>alert(1)</script>";
    let until = "2090-01-01T00:00:00Z";
    let link = server.link("a").to(TARGET).title(title).valid_until(until);
    let link = link.tags(&["inner-tag"]).with("notes", "inner-note");
    link.create().await;
    for path in ["/a+", "/a+?x=y", "/a%2B", "/a%2b"] {
        let answer = server.follow(path).await;
        let page = assert_page(&answer, 200);
        assert_eq!(answer.header("location"), "");
        for part in [
            SHOWN,
            "<strong>example.com</strong>",
            "&#60;/title&#62;&#60;script&#62;",
            until,
            "go.example:8080/a",
        ] {
            assert!(page.contains(part), "{path}, {part}: {page}");
        }
        for private in ["inner-tag", "inner-note", "Some visitors"] {
            assert!(!page.contains(private), "{path}, {private}: {page}");
        }
    }
    let head = send(server.plain(Method::HEAD, "/a+")).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    let other = visit(&server, "other.example", "/a+").await;
    assert_page(&other, 404);
    let posted = send(server.plain(Method::POST, "/a+")).await;
    assert_eq!(posted.status, 405);
}

#[tokio::test]
async fn host_when_its_letters_are_foreign_is_shown_in_punycode() {
    let server = Running::start().await;
    let link = server.link("a").to("https://ex\u{430}mple.com/");
    link.create().await;
    let answer = server.follow("/a+").await;
    assert!(assert_page(&answer, 200).contains("<strong>xn--"));
}

#[tokio::test]
async fn preview_when_link_has_rules_says_so() {
    let server = Running::start().await;
    server.link("a").to(TARGET).create().await;
    let condition = json!({ "type": "device", "matchKey": null, "matchValue": "android" });
    let rules = json!({ "redirectRules": [{ "longUrl": "https://example.com/app", "conditions": [condition] }] });
    let set = server.api(Method::POST, "/links/a/rules").json(&rules);
    send(set).await.expect(200);
    let answer = server.follow("/a+").await;
    let page = assert_page(&answer, 200);
    assert!(
        page.contains("Some visitors may be led elsewhere"),
        "{page}"
    );
    assert!(page.contains(SHOWN), "{page}");
}

#[tokio::test]
async fn preview_when_link_is_locked_or_expired_hides_its_target() {
    let server = Running::start().await;
    let title = "inner-title";
    let link = |code: &str| server.link(code).to(TARGET);
    let locked = link("locked").password("open sesame");
    locked.title(title).create().await;
    let disabled = link("disabled").with("state", "disabled");
    let disabled = disabled.with("expiredUrl", "https://example.com/over");
    disabled.create().await;
    let over = link("over").valid_until("2020-01-01T00:00:00Z");
    over.create().await;
    let soon = link("soon").valid_since("2090-01-01T00:00:00Z");
    soon.create().await;
    link("used").max_visits(1).create().await;
    assert_page(&server.follow("/used+").await, 200);
    server.follow("/used").await.redirects(302, TARGET);
    for (path, status) in [
        ("/locked+", 200),
        ("/disabled+", 410),
        ("/over+", 410),
        ("/used+", 410),
        ("/soon+", 404),
        ("/absent+", 404),
        ("/a++", 404),
        ("/locked+/", 404),
    ] {
        let answer = server.follow(path).await;
        let page = assert_page(&answer, status);
        for private in ["example.com/secret", title] {
            assert!(!page.contains(private), "{path}: {page}");
        }
        assert_eq!(answer.header("location"), "", "{path}");
        assert_eq!(page.contains("is locked"), path == "/locked+", "{path}");
    }
}

#[tokio::test]
async fn preview_when_opened_is_no_click_and_takes_no_use() {
    let server = Running::start().await;
    server.link("a").to(TARGET).max_visits(1).create().await;
    for _ in 0..3 {
        assert_page(&server.follow("/a+").await, 200);
    }
    server.follow("/a").await.redirects(302, TARGET);
    crate::analytics::counted(&server, 1).await;
    let orphans = server.get("/analytics/orphans").await.expect(200);
    assert_eq!(orphans["totals"]["clicks"], 0, "{orphans}");
}

#[tokio::test]
async fn preview_when_switched_off_is_not_found() {
    let server = Running::with(&[("EDGELINK_PAGES_PREVIEWS", "false")]).await;
    server.link("a").to(TARGET).create().await;
    let answer = server.follow("/a+").await;
    assert!(!assert_page(&answer, 404).contains("example.com"));
}
