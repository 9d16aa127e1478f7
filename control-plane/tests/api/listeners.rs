//! Listeners of their own for edges, visitors and metrics.

use crate::helpers::{EDGE_TOKENS, Running, client, read_all, until};
use edgelink_settings::config::ListenerKind;
use reqwest::StatusCode;
use sqlx::{Connection, Executor, SqliteConnection};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const OTHERS: [(&str, &str); 3] = [
    ("EDGELINK_SERVER_EDGE_LISTEN", "127.0.0.1:0"),
    ("EDGELINK_SERVER_PUBLIC_LISTEN", "127.0.0.1:0"),
    ("EDGELINK_SERVER_METRICS_LISTEN", "127.0.0.1:0"),
];

fn address(server: &Running, kind: ListenerKind) -> SocketAddr {
    let of = server
        .listeners
        .iter()
        .find(|listener| listener.kind == kind);
    of.unwrap().address
}

async fn status(server: &Running, address: SocketAddr, path: &str) -> StatusCode {
    let token = EDGE_TOKENS.split(',').next().unwrap();
    let key = if path.starts_with("/edge/") {
        token
    } else {
        &server.admin_key
    };
    let request = client().get(format!("http://{address}{path}"));
    request.bearer_auth(key).send().await.unwrap().status()
}

#[tokio::test]
async fn listener_when_separate_serves_its_routes_and_health_only() {
    let server = Running::with(&OTHERS).await;
    server.link("here").create().await;
    for (path, kind, found) in [
        ("/api/v1/links", ListenerKind::Main, 200),
        ("/rest/v3/short-urls", ListenerKind::Main, 200),
        ("/openapi.json", ListenerKind::Main, 200),
        ("/console", ListenerKind::Main, 303),
        (
            "/edge/v1/links/go.example:8080/here",
            ListenerKind::Edge,
            200,
        ),
        ("/edge/v1/feed?after=1&wait=0", ListenerKind::Edge, 422),
        ("/here", ListenerKind::Public, 302),
        ("/robots.txt", ListenerKind::Public, 200),
        ("/metrics", ListenerKind::Metrics, 200),
    ] {
        for listener in &server.listeners {
            let expected = if listener.kind == kind { found } else { 404 };
            let status = status(&server, listener.address, path).await;
            assert_eq!(status, expected, "{path} at {}", listener.setting);
        }
    }
    for listener in &server.listeners {
        for path in ["/health/live", "/health/ready"] {
            let status = status(&server, listener.address, path).await;
            assert_eq!(status, 200, "{path} at {}", listener.setting);
        }
    }
}

#[tokio::test]
async fn route_when_it_has_no_listener_is_on_the_main_one() {
    let server = Running::with(&OTHERS[..1]).await;
    assert_eq!(server.listeners.len(), 2);
    for (path, expected) in [
        ("/metrics", 200),
        ("/robots.txt", 200),
        ("/edge/v1/snapshot", 404),
    ] {
        let status = status(&server, server.address, path).await;
        assert_eq!(status, expected, "{path}");
    }
}

/// Sends a request, and returns what has come when the server closes.
async fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    read_all(&mut stream).await
}

/// A report of abuse whose body does not come.
const UNFINISHED: &[u8] =
    b"POST /+/report HTTP/1.1\r\nhost: go.example:8080\r\nexpect: 100-continue\r\n\
    content-type: application/x-www-form-urlencoded\r\ncontent-length: 100\r\n\r\n";

#[tokio::test]
async fn listener_when_connections_are_taken_answers_probes() {
    let mut variables = OTHERS.to_vec();
    variables.push(("EDGELINK_SERVER_MAX_CONNECTIONS", "1"));
    variables.push(("EDGELINK_SERVER_BODY_TIMEOUT_MS", "60000"));
    variables.push(("EDGELINK_SERVER_FORM_TIMEOUT_MS", "60000"));
    let server = Running::with(&variables).await;
    let public = address(&server, ListenerKind::Public);
    // A request that is in flight: an idle connection would make room.
    let mut taken = TcpStream::connect(public).await.unwrap();
    taken.write_all(UNFINISHED).await.unwrap();
    let mut answer = [0; 25];
    taken.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    for (kind, path, expected) in [
        (ListenerKind::Public, "/health/live", "200"),
        (ListenerKind::Public, "/robots.txt", "503"),
        (ListenerKind::Main, "/openapi.json", "200"),
        (ListenerKind::Edge, "/edge/v1/snapshot", "401"),
        (ListenerKind::Metrics, "/metrics", "200"),
    ] {
        let answer = ask(address(&server, kind), path).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected} ")),
            "{path}: {answer}"
        );
    }
}

#[tokio::test]
async fn listener_when_busy_takes_no_permits_of_another() {
    let mut variables = OTHERS.to_vec();
    variables.push(("EDGELINK_SERVER_MAX_REQUESTS", "1"));
    variables.push(("EDGELINK_STORE_TIMEOUT_MS", "10000"));
    let server = Running::with(&variables).await;
    let public = address(&server, ListenerKind::Public);
    server.link("here").create().await;
    // A report of abuse is worked on until the lock is gone.
    let mut lock = SqliteConnection::connect(&server.database()).await.unwrap();
    lock.execute("BEGIN IMMEDIATE").await.unwrap();
    let mut busy = TcpStream::connect(public).await.unwrap();
    let report: &[u8] = b"POST /+/report HTTP/1.1\r\nhost: go.example:8080\r\ncontent-type: application/x-www-form-urlencoded\r\n\
        content-length: 21\r\n\r\ncode=here&reason=spam";
    busy.write_all(report).await.unwrap();
    until("the public listener is busy", async || {
        ask(public, "/robots.txt")
            .await
            .starts_with("HTTP/1.1 503 ")
    })
    .await;
    let answer = ask(server.address, "/openapi.json").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let edge = address(&server, ListenerKind::Edge);
    let answer = ask(edge, "/edge/v1/snapshot").await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test]
async fn listeners_when_stopping_close_while_connections_are_open() {
    let server = Running::with(&OTHERS).await;
    let mut in_flight = Vec::new();
    for listener in &server.listeners {
        let mut stream = TcpStream::connect(listener.address).await.unwrap();
        stream
            .write_all(b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        // The answer is there: the connection is open from now on.
        stream.readable().await.unwrap();
        stream
            .write_all(b"GET /health/live HTTP/1.1\r\n")
            .await
            .unwrap();
        in_flight.push(stream);
    }
    server.begin_stop();
    for listener in &server.listeners {
        until("the listener is closed", async || {
            TcpStream::connect(listener.address).await.is_err()
        })
        .await;
    }
    for mut stream in in_flight {
        let _ = stream.write_all(b"host: x\r\n\r\n").await;
        read_all(&mut stream).await;
    }
    server.stopped().await;
}

#[tokio::test]
async fn address_when_taken_names_its_setting() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let variables = [("EDGELINK_SERVER_PUBLIC_LISTEN", address.as_str())];
    let error = crate::helpers::refusal(folder.path(), &variables).await;
    assert!(error.contains("server.public_listen"), "{error}");
}
