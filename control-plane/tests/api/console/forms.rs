//! Forms that are not our own change nothing.

use super::browser::{Browser, form, start};
use crate::helpers::send;
use reqwest::Method;

const NEW: (&str, &str) = ("longUrl", "https://example.com/");

#[tokio::test]
async fn form_when_token_is_not_of_its_browser_is_refused() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let mut other = Browser::admin(&server).await;
    let (own, foreign) = (browser.form_token().await, other.form_token().await);
    assert_ne!(own, foreign);
    for fields in [
        vec![NEW],
        vec![NEW, ("csrf", "")],
        vec![NEW, ("csrf", &own[1..])],
        vec![NEW, ("csrf", &foreign)],
        vec![("csrf", &foreign), NEW, ("csrf", &own)],
    ] {
        let answer = browser.post_raw("/console/create", form(&fields)).await;
        assert_eq!(answer.status, 403, "{fields:?}");
        assert!(answer.text().contains("Not allowed"));
    }
    assert!(server.all_links().await.is_empty());
    let answer = browser
        .post_raw("/console/create", form(&[("csrf", &own), NEW]))
        .await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!(server.all_links().await.len(), 1);
}

#[tokio::test]
async fn login_and_logout_when_token_is_missing_are_refused() {
    let server = start().await;
    let mut browser = Browser::new(&server).await;
    let login = form(&[("key", &server.admin_key)]);
    assert_eq!(browser.post_raw("/console/login", login).await.status, 403);
    browser = Browser::admin(&server).await;
    assert_eq!(
        browser
            .post_raw("/console/logout", String::new())
            .await
            .status,
        403
    );
    browser.page("/console").await;
}

#[tokio::test]
async fn form_when_sent_by_another_site_is_refused() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let token = browser.form_token().await;
    let host = server.address.to_string();
    let own = format!("http://{host}");
    for (header, value, status) in [
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", own.as_str(), 303),
        ("sec-fetch-site", "same-origin", 303),
    ] {
        let body = form(&[("csrf", &token), NEW]);
        let request = browser.request(Method::POST, "/console/create");
        let answer = send(request.header(header, value).body(body)).await;
        assert_eq!(answer.status.as_u16(), status, "{header}: {value}");
    }
    assert_eq!(server.all_links().await.len(), 2);
}

#[tokio::test]
async fn form_when_no_session_is_open_leads_to_the_login() {
    let server = start().await;
    let mut browser = Browser::new(&server).await;
    let to = browser.submit("/console/create", &[NEW]).await;
    assert_eq!(to, "/console/login");
    assert!(server.all_links().await.is_empty());
}
