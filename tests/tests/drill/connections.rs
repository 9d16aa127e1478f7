//! Connections to Redis.

use crate::production::{Tour, create, edges};
use crate::visitors::{Pace, Visitors};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Production, ProductionOptions};

const LINKS: usize = 20_000;

/// `make show-redis`: one connection a worker, or with the native module a process, whatever the load.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make show-redis"]
async fn connections() {
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis)).await;
    create(&production.control_planes[0], "each", LINKS).await;
    let idle = count(&redis);
    let pace = Pace {
        connections: 128,
        rate: None,
    };
    let tour = Tour::of("each", LINKS);
    let visitors = Visitors::start(&edges(&production), pace, &tour);
    visitors.await_sent(2 * LINKS as u64 + 1).await;
    let loaded = count(&redis);
    let mut seen = visitors.finish().await;
    println!(
        "\nconnections of two Envoys with two workers each: idle {idle:?}, under load {loaded:?}"
    );
    seen.print("load from 128 connections");
    let edges = production.edges();
    assert_eq!((idle, loaded), (edges, edges));
    assert_eq!(seen.wrong + seen.unanswered, 0);
}

/// Connections of edges.
fn count(redis: &RedisServer) -> u64 {
    let clients = redis.ask(&["CLIENT", "LIST"]);
    let ours = clients
        .lines()
        .filter(|line| line.contains(" name=edgelink "));
    ours.count() as u64
}
