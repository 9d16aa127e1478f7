//! Connections to Redis.

use crate::production::{Tour, create, edges};
use crate::visitors::{Pace, Visitors};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Production, ProductionOptions, until};
use std::sync::Arc;
use std::time::Duration;

const LINKS: usize = 20_000;

/// `make show-redis`: two connections a worker, whatever the load.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make show-redis"]
async fn connections() {
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis, "redis")).await;
    create(&production.control_planes[0], "each", LINKS).await;
    let idle = counts(&redis);
    let pace = Pace {
        connections: 128,
        rate: None,
    };
    let tour = Arc::new(Tour {
        prefix: "each",
        links: LINKS,
    });
    let visitors = Visitors::start(&edges(&production), pace, &tour);
    let wanted = 2 * LINKS as u64;
    until("links are followed", Duration::from_secs(60), async || {
        (visitors.sent() > wanted).then_some(())
    })
    .await;
    let loaded = counts(&redis);
    let mut seen = visitors.finish().await;
    println!(
        "\nconnections of two Envoys with two workers each (lookup, feed): idle {idle:?}, under load {loaded:?}"
    );
    seen.print("load from 128 connections");
    assert_eq!((idle, loaded), ((4, 4), (4, 4)));
    assert_eq!(seen.wrong + seen.unanswered, 0);
}

/// Connections for lookups, and for the feed.
fn counts(redis: &RedisServer) -> (usize, usize) {
    let clients = redis.ask(&["CLIENT", "LIST"]);
    let named = |name: &str| {
        clients
            .lines()
            .filter(|line| line.contains(&format!(" name={name} ")))
            .count()
    };
    (named("edgelink"), named("edgelink-feed"))
}
