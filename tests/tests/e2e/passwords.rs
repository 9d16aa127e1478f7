//! Links with a password, on real Envoy and a real control plane.

use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::stack::{
    Connection, Deployment, EnvoyOptions, Filter, Http2Answer, http2_request_with_trailers, until,
};
use serde_json::json;
use std::time::Duration;

const TARGET: &str = "https://example.com/secret";
const LIMIT: Duration = Duration::from_secs(10);

fn form(path: &str) -> Request {
    Request::new("POST", path.as_bytes())
        .header("content-type", b"application/x-www-form-urlencoded")
}

/// Sends a form with a password.
async fn give(edgelink: &Deployment, path: &str, password: &str) -> Answer {
    let body = format!("password={password}");
    let mut connection = edgelink.envoy.connect().await;
    let answer = connection.exchange(&form(path), body.as_bytes()).await;
    answer.expect("an answer")
}

async fn visit_with(edgelink: &Deployment, path: &str, cookie: &str) -> Answer {
    let request = Request::get(path).header("cookie", cookie.as_bytes());
    edgelink.envoy.visit(&request).await
}

fn assert_page(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-robots-tag"), Some("noindex"));
    assert!(answer.location().is_none());
    let page = String::from_utf8_lossy(&answer.body);
    assert!(page.contains("<form method=\"post\">"), "{page}");
}

/// The name and value of the cookie that an answer sets.
fn cookie_of(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie").expect("a cookie");
    cookie.split(';').next().unwrap_or_default().to_owned()
}

/// A form whose body does not come.
async fn begin(edgelink: &Deployment) -> Connection {
    let mut connection = edgelink.envoy.connect().await;
    let head = "POST /locked HTTP/1.1\r\nhost: go.example\r\ncontent-type: application/x-www-form-urlencoded\r\n\
                content-length: 15\r\n\r\n";
    let sent = connection.send(head.as_bytes()).await;
    sent.expect("a connection");
    connection
}

async fn with_password() -> Deployment {
    let edgelink = Deployment::start(&EnvoyOptions::default()).await;
    let link = edgelink.link("locked").to(TARGET).password("open sesame");
    link.create().await;
    edgelink
}

#[tokio::test]
async fn locked_link_when_its_password_is_given_redirects() {
    let edgelink = with_password().await;
    assert_page(&edgelink.envoy.follow("/locked").await, 200);
    assert_page(&give(&edgelink, "/locked", "wrong").await, 403);
    let opened = give(&edgelink, "/locked?a=1", "open+sesame").await;
    assert_eq!(opened.status, 303, "{opened:?}");
    assert_eq!(opened.location(), Some("/locked?a=1"));
    let cookie = cookie_of(&opened);
    for _ in 0..2 {
        let answer = visit_with(&edgelink, "/locked?a=1", &cookie).await;
        let location = format!("{TARGET}?a=1");
        assert_eq!(answer.location(), Some(location.as_str()), "{answer:?}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    }
    assert_page(&visit_with(&edgelink, "/locked", "a=b").await, 200);
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn password_when_changed_voids_older_cookies() {
    let edgelink = with_password().await;
    let cookie = cookie_of(&give(&edgelink, "/locked", "open+sesame").await);
    let patch = json!({ "password": "another" });
    let changed = edgelink
        .control_plane
        .api("PATCH", "/links/locked", &patch)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    until("the cookie is void", LIMIT, async || {
        let answer = visit_with(&edgelink, "/locked", &cookie).await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert_page(&give(&edgelink, "/locked", "open+sesame").await, 403);
    assert_eq!(give(&edgelink, "/locked", "another").await.status, 303);
}

#[tokio::test]
async fn tries_when_too_many_are_429() {
    let edgelink = with_password().await;
    edgelink.envoy.follow("/locked").await;
    let mut statuses = Vec::new();
    for _ in 0..15 {
        let answer = give(&edgelink, "/locked", "wrong").await;
        if answer.status == 429 {
            assert_page(&answer, 429);
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
        }
        statuses.push(answer.status);
    }
    assert!(statuses.starts_with(&[403; 10]), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn cookie_when_the_control_plane_is_gone_still_opens() {
    let mut edgelink = with_password().await;
    edgelink.envoy.follow("/locked").await;
    let cookie = cookie_of(&give(&edgelink, "/locked", "open+sesame").await);
    edgelink.control_plane.process().kill();
    let refused = give(&edgelink, "/locked", "open+sesame").await;
    assert_eq!(refused.status, 503, "{refused:?}");
    let answer = visit_with(&edgelink, "/locked", &cookie).await;
    assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
    assert_page(&edgelink.envoy.follow("/locked").await, 200);
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn form_when_for_others_passes_with_its_body() {
    let edgelink = with_password().await;
    edgelink.link("plain").create().await;
    let plain = give(&edgelink, "/plain", "open+sesame").await;
    assert_eq!(plain.status, 405, "{plain:?}");
    for path in ["/none", "/plain/x", "/x.y"] {
        for _ in 0..2 {
            let answer = give(&edgelink, path, "open+sesame").await;
            assert_eq!(answer.status, 404, "{path}: {answer:?}");
            assert_eq!(answer.body, b"Not found.\n", "{path}");
        }
    }
    // In parts, and longer than a form may be.
    let mut connection = edgelink.envoy.connect().await;
    let head = "POST /locked HTTP/1.1\r\nhost: go.example\r\ncontent-type: application/x-www-form-urlencoded\r\n\
                content-length: 20\r\n\r\npassword=";
    connection
        .send(head.as_bytes())
        .await
        .expect("a connection");
    edgelink.envoy.follow("/locked").await;
    connection.send(b"open%20sesa").await.expect("a connection");
    let answer = connection.receive("POST").await.expect("an answer");
    assert_page(&answer, 403);
    let long = "x".repeat(2_000);
    let answer = give(&edgelink, "/locked", &long).await;
    assert_eq!(answer.status, 405, "{answer:?}");
    edgelink.envoy.assert_unharmed().await;
}

/// One tick ends more than may be answered within one callback, as answers are nested there.
#[tokio::test]
async fn forms_when_without_bodies_are_503() {
    const FORMS: usize = 320;
    let edgelink = with_password().await;
    edgelink.envoy.follow("/locked").await;
    let mut connections = Vec::new();
    for _ in 0..FORMS {
        connections.push(begin(&edgelink).await);
    }
    assert_eq!(give(&edgelink, "/locked", "open+sesame").await.status, 303);
    for mut connection in connections {
        let answer = connection.receive("POST").await.expect("an answer");
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn form_when_it_ends_with_trailers_is_answered() {
    if Filter::lacks("trailers of HTTP/2 in 1.22") {
        return;
    }
    let edgelink = with_password().await;
    edgelink.link("plain").create().await;
    for (path, status) in [
        ("/locked", 303),
        ("/locked", 303),
        ("/plain", 405),
        ("/none", 404),
    ] {
        let body = b"password=open+sesame";
        let length = body.len().to_string();
        let fields: [(&str, &[u8]); 6] = [
            (":method", b"POST"),
            (":scheme", b"http"),
            (":authority", b"go.example"),
            (":path", path.as_bytes()),
            ("content-type", b"application/x-www-form-urlencoded"),
            ("content-length", length.as_bytes()),
        ];
        let edge = edgelink.envoy.http2();
        let answer = http2_request_with_trailers(edge, &fields, body).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer, Http2Answer::Status(status), "{path}");
    }
    edgelink.envoy.assert_unharmed().await;
}
