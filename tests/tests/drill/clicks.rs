//! Clicks are counted once, whatever dies meanwhile.

use crate::production::{Tour, create, edges};
use crate::visitors::{Pace, Visitors};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Production, ProductionOptions, until};
use std::time::Duration;

const LINKS: usize = 500;
const REDIRECTS: u64 = 100_000;
const LIMIT: Duration = Duration::from_secs(120);
const PACE: Pace = Pace {
    connections: 32,
    rate: Some(3000),
};

/// `make click-accounting`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make click-accounting"]
async fn clicks() {
    let mut redis = RedisServer::start().await;
    let mut production = Production::start(&ProductionOptions::direct(&redis)).await;
    create(&production.control_planes[0], "click", LINKS).await;
    let tour = Tour::of("click", LINKS);
    let visitors = Visitors::start(&edges(&production), PACE, &tour);
    visitors.await_sent(REDIRECTS / 5).await;
    production.control_planes[0].process().kill();
    visitors.await_sent(REDIRECTS * 2 / 5).await;
    production.control_planes[0].restart().await;
    redis.kill();
    visitors.await_sent(REDIRECTS * 3 / 5).await;
    redis.restart().await;
    production.control_planes[0].process().kill();
    visitors.await_sent(REDIRECTS * 4 / 5).await;
    production.control_planes[0].restart().await;
    visitors.await_sent(REDIRECTS).await;
    let mut seen = visitors.finish().await;
    until("every click is accounted for", LIMIT, async || {
        let open = production.figure("clicks.sent").await
            - production.figure("clicks.acknowledged").await
            - production.figure("clicks.dropped").await;
        (open == 0 && production.figure("clicks.sent").await >= seen.right).then_some(())
    })
    .await;
    let (sent, dropped) = (
        production.figure("clicks.sent").await,
        production.figure("clicks.dropped").await,
    );
    let counted = count(
        &production,
        "SELECT COALESCE(SUM(clicks), 0) FROM test_0.click_minutes",
    );
    println!("\nRedis killed once, one of two control planes killed twice");
    seen.print("redirects");
    println!("clicks: sent {sent}, reported as dropped {dropped}, in the database {counted}");
    assert_eq!(seen.wrong + seen.unanswered, 0);
    assert_eq!(sent, seen.right, "a redirect is a click");
    assert_eq!(counted, sent - dropped);
    if dropped == 0 {
        let wrong = links_with_another_count(&production, seen.all());
        assert_eq!(wrong, 0, "links with more or fewer clicks than visits");
        println!("each of {LINKS} links has as many clicks as visits");
    }
}

/// Visits go round, so the counts of two links differ by one at most.
fn links_with_another_count(production: &Production, visits: u64) -> u64 {
    let (least, more) = (visits / LINKS as u64, visits % LINKS as u64);
    let sums = "SELECT SUM(clicks) AS n FROM test_0.click_minutes GROUP BY link_key";
    let with = |n: u64| {
        count(
            production,
            &format!("SELECT COUNT(*) FROM ({sums}) AS sums WHERE n = {n}"),
        )
    };
    LINKS as u64 - with(least).min(LINKS as u64 - more) - with(least + 1).min(more)
}

fn count(production: &Production, sql: &str) -> u64 {
    production
        .database
        .execute(sql)
        .trim()
        .parse()
        .expect("a number")
}
