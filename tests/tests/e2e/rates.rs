//! Envoy's own limit of requests by address.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Connection, ControlPlane, Envoy, EnvoyOptions, until};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

const LIMIT: Duration = Duration::from_secs(20);

async fn start(rate: Option<(u32, u32)>) -> (ControlPlane, Envoy) {
    let control_plane = ControlPlane::start().await;
    let options = EnvoyOptions {
        rate,
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    (control_plane, envoy)
}

/// The status line that a client of another address of this machine gets.
async fn status_from(envoy: &Envoy, address: [u8; 4]) -> String {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .bind((address, 0).into())
        .expect("an address of this machine");
    let mut stream = socket.connect(envoy.edge()).await.expect("a connection");
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn address_when_it_asks_too_often_is_429_alone() {
    let (_control_plane, envoy) = start(Some((1, 20))).await;
    let mut connection = Connection::open(envoy.edge()).await.expect("a connection");
    let mut number = 0;
    let refused = until("a refusal", LIMIT, async || {
        number += 1;
        let forwarded = format!("203.0.113.{number}");
        let request = Request::get("/health/live").header("x-forwarded-for", forwarded.as_bytes());
        let answer = connection.exchange(&request, b"").await.expect("an answer");
        (answer.status != 200).then_some(answer)
    })
    .await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(number >= 15, "refused after {number} requests");
    assert_eq!(status_from(&envoy, [127, 0, 0, 2]).await, "HTTP/1.1 200 OK");
    let stats = envoy.stats("http_local_rate_limit").await;
    assert!(
        stats.get("edge.http_local_rate_limit.rate_limited") >= 1,
        "{stats:?}"
    );
    assert_eq!(envoy.crashes().await, 0);
}

#[tokio::test]
async fn rate_filter_when_no_rate_is_set_is_absent() {
    let (_control_plane, envoy) = start(None).await;
    let configuration = envoy.admin("/config_dump").await;
    assert!(configuration.contains("edgelink") && !configuration.contains("masked_remote_address"));
}
