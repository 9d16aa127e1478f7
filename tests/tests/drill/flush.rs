//! Redis loses everything while all visitors want the same link.

use crate::production::{Tour, create, edges, log_queries, queries_of_links};
use crate::visitors::{Pace, Visitors};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Production, ProductionOptions, until};
use std::time::Duration;

const FLUSHES: u64 = 5;
/// What one flush may cost.
const MAX_QUERIES: u64 = 4;
const LIMIT: Duration = Duration::from_secs(30);
const READS: Pace = Pace {
    connections: 32,
    rate: Some(5000),
};

/// `make show-redis`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make show-redis"]
async fn flush() {
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis)).await;
    create(&production.control_planes[0], "hot", 1).await;
    let tour = Tour::of("hot", 1);
    let visitors = Visitors::start(&edges(&production), READS, &tour);
    let mut queries = Vec::new();
    for _ in 0..FLUSHES {
        visitors.await_sent(visitors.sent() + 5000).await;
        let gaps = production.figure("feed.gap").await;
        log_queries(&production.database);
        assert_eq!(redis.ask(&["FLUSHALL"]).trim(), "OK");
        until("every edge noticed", LIMIT, async || {
            (production.figure("feed.gap").await >= gaps + production.edges()).then_some(())
        })
        .await;
        visitors.await_sent(visitors.sent() + 10_000).await;
        queries.push(queries_of_links(&production.database, "hot-0"));
    }
    let mut seen = visitors.finish().await;
    println!("\nqueries of MariaDB for one hot link after each FLUSHALL: {queries:?}");
    seen.print("reads at 5,000 a second");
    assert!(
        queries.iter().all(|count| *count <= MAX_QUERIES),
        "{queries:?}"
    );
    assert!(queries.iter().sum::<u64>() > 0, "the log shows nothing");
    assert_eq!(seen.wrong + seen.unanswered, 0);
}
