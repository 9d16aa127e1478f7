//! A scan of all codes.

use crate::production::{edges, log_queries, queries_of_links};
use crate::seconds;
use crate::visitors::{Journey, Pace, Visitors};
use edgelink_simulation::random;
use edgelink_tests::scenario::Answer;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{
    Connection, Production, ProductionOptions, code_space, resident_bytes,
};
use std::sync::Arc;
use std::time::Instant;

const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const PACE: Pace = Pace {
    connections: 32,
    rate: None,
};
/// Connections to each Envoy that ask for a new link, so that each worker has some.
const FOLLOWERS: usize = 8;
const NEW_LINKS: usize = 50;

/// `make show-redis`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make show-redis"]
async fn scanning() {
    let time = seconds("EDGELINK_TEST_DRILL_SECONDS", 20);
    let redis = RedisServer::start().await;
    let mut production = Production::start(&ProductionOptions::direct(&redis)).await;
    log_queries(&production.database);
    let (hmget, memory) = (redis.calls("hmget"), memory(&mut production));
    let visitors = Visitors::start(&edges(&production), PACE, &Arc::new(Scan));
    let start = Instant::now();
    tokio::time::sleep(time / 2).await;
    let memory_halfway = self::memory(&mut production);
    let fresh = follow_new_links(&production, |_| String::new()).await;
    let aliases = follow_new_links(&production, alias).await;
    tokio::time::sleep(time.saturating_sub(start.elapsed())).await;
    let requests = visitors.sent();
    let mut seen = visitors.finish().await;
    let below = below_the_bound(&production, requests);
    let lookups = redis.calls("hmget") - hmget;
    let selects = queries_of_links(&production.database, "WHERE l.domain_id");
    println!(
        "\n{requests} random codes in {time:?}, {below} of them below the bound, so that they may have been issued"
    );
    seen.print("answers, where right means 404");
    println!("HMGET at Redis {lookups}, queries for links at MariaDB {selects}");
    println!(
        "resident memory of the Envoys in KiB: before {memory:?}, halfway {memory_halfway:?}, after {:?}",
        self::memory(&mut production)
    );
    println!("new codes: {fresh}");
    println!("new aliases that look like codes: {aliases}");
    assert_eq!(seen.wrong + seen.unanswered, 0);
    // The new links were looked up too: by four workers, and by the control planes.
    let new = (2 * NEW_LINKS * 8) as u64;
    assert!(
        lookups <= 4 * below + new,
        "codes above the bound were looked up in Redis"
    );
    assert!(
        selects <= below + new,
        "codes above the bound were looked up in MariaDB"
    );
}

const TARGET: &str = "https://example.com/new";

/// An alias that is above any bound, as good as certainly.
fn alias(n: usize) -> String {
    code(u64::MAX - n as u64)
}

/// Creates links and follows each at once over several connections to both Envoys.
async fn follow_new_links(production: &Production, code: impl Fn(usize) -> String) -> String {
    let mut followers = Vec::new();
    for envoy in &production.envoys {
        for _ in 0..FOLLOWERS {
            followers.push(envoy.connect().await);
        }
    }
    let (mut refused, mut slowest) = (0, 0.0_f64);
    for n in 0..NEW_LINKS {
        let link = production.control_planes[n % 2].link(&code(n)).to(TARGET);
        let link = link.create().await;
        let start = Instant::now();
        let path = format!("/{}", link.code());
        for follower in &mut followers {
            refused += refusals(follower, &path).await;
        }
        slowest = slowest.max(start.elapsed().as_secs_f64());
    }
    let asked = NEW_LINKS * followers.len();
    format!(
        "{NEW_LINKS} created, {asked} times followed at once, {refused} times 404 at first; all workers within {:.1} ms",
        slowest * 1000.0
    )
}

/// How often it is asked for in vain.
async fn refusals(follower: &mut Connection, path: &str) -> u32 {
    let request = edgelink_tests::scenario::Request::get(path);
    let mut refusals = 0;
    while follower
        .exchange(&request, b"")
        .await
        .expect("an answer")
        .location()
        != Some(TARGET)
    {
        refusals += 1;
        assert!(refusals < 10_000, "{path} is not there");
    }
    refusals
}

/// Resident memory of each Envoy, KiB.
fn memory(production: &mut Production) -> Vec<u64> {
    let envoys = production.envoys.iter_mut();
    envoys
        .map(|envoy| resident_bytes(envoy.process().id()) / 1024)
        .collect()
}

fn below_the_bound(production: &Production, requests: u64) -> u64 {
    let bound = production
        .database
        .execute("SELECT MAX(bound) FROM test_0.bounds");
    let bound: u64 = bound.trim().parse().expect("a bound");
    let space = code_space();
    let is_below = |n: &u64| {
        space
            .number(code(*n).as_bytes())
            .is_some_and(|number| number < bound)
    };
    (0..requests).filter(is_below).count() as u64
}

struct Scan;

impl Journey for Scan {
    fn path(&self, n: u64) -> String {
        format!("/{}", code(n))
    }

    fn is_right(&self, _path: &str, answer: &Answer, _sent: Instant) -> bool {
        answer.status == 404
    }
}

/// The `n`th of a sequence of codes that looks random.
pub(crate) fn code(n: u64) -> String {
    let mut rest = random(n);
    let mut digits = String::with_capacity(7);
    for _ in 0..7 {
        digits.push(char::from(DIGITS[(rest % 62) as usize]));
        rest /= 62;
    }
    digits
}
