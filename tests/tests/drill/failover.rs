//! A master of Redis Cluster is killed under load.

use crate::production::{Tour, create, edges};
use crate::visitors::{Journey, Pace, Seen, Visitors};
use edgelink_tests::scenario::Answer;
use edgelink_tests::servers::RedisCluster;
use edgelink_tests::stack::{Production, ProductionOptions, RedisOptions, until};
use std::sync::Arc;
use std::time::{Duration, Instant};

const HOT: usize = 100;
const COLD: usize = 30_000;
const HOT_PACE: Pace = Pace {
    connections: 16,
    rate: Some(1000),
};
const COLD_PACE: Pace = Pace {
    connections: 64,
    rate: Some(200),
};
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
        click_attributes: "",
        plugin: None,
        version: None,
        variables: Vec::new(),
    };
    let production = production(&options).await;
    let load = Load::new(&production);
    println!();
    let (hot, cold) = load
        .seen_during("one of three masters killed", async {
            tokio::time::sleep(BEFORE).await;
            let start = Instant::now();
            let port = cluster.kill_master_of("feed");
            // Until its replica takes over, no node answers for the key.
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

/// Edges that know none of the links yet.
async fn production(options: &ProductionOptions) -> Production {
    let none = ProductionOptions {
        envoys: 0,
        ..options.clone()
    };
    let mut production = Production::start(&none).await;
    create(&production.control_planes[0], "hot", HOT).await;
    create(&production.control_planes[0], "cold", COLD).await;
    for _ in 0..options.envoys {
        production.add_envoy(options).await;
    }
    production
}

/// Visitors of hot links, and of links that were never asked for.
struct Load {
    edges: Vec<std::net::SocketAddr>,
    hot: Arc<Tour>,
    cold: Arc<Fresh>,
}

impl Load {
    fn new(production: &Production) -> Self {
        Self {
            edges: edges(production),
            hot: Tour::of("hot", HOT),
            cold: Arc::new(Fresh),
        }
    }

    /// Prints what they saw of hot and of cold links, and gives it.
    async fn seen_during(&self, what: &str, happening: impl Future<Output = ()>) -> (Seen, Seen) {
        let hot = Visitors::start(&self.edges, HOT_PACE, &self.hot);
        let cold = Visitors::start(&self.edges, COLD_PACE, &self.cold);
        happening.await;
        let (mut hot, mut cold) = (hot.finish().await, cold.finish().await);
        hot.print(&format!("{what}, hot links"));
        cold.print(&format!("{what}, cold links"));
        (hot, cold)
    }
}

/// Another link with every request.
struct Fresh;

impl Journey for Fresh {
    fn path(&self, n: u64) -> String {
        assert!(n < COLD as u64, "all cold links were asked for");
        format!("/cold-{n}")
    }

    fn is_right(&self, path: &str, answer: &Answer, _sent: Instant) -> bool {
        answer.location() == Some(format!("https://example.com{path}").as_str())
    }
}
