//! Thousands of links with one visit each, all of which are followed twice, faster than a worker may hold them.

use super::super::seconds;
use edgelink_tests::scenario::Request;
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::{Connection, ControlPlane, Envoy, EnvoyOptions};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Links that are followed in a second.
const RATE: u64 = 90;
/// Links of one request.
const BULK: u64 = 1_000;
const CONNECTIONS: usize = 8;

/// The answers that visitors got first, and then.
#[derive(Debug, Default)]
struct Seen {
    served: AtomicU64,
    unavailable: AtomicU64,
    other: AtomicU64,
    gone: AtomicU64,
    twice: AtomicU64,
    gone_unavailable: AtomicU64,
}

/// `make pressure`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes: make pressure"]
async fn one_time_links() {
    let links = seconds("EDGELINK_TEST_DRILL_SECONDS", 100).as_secs() * RATE;
    let database = MariaDb::start();
    let url = database.database();
    let control_plane = ControlPlane::with_variables(&[("EDGELINK_STORE_URL", &url)]).await;
    let options = EnvoyOptions {
        feed: "poll",
        clicks: "true",
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    create(&control_plane, links).await;
    let seen = Arc::new(Seen::default());
    let mut visitors = JoinSet::new();
    for first in 0..CONNECTIONS {
        let numbers = (first as u64..links).step_by(CONNECTIONS);
        visitors.spawn(follow(envoy.edge(), numbers, Arc::clone(&seen)));
    }
    visitors.join_all().await;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!("\n{links} links with one visit, {RATE} a second, each followed twice");
    println!("first visits that are served   {}", count(&seen.served));
    println!(
        "first visits that are 503      {} (goal: 0)",
        count(&seen.unavailable)
    );
    println!("second visits that are 410     {}", count(&seen.gone));
    println!(
        "second visits that are 503     {} (goal: 0)",
        count(&seen.gone_unavailable)
    );
    println!(
        "links served twice             {} (goal: 0)",
        count(&seen.twice)
    );
    println!("{:?}", envoy.figures().await);
    assert_eq!(count(&seen.served), links, "{seen:?}");
    assert_eq!(count(&seen.gone), links, "{seen:?}");
    envoy.assert_unharmed().await;
}

async fn create(control_plane: &ControlPlane, links: u64) {
    for first in (0..links).step_by(BULK as usize) {
        let links = (first..links.min(first + BULK)).map(|number| {
            json!({ "longUrl": "https://example.com/", "customSlug": format!("once-{number}"), "maxVisits": 1 })
        });
        let body = links.collect::<Vec<_>>().into();
        let answer = control_plane.api("POST", "/links/bulk", &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Follows links twice each, one after the other, in even pauses.
async fn follow(edge: SocketAddr, numbers: impl Iterator<Item = u64>, seen: Arc<Seen>) {
    let mut connection = Connection::open(edge).await.expect("a connection");
    let pause = Duration::from_millis(1_000 * CONNECTIONS as u64 / RATE);
    let mut beat = tokio::time::interval(pause);
    for number in numbers {
        beat.tick().await;
        let request = Request::get(&format!("/once-{number}"));
        for attempt in 1..=2 {
            let answer = connection.exchange(&request, b"").await;
            let counter = match (attempt, answer.expect("an answer").status) {
                (1, 302) => &seen.served,
                (1, 503) => &seen.unavailable,
                (1, _) => &seen.other,
                (_, 302) => &seen.twice,
                (_, 410) => &seen.gone,
                (_, 503) => &seen.gone_unavailable,
                _ => &seen.other,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
