//! A master of Redis Cluster is killed under load.

use crate::redis_outage::{Load, production};
use edgelink_tests::servers::RedisCluster;
use edgelink_tests::stack::{ProductionOptions, RedisOptions, until};
use std::time::{Duration, Instant};

const BEFORE: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(60);
const AFTER: Duration = Duration::from_secs(10);
/// Of all redirects, those that have to be right.
const GOAL: f64 = 0.999;

/// `make cluster-failover`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make cluster-failover"]
async fn failover() {
    let mut cluster = RedisCluster::start().await;
    let options = ProductionOptions {
        envoys: 2,
        redis_url: cluster.url(),
        redis: RedisOptions {
            mode: "cluster",
            ports: cluster.ports(),
        },
        feed: "poll",
    };
    let production = production(&options).await;
    let load = Load::new(&production);
    println!();
    let (hot, cold) = load
        .seen_during("one of three masters killed", async {
            tokio::time::sleep(BEFORE).await;
            let start = Instant::now();
            let port = cluster.kill_master_of("feed");
            // Until its replica takes over, nobody answers for the key.
            until("a replica takes over", LIMIT, async || {
                let answer = cluster.ask(&["EXISTS", "feed"]);
                answer.trim().parse::<u8>().is_ok().then_some(())
            })
            .await;
            println!(
                "the master at port {port} is replaced after {:.1?}",
                start.elapsed()
            );
            tokio::time::sleep(AFTER).await;
        })
        .await;
    let right = (hot.right + cold.right) as f64 / (hot.all() + cold.all()) as f64;
    println!(
        "right: {:.4} % (hot {} of {}, cold {} of {})",
        right * 100.0,
        hot.right,
        hot.all(),
        cold.right,
        cold.all()
    );
    for envoy in &production.envoys {
        envoy.assert_unharmed().await;
    }
    assert!(right >= GOAL, "{right}");
}
