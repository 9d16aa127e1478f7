//! Visits under hosts that no domain has, with each single fault that the documents call harmless.

use edgelink_tests::scenario::Request;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Production, ProductionOptions, await_workers};
use std::collections::BTreeMap;
use std::time::Duration;

const VISITS: usize = 100;
const TARGET: &str = "https://example.com/target";
/// Longer than a feed may be silent before it counts as such (`freshSeconds`).
const SILENCE: Duration = Duration::from_secs(7);

/// `make pressure`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn unknown_hosts() {
    let mut redis = RedisServer::start().await;
    let mut production = Production::start(&ProductionOptions::direct(&redis)).await;
    let link = production.control_planes[0].link("known").to(TARGET);
    link.create().await;
    let mut missed = visit("no fault", &production).await;

    redis.stop();
    tokio::time::sleep(SILENCE).await;
    missed += visit("Redis hangs", &production).await;
    redis.cont();
    recover(&production).await;

    redis.kill();
    tokio::time::sleep(SILENCE).await;
    missed += visit("Redis is gone", &production).await;
    redis.restart().await;
    recover(&production).await;

    production.control_planes[0].process().kill();
    missed += visit("one control plane is gone", &production).await;
    production.control_planes[0].restart().await;
    recover(&production).await;

    production.database.stop();
    tokio::time::sleep(SILENCE).await;
    missed += visit("the database hangs", &production).await;
    production.database.cont();
    recover(&production).await;
    assert_eq!(missed, 0, "visits that did not lead to the link");
}

async fn recover(production: &Production) {
    for envoy in &production.envoys {
        await_workers(envoy).await;
    }
}

/// Visits each under another host; how many did not lead to the link.
async fn visit(fault: &str, production: &Production) -> usize {
    let mut answers = BTreeMap::<_, usize>::new();
    let mut missed = 0;
    for number in 0..VISITS {
        let envoy = &production.envoys[number % production.envoys.len()];
        let host = format!("{number}.{}.example", fault.replace(' ', "-"));
        let request = Request::get("/known").header("host", host.as_bytes());
        let answer = envoy.visit(&request).await;
        missed += usize::from(answer.location() != Some(TARGET));
        let tier = answer.tier().unwrap_or_default().to_owned();
        *answers.entry((answer.status, tier)).or_default() += 1;
    }
    println!(
        "{fault}: {} of {VISITS} lead to the link (goal: {VISITS}): {answers:?}",
        VISITS - missed
    );
    missed
}
