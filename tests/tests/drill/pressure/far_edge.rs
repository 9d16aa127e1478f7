//! One-time links at two Envoys, one of which is far from the control plane.

use edgelink_tests::nemesis::proxy::{Direction, Flow, Proxy};
use edgelink_tests::scenario::Request;
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::{Connection, ControlPlane, Envoy, EnvoyOptions};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The way to the far Envoy, in each direction.
const WAY: Duration = Duration::from_millis(80);
const LINKS: u64 = 600;
const CONNECTIONS: u64 = 24;
/// When the near Envoy is asked: after the lease and the grace of the blocks that the far one had.
const LATER: Duration = Duration::from_secs(45);

/// `make pressure`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute: make pressure"]
async fn far_edge() {
    let database = MariaDb::start();
    let url = database.database();
    let control_plane = ControlPlane::with_variables(&[("EDGELINK_STORE_URL", &url)]).await;
    let proxy = Proxy::start(control_plane.address()).await;
    for direction in [Direction::Requests, Direction::Answers] {
        proxy.set(direction, Flow::Delayed(WAY));
    }
    let options = EnvoyOptions {
        feed: "poll",
        clicks: "true",
        ..EnvoyOptions::default()
    };
    let far = Envoy::start(&options, &[proxy.address()]).await;
    let near = Envoy::start(&options, &[control_plane.address()]).await;
    let links = (0..LINKS).map(|number| {
        json!({ "longUrl": "https://example.com/", "customSlug": format!("once-{number}"), "maxVisits": 1 })
    });
    let body = links.collect::<Vec<_>>().into();
    let created = control_plane.api("POST", "/links/bulk", &body).await;
    assert_eq!(created.status, 200, "{created:?}");
    let start = Instant::now();
    let first = follow_all(far.edge()).await;
    let took = start.elapsed();
    tokio::time::sleep_until(start + LATER).await;
    let second = follow_all(near.edge()).await;
    let twice = database.execute("USE test_0; SELECT COUNT(*) FROM visits WHERE used > 1");
    println!("\n{LINKS} links with one visit, {WAY:?} each way to the first of two Envoys");
    println!("statuses at the far Envoy, within {took:.1?}   {first:?} (goal: 302 {LINKS} times)");
    println!("statuses at the near one after {LATER:?}      {second:?} (goal: 410 {LINKS} times)");
    println!(
        "links served twice                      {} (goal: 0)",
        twice.trim()
    );
    println!("{:?}", far.figures().await);
    assert_eq!(first, BTreeMap::from([(302, LINKS)]));
    assert_eq!(second, BTreeMap::from([(410, LINKS)]));
    assert_eq!(twice.trim(), "0");
}

/// Follows each link once; how often each status was the answer.
async fn follow_all(edge: SocketAddr) -> BTreeMap<u16, u64> {
    let mut visitors = JoinSet::new();
    for first in 0..CONNECTIONS {
        visitors.spawn(async move {
            let mut connection = Connection::open(edge).await.expect("a connection");
            let mut statuses = Vec::new();
            for number in (first..LINKS).step_by(CONNECTIONS as usize) {
                let request = Request::get(&format!("/once-{number}"));
                let answer = connection.exchange(&request, b"").await;
                statuses.push(answer.expect("an answer").status);
            }
            statuses
        });
    }
    let mut counts = BTreeMap::new();
    for status in visitors.join_all().await.into_iter().flatten() {
        *counts.entry(status).or_default() += 1;
    }
    counts
}
