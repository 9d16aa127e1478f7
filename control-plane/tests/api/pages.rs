//! Pages for visitors.

mod home;
mod preview;
mod reports;
mod robots;

use crate::helpers::{Answer, Running, send};
use reqwest::Method;
use serde_json::{Value, json};

/// The answer to a visitor of a domain.
pub(crate) async fn visit(server: &Running, host: &str, path: &str) -> Answer {
    send(server.plain(Method::GET, path).header("host", host)).await
}

/// Checks what is true of every page: nothing of other hosts, no script, no style of its own, not listed, in no frame.
#[track_caller]
pub(crate) fn assert_page(answer: &Answer, status: u16) -> &str {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    let policy = answer.header("content-security-policy");
    let policy: Vec<&str> = policy.split("; ").collect();
    assert_eq!(policy[..2], ["default-src 'none'", "style-src 'self'"]);
    assert!(policy.contains(&"frame-ancestors 'none'"), "{policy:?}");
    assert_eq!(answer.header("x-robots-tag"), "noindex");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert!(!answer.header("cache-control").is_empty());
    for absent in ["<script", "<style", " style=", " onerror", "src=\"http:"] {
        assert!(
            !answer.text().contains(absent),
            "{absent}: {}",
            answer.text()
        );
    }
    answer.text()
}

async fn brand(server: &Running, domain: &str, brand: &Value) {
    let path = format!("/domains/{domain}");
    server.patch(&path, brand).await.expect(200);
}

#[tokio::test]
async fn page_when_domain_has_a_colour_loads_it_as_a_style() {
    let server = Running::start().await;
    brand(
        &server,
        "other.example",
        &json!({ "brandColor": "#1A2B3C" }),
    )
    .await;
    let page = visit(&server, "other.example", "/absent").await;
    let page = assert_page(&page, 404);
    let styles = page.split("rel=\"stylesheet\" href=\"").skip(1);
    let styles: Vec<&str> = styles.map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(styles.len(), 3, "{page}");
    for style in &styles {
        let answer = server.follow(style).await;
        assert_eq!(answer.status, 200, "{style}");
        assert_eq!(answer.header("content-type"), "text/css; charset=utf-8");
        assert!(answer.header("cache-control").contains("immutable"));
    }
    let color = server.follow(styles[2]).await;
    assert_eq!(color.text(), ":root { --brand: #1a2b3c; }\n");
    for wrong in ["1a2b3c", "red.css", "1A2B3C.css", "1a2b3cd.css", "..css"] {
        let answer = server.follow(&format!("/+/color/{wrong}")).await;
        assert_eq!(answer.status, 404, "{wrong}");
    }
    let other = visit(&server, "go.example:8080", "/absent").await;
    assert!(!assert_page(&other, 404).contains("/+/color/"));
}

#[tokio::test]
async fn page_when_domain_has_a_brand_shows_it() {
    let server = Running::start().await;
    let logo = "data:image/png;base64,iVBORw0KGgo=";
    let name = "<b>ACME & \"Co\"</b>";
    let shown = "&#60;b&#62;ACME &#38; &#34;Co&#34;&#60;/b&#62;";
    let look = json!({ "brandName": name, "brandLogo": logo });
    brand(&server, "other.example", &look).await;
    let link = |code: &str| server.link(code).on("other.example");
    link("a").create().await;
    link("gone").with("state", "disabled").create().await;
    link("locked").password("open sesame").create().await;
    for (path, status) in [
        ("/absent", 404),
        ("/no.code", 404),
        ("/", 404),
        ("/gone", 410),
        ("/locked", 200),
        ("/a+", 200),
        ("/gone+", 410),
        ("/absent+", 404),
        ("/locked+", 200),
    ] {
        let answer = visit(&server, "other.example", path).await;
        let page = assert_page(&answer, status);
        assert!(
            page.contains(shown) && page.contains(logo),
            "{path}: {page}"
        );
        let plain = visit(&server, "go.example:8080", path).await;
        assert!(!plain.text().contains("ACME"), "{path}");
    }
    let wrong = server
        .plain(Method::POST, "/locked")
        .header("host", "other.example")
        .header("content-type", "application/x-www-form-urlencoded")
        .body("password=wrong");
    assert!(assert_page(&send(wrong).await, 403).contains(shown));
    let elsewhere = json!({ "brandLogo": "https://cdn.example/logo.svg" });
    brand(&server, "other.example", &elsewhere).await;
    let answer = visit(&server, "other.example", "/absent").await;
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("img-src 'self' data: https://cdn.example;"));
}

#[tokio::test]
async fn brand_when_set_is_checked_and_its_picture_not_logged() {
    let server = Running::start().await;
    let wrong =
        json!({ "brandName": "", "brandLogo": "http://cdn.example/x", "brandColor": "red" });
    let fields = server
        .patch("/domains/other.example", &wrong)
        .await
        .problem(422, "validation");
    assert_eq!(fields, ["brandName", "brandLogo", "brandColor"]);
    let picture = "data:image/png;base64,iVBORw0KGgo=";
    let look = json!({ "brandName": "ACME", "brandLogo": picture, "brandColor": "#ABCDEF" });
    let changed = server.patch("/domains/other.example", &look).await;
    let changed = changed.expect(200);
    assert_eq!(changed["brandLogo"], picture);
    assert_eq!(changed["brandColor"], "#abcdef");
    let log = server.get("/audit?action=domain.update").await.expect(200);
    let detail = &log["entries"][0]["detail"];
    assert_eq!(detail["brandLogo"], "data:image/png (12 bytes)");
    let cleared = json!({ "brandName": null, "brandLogo": null, "brandColor": null });
    let cleared = server.patch("/domains/other.example", &cleared).await;
    assert!(cleared.expect(200)["brandName"].is_null());
}
