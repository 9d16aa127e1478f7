//! Several workers in one Envoy.

use edgelink_tests::scenario::Answer;
use edgelink_tests::stack::{Deployment, EnvoyOptions, Filter, Stats, until};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

async fn two_workers() -> Deployment {
    Deployment::start(&EnvoyOptions {
        workers: 2,
        fresh_seconds: 3600,
        ..EnvoyOptions::default()
    })
    .await
}

/// What a worker finds that another one has looked up.
fn shared(edgelink: &Deployment) -> &'static str {
    match edgelink.envoy.filter() {
        Filter::Wasm | Filter::Nginx => "shared-data",
        Filter::Native => "lru", // all have the same
    }
}

/// Follows a path that one worker knows until the other one has answered, too. The system spreads connections over the workers, so
/// that sooner or later each has one.
async fn await_the_other_worker(edgelink: &Deployment, path: &str, check: impl Fn(&Answer)) {
    let tier = shared(edgelink);
    let requests = |stats: &Stats, worker: u8| {
        stats.sum_matching(&format!(".worker_{worker}.downstream_cx_total"))
    };
    until("the other worker answers", LIMIT, async || {
        let answer = edgelink.envoy.follow(path).await;
        check(&answer);
        assert_ne!(answer.tier(), Some("control-plane"));
        let stats = edgelink.envoy.stats("worker_..downstream_cx_total").await;
        let have_both = edgelink.envoy.filter() == Filter::Nginx // it does not say
            || requests(&stats, 0) > 0 && requests(&stats, 1) > 0;
        (have_both && answer.tier() == Some(tier)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn link_when_looked_up_by_one_worker_is_in_shared_data() {
    let edgelink = two_workers().await;
    let link = edgelink.link("").to("https://example.com/shared");
    let path = link.create().await.path();
    let first = edgelink.envoy.follow(&path).await;
    assert_eq!(first.tier(), Some("control-plane"));
    await_the_other_worker(&edgelink, &path, |answer| {
        assert_eq!(answer.location(), Some("https://example.com/shared"));
    })
    .await;
    let is_so = |stats: &Stats| {
        let found = stats.answered_from(shared(&edgelink));
        let once = found == 1 || edgelink.envoy.filter() == Filter::Native && found > 0;
        stats.answered_from("control-plane") == 1 && once
    };
    edgelink.envoy.await_figures(is_so).await;
}

#[tokio::test]
async fn absence_when_looked_up_by_one_worker_is_in_shared_data() {
    let edgelink = two_workers().await;
    assert_eq!(edgelink.envoy.follow("/nowhere").await.status, 404);
    await_the_other_worker(&edgelink, "/nowhere", |answer| {
        assert_eq!(answer.status, 404);
    })
    .await;
}
