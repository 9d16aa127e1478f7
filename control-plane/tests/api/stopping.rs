//! Stopping and starting again.

use crate::helpers::{Running, read_all, until};
use sqlx::{Connection, SqliteConnection};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const BODY: &str = r#"{"longUrl":"https://example.com/"}"#;

/// A creation whose body is still missing its end.
async fn begin_creation(server: &Running) -> (TcpStream, &'static str) {
    let mut stream = server.connect().await;
    let (start, rest) = BODY.split_at(10);
    let head = format!(
        "POST /api/v1/links HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        server.admin_key,
        BODY.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body once the handler reads it: from now on the request is in flight.
    let mut buffer = [0; 64];
    stream.readable().await.unwrap();
    let length = stream.try_read(&mut buffer).unwrap();
    assert!(buffer[..length].starts_with(b"HTTP/1.1 100 "));
    stream.write_all(start.as_bytes()).await.unwrap();
    (stream, rest)
}

async fn is_closed(server: &Running) -> bool {
    TcpStream::connect(server.address).await.is_err()
}

#[tokio::test]
async fn request_when_server_stops_is_still_answered() {
    let server = Running::start().await;
    let (mut stream, rest) = begin_creation(&server).await;
    server.begin_stop();
    until("the listener is closed", async || is_closed(&server).await).await;
    stream.write_all(rest.as_bytes()).await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    server.stopped().await;
}

#[tokio::test]
async fn request_when_it_outlasts_the_grace_is_cut_off() {
    let server = Running::with(&[("EDGELINK_SERVER_SHUTDOWN_GRACE_MS", "50")]).await;
    let (mut stream, _) = begin_creation(&server).await;
    server.begin_stop();
    server.stopped().await;
    assert_eq!(read_all(&mut stream).await, "");
}

#[tokio::test]
async fn connection_when_idle_does_not_delay_the_stop() {
    let server = Running::with(&[("EDGELINK_SERVER_SHUTDOWN_GRACE_MS", "60000")]).await;
    server.follow("/health/live").await;
    let silent = server.connect().await;
    server.begin_stop();
    server.stopped().await;
    drop(silent);
}

#[tokio::test]
async fn server_when_stopping_is_unready_and_still_serves() {
    let server = Running::with(&[("EDGELINK_SERVER_SHUTDOWN_DELAY_MS", "60000")]).await;
    assert_eq!(server.follow("/health/ready").await.status, 200);
    server.begin_stop();
    until("not ready", async || {
        server.follow("/health/ready").await.status == 503
    })
    .await;
    let answer = server.follow("/health/ready").await;
    assert_eq!(answer.json()["status"], "stopping");
    server.link("").create().await;
}

#[tokio::test]
async fn numbers_when_restarted_cleanly_are_not_lost() {
    let mut server = Running::start().await;
    // Each start leases the issuer that has drawn least.
    for code in ["0000000", "0000001", "0000002"] {
        let link = server.link("").create().await;
        assert_eq!(link["shortCode"], code);
        server = server.restart().await;
    }
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    let drawn: i64 = sqlx::query_scalar("SELECT SUM(next) FROM issuers")
        .fetch_one(&mut database)
        .await
        .unwrap();
    assert_eq!(drawn, 3, "as many as links");
    server
        .follow("/0000000")
        .await
        .redirects(302, "https://example.com/");
}

#[tokio::test]
async fn key_when_server_restarts_is_kept() {
    let server = Running::start().await;
    let key = server.admin_key.clone();
    let server = server.restart().await;
    assert_eq!(server.admin_key, key);
    server.get("/links").await.expect(200);
}
