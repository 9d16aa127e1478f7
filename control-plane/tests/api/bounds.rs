//! Every bound, reached.

use crate::helpers::{Running, read_all, send, until};
use futures_util::FutureExt;
use reqwest::Method;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpSocket, TcpStream};

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
async fn more_requests_than_configured_are_answered_503_while_health_is_answered() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_REQUESTS", "1")]).await;
    let busy = hang(&server).await;
    let get = || send(server.plain(Method::GET, "/x"));
    until("overload", async || get().await.status == 503).await;
    get().await.problem(503, "overloaded");
    for path in ["/x", "/x/y"] {
        let form = server.plain(Method::POST, path).body("password=x");
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        send(form).await.problem(503, "overloaded");
    }
    assert_eq!(server.follow("/health/ready").await.status, 200);
    assert_eq!(server.follow("/metrics").await.status, 200);
    drop(busy);
    until("room again", async || get().await.status == 404).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let server = Running::with(&[("EDGELINK_SERVER_BODY_TIMEOUT_MS", "100")]).await;
    let answer = read_all(&mut hang(&server).await).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(
        answer.contains("urn:edgelink:problem:body-timeout"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_given_up() {
    let server = Running::with(&[("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "100")]).await;
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
    let server = Running::with(&[("EDGELINK_SERVER_HEADER_TIMEOUT_MS", "100")]).await;
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
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_CONNECTIONS", "1"),
        ("EDGELINK_SERVER_HEALTH_CONNECTIONS", "0"),
    ])
    .await;
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

/// A connection from another address of this machine, with a small buffer for what comes back.
async fn connect_from(server: &Running, address: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    socket.bind((Ipv4Addr::from(address), 0).into()).unwrap();
    socket.connect(server.address).await.unwrap()
}

#[tokio::test]
async fn a_client_that_reads_no_answers_is_cut_off() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_CONNECTIONS", "2"),
        ("EDGELINK_SERVER_HEALTH_CONNECTIONS", "0"),
        ("EDGELINK_SERVER_WRITE_TIMEOUT_MS", "500"),
    ])
    .await;
    let requests = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2_000);
    let mut silent = Vec::new();
    for _ in 0..2 {
        let (unread, mut write) = connect_from(&server, [127, 0, 0, 1]).await.into_split();
        let requests = requests.clone();
        let sending = tokio::spawn(async move {
            let _ = write.write_all(&requests).await; // until the server takes no more, or has closed
        });
        silent.push((unread, sending));
    }
    // Both have a connection before others come.
    until("requests are served", async || {
        let is_served =
            |unread: &OwnedReadHalf| unread.ready(Interest::READABLE).now_or_never().is_some();
        silent.iter().all(|(unread, _)| is_served(unread))
    })
    .await;
    assert_eq!(server.follow("/health/live").await.status, 200);
    for (_, sending) in silent {
        sending.await.unwrap();
    }
}

#[tokio::test]
async fn one_address_has_no_more_than_its_share_of_the_connections() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_CONNECTIONS_PER_ADDRESS", "1")]).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut answer = [0; 512];
    let mut first = connect_from(&server, [127, 0, 0, 2]).await;
    first.write_all(request).await.unwrap();
    assert!(first.read(&mut answer).await.unwrap() > 0);

    let mut second = connect_from(&server, [127, 0, 0, 2]).await;
    let _ = second.write_all(request).await; // perhaps it is closed already
    assert_eq!(read_all(&mut second).await, "");
    let mut other = connect_from(&server, [127, 0, 0, 3]).await;
    other.write_all(request).await.unwrap();
    assert!(other.read(&mut answer).await.unwrap() > 0);

    let metrics = server.follow("/metrics").await;
    assert!(
        metrics
            .text()
            .contains("edgelink_http_connections_refused_total ")
    );

    drop(first);
    until("room again", async || {
        let mut again = connect_from(&server, [127, 0, 0, 2]).await;
        let _ = again.write_all(request).await;
        again.read(&mut answer).await.is_ok_and(|length| length > 0)
    })
    .await;
}

#[tokio::test]
async fn health_is_answered_where_all_connections_are_taken() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_CONNECTIONS", "1")]).await;
    let mut answer = [0; 512];
    let mut first = server.connect().await;
    first
        .write_all(b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(first.read(&mut answer).await.unwrap() > 0);
    // No `connection: close`: the server ends these connections after one answer.
    for (path, status) in [
        ("/health/live", "200"),
        ("/health/ready", "200"),
        ("/metrics", "200"),
        ("/x", "503"),
        ("/api/v1/links", "503"),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        let answer = server.exchange(request.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {answer}"
        );
        assert_eq!(
            answer.contains("urn:edgelink:problem:overloaded"),
            status == "503",
            "{path}: {answer}"
        );
    }
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
        ("EDGELINK_SERVER_BODY_TIMEOUT_MS", "1000"),
        ("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "1500"),
    ])
    .await;
    let answer = send_slowly(&server, 20).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(r#""created":41"#), "{answer}");
}

#[tokio::test]
async fn a_bulk_body_that_stops_coming_is_given_up() {
    let server = Running::with(&[("EDGELINK_SERVER_BODY_TIMEOUT_MS", "300")]).await;
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
