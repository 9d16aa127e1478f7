//! `GET /{code}+`.

use super::{assert_page, visit};
use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::{Value, json};

const TARGET: &str = "https://example.com/secret?a=1&b=<2>";
const SHOWN: &str = "https://example.com/secret?a=1&#38;b=&#60;2&#62;";

async fn link(server: &Running, mut fields: Value, slug: &str) {
    fields["customSlug"] = json!(slug);
    if fields["longUrl"].is_null() {
        fields["longUrl"] = json!(TARGET);
    }
    server.post(&fields).await.expect(201);
}

#[tokio::test]
async fn preview_when_opened_shows_the_target_and_does_not_redirect() {
    let server = Running::start().await;
    let title = "</title><script>alert(1)</script>";
    let until = "2090-01-01T00:00:00Z";
    let fields = json!({ "title": title, "validUntil": until, "tags": ["inner-tag"], "notes": "inner-note" });
    link(&server, fields, "a").await;
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
    link(
        &server,
        json!({ "longUrl": "https://ex\u{430}mple.com/" }),
        "a",
    )
    .await;
    let answer = server.follow("/a+").await;
    assert!(assert_page(&answer, 200).contains("<strong>xn--"));
}

#[tokio::test]
async fn preview_when_link_has_rules_says_so() {
    let server = Running::start().await;
    link(&server, json!({}), "a").await;
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
    link(
        &server,
        json!({ "password": "open sesame", "title": title }),
        "locked",
    )
    .await;
    link(
        &server,
        json!({ "state": "disabled", "expiredUrl": "https://example.com/over" }),
        "disabled",
    )
    .await;
    link(
        &server,
        json!({ "validUntil": "2020-01-01T00:00:00Z" }),
        "over",
    )
    .await;
    link(
        &server,
        json!({ "validSince": "2090-01-01T00:00:00Z" }),
        "soon",
    )
    .await;
    link(&server, json!({ "maxVisits": 1 }), "used").await;
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
    link(&server, json!({ "maxVisits": 1 }), "a").await;
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
    link(&server, json!({}), "a").await;
    let answer = server.follow("/a+").await;
    assert!(!assert_page(&answer, 404).contains("example.com"));
}
