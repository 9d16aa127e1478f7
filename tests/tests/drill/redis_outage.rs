//! Redis is killed, and stopped in its tracks, under load.

use crate::production::{Tour, create, edges};
use crate::seconds;
use crate::visitors::{Journey, Pace, Seen, Visitors};
use edgelink_tests::scenario::Answer;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Production, ProductionOptions, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
const QUIET: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(60);

/// `make redis-outage`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make redis-outage"]
async fn redis_outage() {
    let fault = seconds("EDGELINK_TEST_DRILL_SECONDS", 30);
    let mut redis = RedisServer::start().await;
    let options = ProductionOptions::direct(&redis, "redis");
    let mut production = production(&options).await;
    let load = Load::new(&production);
    println!();
    load.during("all well", tokio::time::sleep(QUIET)).await;
    load.during("kill -9", async {
        redis.kill();
        tokio::time::sleep(fault).await;
    })
    .await;
    load.during("restarted, empty", async {
        redis.restart().await;
        recovered(&production).await;
    })
    .await;
    load.during("kill -STOP", async {
        redis.stop();
        tokio::time::sleep(fault).await;
    })
    .await;
    load.during("kill -CONT", async {
        redis.cont();
        recovered(&production).await;
    })
    .await;
    for envoy in &mut production.envoys {
        envoy.process().assert_running();
        envoy.assert_unharmed().await;
    }
    println!("VM reloads: 0");
}

/// Edges that know none of the links yet.
pub(crate) async fn production(options: &ProductionOptions) -> Production {
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

/// How long until every worker is connected again, and admits by a feed that it hears.
async fn recovered(production: &Production) {
    let start = Instant::now();
    let workers = 2 * production.envoys.len() as u64;
    until("all is well again", LIMIT, async || {
        let connected = production.figure("redis_connected").await == 2 * workers;
        (connected && production.figure("admission").await == workers).then_some(())
    })
    .await;
    println!("normal again after {:.1?}", start.elapsed());
    tokio::time::sleep(QUIET).await;
}

/// Visitors of hot links, and of links that nobody has asked for.
pub(crate) struct Load {
    edges: Vec<std::net::SocketAddr>,
    hot: Arc<Tour>,
    cold: Arc<Fresh>,
}

impl Load {
    pub(crate) fn new(production: &Production) -> Self {
        Self {
            edges: edges(production),
            hot: Arc::new(Tour {
                prefix: "hot",
                links: HOT,
            }),
            cold: Arc::new(Fresh(AtomicU64::new(0))),
        }
    }

    /// Prints what they saw; no hot link may fail.
    pub(crate) async fn during(&self, what: &str, happening: impl Future<Output = ()>) {
        let (hot, _) = self.seen_during(what, happening).await;
        assert_eq!(hot.wrong + hot.unanswered, 0, "hot links failed");
    }

    /// Prints what they saw of hot and of cold links, and gives it.
    pub(crate) async fn seen_during(
        &self,
        what: &str,
        happening: impl Future<Output = ()>,
    ) -> (Seen, Seen) {
        let hot = Visitors::start(&self.edges, HOT_PACE, &self.hot);
        let cold = Visitors::start(&self.edges, COLD_PACE, &self.cold);
        happening.await;
        let (mut hot, mut cold) = (hot.finish().await, cold.finish().await);
        hot.print(&format!("{what}, hot links"));
        cold.print(&format!("{what}, cold links"));
        (hot, cold)
    }
}

/// A link that nobody has asked for with every request.
struct Fresh(AtomicU64);

impl Journey for Fresh {
    fn path(&self, _n: u64) -> String {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(n < COLD as u64, "all cold links were asked for");
        format!("/cold-{n}")
    }

    fn is_right(&self, path: &str, answer: &Answer, _sent: Instant) -> bool {
        answer.location() == Some(format!("https://example.com{path}").as_str())
    }
}
