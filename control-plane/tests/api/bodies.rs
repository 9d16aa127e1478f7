//! Bodies that are no JSON objects.

use crate::helpers::{Running, send};
use reqwest::Method;

async fn post(
    server: &Running,
    content_type: Option<&str>,
    body: impl Into<reqwest::Body>,
) -> crate::helpers::Answer {
    let mut request = server.api(Method::POST, "/links").body(body);
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    send(request).await
}

#[tokio::test]
async fn body_when_not_a_json_object_is_refused() {
    let server = Running::start().await;
    let deep = "[".repeat(10_000);
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"1",
        b"null",
        b"\"x\"",
        b"\xff\xfe",
        b"{\"longUrl\":\"\xff\"}",
        deep.as_bytes(),
        b"{} {}",
    ] {
        let answer = post(&server, Some("application/json"), body.to_vec()).await;
        answer.problem(400, "invalid-body");
        assert!(answer.json()["detail"].is_string());
    }
}

#[tokio::test]
async fn body_when_content_type_is_not_json_is_refused() {
    let server = Running::start().await;
    let body = r#"{"longUrl":"https://example.com/"}"#;
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/xml"),
    ] {
        post(&server, content_type, body)
            .await
            .problem(415, "unsupported-media-type");
    }
    post(&server, Some("application/json; charset=utf-8"), body)
        .await
        .expect(201);
}

#[tokio::test]
async fn body_when_larger_than_the_bound_is_refused() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_BODY_BYTES", "1024")]).await;
    let body = |length: usize| {
        let start = r#"{"longUrl":"https://example.com/"}"#;
        format!("{start}{}", " ".repeat(length - start.len()))
    };
    post(&server, Some("application/json"), body(1024))
        .await
        .expect(201);
    let answer = post(&server, Some("application/json"), body(1025)).await;
    answer.problem(413, "body-too-large");
    assert!(answer.text().contains("1024 bytes"));
}

#[tokio::test]
async fn body_when_chunked_and_too_large_is_refused() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_BODY_BYTES", "1024")]).await;
    let key = &server.admin_key;
    let head = format!(
        "POST /api/v1/links HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    let chunk = format!("800\r\n{}\r\n", " ".repeat(0x800));
    let answer = server.exchange(format!("{head}{chunk}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}
