//! The control plane dies, or stops, under load.

use crate::load::{Load, known_links};
use edgelink_tests::scenario::Request;
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::{ControlPlane, Deployment, EnvoyOptions, Signal, until};
use std::time::{Duration, Instant};

const FRESH_SECONDS: u32 = 1;
/// Longer than that, so that every known link is asked for again while the control plane does not answer.
const OUTAGE: Duration = Duration::from_secs(4);
/// `timeoutMs` is 800, which the tests of the filter hold to the millisecond by a clock of their own. Here it is to be seen
/// that it is in effect: without it, Envoy would end the request after 15 s.
const UNKNOWN_BOUND: Duration = Duration::from_secs(10);

/// Unknown links are asked for during the whole outage.
async fn assert_unknown_links_are_unavailable(edgelink: &Deployment, name: &str) {
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    let mut count = 0;
    while start.elapsed() < OUTAGE {
        let asked = Instant::now();
        let answer = edgelink.envoy.follow(&format!("/{name}{count}")).await;
        slowest = slowest.max(asked.elapsed());
        assert_eq!(answer.status, 503, "{answer:?}");
        count += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{name}: {count} unknown links, all 503, the slowest after {slowest:?}");
    assert!(slowest < UNKNOWN_BOUND, "{slowest:?}");
}

async fn assert_recovered(edgelink: &Deployment) {
    let back = Instant::now();
    until(
        "unknown links are 404 again",
        Duration::from_secs(5),
        async || {
            let answer = edgelink
                .envoy
                .follow(&format!("/back{}", back.elapsed().as_nanos()))
                .await;
            (answer.status == 404).then_some(())
        },
    )
    .await;
    println!("recovered {:?} after the control plane", back.elapsed());
    let link = edgelink.link("").to("https://example.com/new");
    let path = link.create().await.path();
    assert_eq!(edgelink.envoy.follow(&path).await.status, 302);
}

#[tokio::test(flavor = "multi_thread")]
async fn known_links_when_the_control_plane_is_killed_are_served() {
    let mut edgelink = Deployment::start(&EnvoyOptions {
        workers: 2,
        fresh_seconds: FRESH_SECONDS,
        ..EnvoyOptions::default()
    })
    .await;
    let load = Load::start(edgelink.envoy.edge(), &known_links(&edgelink).await);

    edgelink.control_plane.process().kill();
    assert_unknown_links_are_unavailable(&edgelink, "killed").await;
    edgelink.control_plane.restart().await;
    assert_recovered(&edgelink).await;

    load.stop_unharmed().await;
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn known_links_when_the_control_plane_hangs_are_served() {
    let mut edgelink = Deployment::start(&EnvoyOptions {
        fresh_seconds: FRESH_SECONDS,
        ..EnvoyOptions::default()
    })
    .await;
    let load = Load::start(edgelink.envoy.edge(), &known_links(&edgelink).await);

    edgelink.control_plane.process().signal(Signal::STOP);
    assert_unknown_links_are_unavailable(&edgelink, "stopped").await;
    edgelink.control_plane.process().signal(Signal::CONT);
    assert_recovered(&edgelink).await;

    load.stop_unharmed().await;
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_when_dropped_is_answered_with_503() {
    let database = MariaDb::start();
    let url = database.database();
    let control_plane = ControlPlane::with_variables(&[("EDGELINK_STORE_URL", &url)]).await;
    control_plane.link("known").create().await;
    let (_, name) = url.rsplit_once('/').expect("the name of the database");
    database.execute(&format!("DROP DATABASE {name}"));

    let key = control_plane.admin_key().as_bytes();
    let request = Request::get("/api/v1/links?limit=1").header("x-api-key", key);
    // By connections that were open, and then by those that cannot be opened.
    for _ in 0..20 {
        let mut connection = control_plane.connect().await;
        let answer = connection.exchange(&request, b"").await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    let log = control_plane.log();
    assert!(
        log.contains("the database that store.url names does not exist"),
        "{log}"
    );
}
