//! The limit of requests by address.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Connection, ControlPlane, Envoy, EnvoyOptions, Filter, Stats, until};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

const LIMIT: Duration = Duration::from_secs(20);

async fn start(options: EnvoyOptions) -> (ControlPlane, Envoy) {
    let control_plane = ControlPlane::start().await;
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    (control_plane, envoy)
}

fn with_rate(per_second: u32, burst: u32) -> EnvoyOptions {
    EnvoyOptions {
        rate: Some((per_second, burst)),
        ..EnvoyOptions::default()
    }
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

/// Returns once metrics count a refused request.
async fn await_refused(envoy: &Envoy) {
    until("a refused request in metrics", LIMIT, async || {
        let stats = envoy.stats(Stats::OF_FILTER).await;
        (stats.get("edgelink.requests.domain.limited") > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn limit_when_exceeded_answers_429_to_that_address_alone() {
    let (_control_plane, envoy) = start(with_rate(1, 20)).await;
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
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert!(refused.body.is_empty());
    assert!(number >= 15, "refused after {number} requests");
    assert_eq!(status_from(&envoy, [127, 0, 0, 2]).await, "HTTP/1.1 200 OK");
    await_refused(&envoy).await;
    assert_eq!(envoy.crashes().await, 0);
}

#[tokio::test]
async fn limit_when_behind_a_trusted_proxy_is_of_the_address_that_it_names() {
    let options = EnvoyOptions {
        trusted_hops: 1,
        ..with_rate(1, 5)
    };
    let (_control_plane, envoy) = start(options).await;
    let mut connection = Connection::open(envoy.edge()).await.expect("a connection");
    let mut refused = async |forwarded: &str, times: usize| {
        let request = Request::get("/health/live").header("x-forwarded-for", forwarded.as_bytes());
        let mut count = 0;
        for _ in 0..times {
            let answer = connection.exchange(&request, b"").await.expect("an answer");
            count += usize::from(answer.status == 429);
        }
        count
    };
    assert_eq!(refused("203.0.113.1", 5).await, 0);
    assert_eq!(refused("203.0.113.9, 203.0.113.2", 5).await, 0);
    assert_eq!(refused("2001:db8::1", 5).await, 0);
    let many = refused("203.0.113.7, 2001:db8::2", 50).await;
    assert!(many >= 25, "of the same /64: {many}");
    assert_eq!(refused("2001:db8:0:1::1", 5).await, 0);
    assert_eq!(envoy.crashes().await, 0);
}

#[tokio::test]
async fn limit_when_no_rate_is_set_is_absent() {
    if Filter::lacks("config_dump") {
        return;
    }
    let options = EnvoyOptions {
        rate: None,
        ..EnvoyOptions::default()
    };
    let (_control_plane, envoy) = start(options).await;
    let configuration = envoy.admin("/config_dump").await;
    assert!(configuration.contains("edgelink") && !configuration.contains("perSecond"));
}
