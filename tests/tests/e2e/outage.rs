//! The control plane dies, or stops, under load.

use crate::load::{Load, known_links};
use edgelink_tests::stack::{Deployment, EnvoyOptions, Signal, until};
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
    let path = edgelink.create_to("https://example.com/new").await;
    assert_eq!(edgelink.envoy.follow(&path).await.status, 302);
}

#[tokio::test(flavor = "multi_thread")]
async fn known_links_do_not_notice_that_the_control_plane_is_killed() {
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
async fn known_links_do_not_notice_that_the_control_plane_hangs() {
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
