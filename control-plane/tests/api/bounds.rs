//! Every bound, reached.

use crate::helpers::{Running, read_all, send, until};
use reqwest::Method;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request whose body does not come.
async fn hang(server: &Running) -> TcpStream {
    let mut stream = server.connect().await;
    let head = format!(
        "POST /api/v1/links HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\nconnection: close\r\n\r\n",
        server.admin_key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn more_requests_than_configured_are_answered_503_while_health_goes_on() {
    let server = Running::with(&[("EDGELINK_API_MAX_REQUESTS", "1")]).await;
    let busy = hang(&server).await;
    let get = || send(server.plain(Method::GET, "/x"));
    until("overload", async || get().await.status == 503).await;
    get().await.problem(503, "overloaded");
    assert_eq!(server.follow("/health/ready").await.status, 200);
    assert_eq!(server.follow("/metrics").await.status, 200);
    drop(busy);
    until("room again", async || get().await.status == 404).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let server = Running::with(&[("EDGELINK_BODY_TIMEOUT_MS", "100")]).await;
    let answer = read_all(&mut hang(&server).await).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(
        answer.contains("urn:edgelink:problem:body-timeout"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_given_up() {
    let server = Running::with(&[("EDGELINK_REQUEST_TIMEOUT_MS", "100")]).await;
    let answer = read_all(&mut hang(&server).await).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.contains("urn:edgelink:problem:request-timeout"),
        "{answer}"
    );
    assert!(answer.contains("retry-after: 1"), "{answer}");
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let server = Running::with(&[("EDGELINK_HEADER_TIMEOUT_MS", "100")]).await;
    let answer = server.exchange(b"GET /x HTTP/1.1\r\nhost: ").await;
    assert_eq!(answer, "");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = Running::start().await;
    let request = |length: usize| {
        let filler = "a".repeat(length);
        format!("GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: {filler}\r\n\r\n")
    };
    let answer = server.exchange(request(32_000).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    let answer = server.exchange(request(33_000).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_their_turn() {
    let server = Running::with(&[("EDGELINK_API_MAX_CONNECTIONS", "1")]).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut first = server.connect().await;
    let mut answer = [0; 512];
    first.write_all(request).await.unwrap();
    assert!(first.read(&mut answer).await.unwrap() > 0);

    let mut second = server.connect().await;
    second.write_all(request).await.unwrap();
    first.write_all(request).await.unwrap();
    assert!(first.read(&mut answer).await.unwrap() > 0);
    assert!(
        second.try_read(&mut answer).is_err(),
        "the second connection has to wait"
    );

    drop(first);
    assert!(second.read(&mut answer).await.unwrap() > 0);
}

/// A bulk request whose body comes in pieces of almost 16 KiB, one in 100 ms, and its answer.
async fn send_slowly(server: &Running, pieces: usize) -> String {
    let item = r#"[{"longUrl":"https://example.com/"}"#;
    let link = format!(
        r#",{{"longUrl":"https://example.com/{}"}}"#,
        "x".repeat(7_960)
    );
    let piece = link.repeat(2);
    let length = item.len() + pieces * piece.len() + 1;
    let mut stream = server.connect().await;
    let head = format!(
        "POST /api/v1/links/bulk HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{item}",
        server.admin_key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..pieces {
        if stream.write_all(piece.as_bytes()).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let _ = stream.write_all(b"]").await;
    read_all(&mut stream).await
}

#[tokio::test]
async fn a_large_bulk_body_has_the_time_that_a_slow_line_needs() {
    let server = Running::with(&[
        ("EDGELINK_BODY_TIMEOUT_MS", "500"),
        ("EDGELINK_REQUEST_TIMEOUT_MS", "1000"),
    ])
    .await;
    let answer = send_slowly(&server, 15).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(r#""created":31"#), "{answer}");
}

#[tokio::test]
async fn a_bulk_body_that_stops_coming_is_given_up() {
    let server = Running::with(&[("EDGELINK_BODY_TIMEOUT_MS", "300")]).await;
    let head = format!(
        "POST /api/v1/links/bulk HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: 1000000\r\nconnection: close\r\n\r\n[",
        server.admin_key
    );
    let start = Instant::now();
    let answer = server.exchange(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(start.elapsed() >= Duration::from_millis(300));
}
