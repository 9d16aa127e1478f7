//! Who is let in, how long, and what a stranger can do to others.

use super::browser::{Browser, form, start};
use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, SqliteConnection};

async fn expires_at(server: &Running) -> i64 {
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    let query = "SELECT expires_at FROM console_sessions";
    sqlx::query_scalar(query)
        .fetch_one(&mut database)
        .await
        .unwrap()
}

#[tokio::test]
async fn session_when_only_a_stream_is_open_is_not_prolonged() {
    let server = start().await;
    let browser = Browser::admin(&server).await;
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    let soon = sqlx::query("UPDATE console_sessions SET expires_at = expires_at - 7200000");
    soon.execute(&mut database).await.unwrap();
    let before = expires_at(&server).await;
    let request = browser.request(Method::GET, "/console/live");
    let mut stream = request.send().await.unwrap();
    let first = stream.chunk().await.unwrap().expect("the stream begins");
    assert!(String::from_utf8_lossy(&first).contains("listening"));
    assert_eq!(expires_at(&server).await, before);
    let mut browser = browser;
    browser.page("/console").await;
    assert!(expires_at(&server).await > before, "a page is a request");
}

#[tokio::test]
async fn login_when_target_is_outside_the_console_leads_into_it() {
    let server = start().await;
    let mut browser = Browser::new(&server).await;
    for to in [
        "/console/../abc",
        "/console/%2e%2e/abc",
        "/console/.%2E/abc",
        "/console/links/../../abc",
    ] {
        let fields = [("key", server.admin_key.as_str()), ("to", to)];
        let there = browser.submit("/console/login", &fields).await;
        assert_eq!(there, "/console", "{to}");
    }
}

#[tokio::test]
async fn login_when_browser_has_a_session_ends_it() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let before = browser.cookie.clone();
    let answer = browser
        .post("/console/login", &[("key", &server.admin_key)])
        .await;
    assert_eq!(answer.status, 303);
    assert_ne!(browser.cookie, before);
    browser.page("/console").await;
    browser.cookie = before;
    assert_eq!(browser.get("/console").await.status, 303);
}

#[tokio::test]
async fn logins_when_right_or_wrong_are_counted_by_outcome() {
    let server = start().await;
    let mut browser = Browser::new(&server).await;
    browser.post("/console/login", &[("key", "x")]).await;
    browser
        .post("/console/login", &[("key", &server.admin_key)])
        .await;
    let metrics = server.follow("/metrics").await;
    for outcome in ["opened", "wrong"] {
        let line = format!("edgelink_console_logins_total{{outcome=\"{outcome}\"}} ");
        assert!(metrics.text().contains(&line), "{line}: {}", metrics.text());
    }
}

#[tokio::test]
async fn login_tries_when_used_up_leave_link_passwords_alone() {
    let server = start().await;
    server.link("abc").password("open").create().await;
    let mut browser = Browser::new(&server).await;
    for _ in 0..10 {
        assert_eq!(browser.log_in("ada", "wrong").await.status, 403);
    }
    assert_eq!(browser.log_in("ada", "wrong").await.status, 429);
    let request = server.plain(Method::POST, "/abc");
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let answer = send(request.body("password=open")).await;
    assert_eq!(answer.status, 303);
}

#[tokio::test]
async fn form_when_behind_a_proxy_is_accepted_by_sec_fetch_site() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let token = browser.form_token().await;
    let fields = [("csrf", token.as_str()), ("key", server.admin_key.as_str())];
    let request = browser.request(Method::POST, "/console/login");
    let request = request
        .header("origin", "https://go.example:8443")
        .header("sec-fetch-site", "same-origin");
    let answer = send(request.body(form(&fields))).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert!(
        answer.header("set-cookie").contains("; Secure"),
        "the page came by TLS"
    );
}

#[tokio::test]
async fn login_when_browser_keeps_no_cookie_says_so() {
    let server = start().await;
    let body = form(&[("csrf", "x"), ("key", &server.admin_key)]);
    let request = server.plain(Method::POST, "/console/login").body(body);
    let answer = send(request).await;
    assert_eq!(answer.status, 403);
    let page = answer.text();
    assert!(page.contains("cookie") && page.contains("HTTPS"), "{page}");
    assert!(!page.contains("another role"), "{page}");
}

#[tokio::test]
async fn error_page_when_shown_counts_as_one_request() {
    let server = Running::with(&[
        ("EDGELINK_LIMITS_ADDRESS_CAPACITY", "100"),
        ("EDGELINK_LIMITS_ADDRESS_PER_SECOND", "1"),
    ])
    .await;
    let mut browser = Browser::admin(&server).await;
    let left = |answer: &crate::helpers::Answer| -> u32 {
        let (_, rest) = answer.header("ratelimit").split_once("r=").unwrap();
        rest.split_once(';').unwrap().0.parse().unwrap()
    };
    let before = left(&browser.get("/console").await);
    for _ in 0..20 {
        assert_eq!(browser.get("/console/none").await.status, 404);
    }
    let after = left(&browser.get("/console").await);
    assert!(before - after <= 21, "{before} {after}");
}

#[tokio::test]
async fn settings_when_shown_name_role_and_domains_of_the_login() {
    let server = start().await;
    let key = json!({ "name": "k", "role": "reader", "domains": ["other.example"] });
    let made = send(server.api(Method::POST, "/keys").json(&key)).await;
    let made = made.expect(201);
    let mut browser = Browser::by_key(&server, made["key"].as_str().unwrap()).await;
    let page = browser.page("/console/settings").await;
    assert!(
        page.contains("<dd>reader</dd>") && page.contains("other.example"),
        "{page}"
    );
}

#[tokio::test]
async fn installation_domain_when_shown_to_a_tenant_is_read_only() {
    let server = start().await;
    let tenant = server.api(Method::POST, "/tenants");
    let tenant = send(tenant.json(&json!({ "name": "acme" }))).await;
    let tenant = tenant.expect(201);
    let key = tenant["adminKey"]["key"].as_str().unwrap();
    let mut browser = Browser::by_key(&server, key).await;
    let path = "/console/domains/go.example:8080";
    assert!(!browser.page(path).await.contains("name=\"rootUrl\""));
    let mut admin = Browser::admin(&server).await;
    assert!(admin.page(path).await.contains("name=\"rootUrl\""));
}
