//! A stop and start of everything with many links.

use edgelink_tests::scenario::Request;
use edgelink_tests::servers::{MariaDb, RedisServer};
use edgelink_tests::stack::{
    ControlPlane, Envoy, EnvoyOptions, RedisOptions, await_workers, until,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Of a wait, beyond any goal.
const LIMIT: Duration = Duration::from_mins(10);

fn links() -> u64 {
    let links = std::env::var("EDGELINK_TEST_DRILL_LINKS").ok();
    let links = links.map(|links| links.parse().expect("a number of links"));
    links.unwrap_or(1_000_000)
}

/// `make pressure`; with `EDGELINK_TEST_DRILL_LINKS` of them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn restart_with_many_links() {
    let links = links();
    let goal = if links > 1_000_000 { 120 } else { 30 };
    let mut redis = RedisServer::start().await;
    let mut database = MariaDb::start_with(&["--innodb-buffer-pool-size=1G"]);
    let url = database.database();
    let schema = url.rsplit('/').next().expect("a name").to_owned();
    let redis_url = redis.url();
    let variables = [
        ("EDGELINK_STORE_URL", &*url),
        ("EDGELINK_REDIS_URL", &redis_url),
    ];
    let mut one = ControlPlane::with_variables(&variables).await;
    one.link("known").create().await;
    let mut other = one.replica().await;
    let options = EnvoyOptions {
        workers: 2,
        redis: Some(RedisOptions::direct(redis.port())),
        feed: "poll",
        ..EnvoyOptions::default()
    };
    let mut envoy = Envoy::start(&options, &[one.address(), other.address()]).await;
    await_workers(&envoy).await;
    fill(&database, &schema, links);

    envoy.process().kill();
    one.process().kill();
    other.process().kill();
    redis.kill();
    database.kill();
    let start = Instant::now();
    let since = |what: &str| {
        println!(
            "{what} after {:.1} s (goal: all within {goal} s)",
            start.elapsed().as_secs_f64()
        );
    };
    redis.restart().await;
    database.restart();
    since("MariaDB and Redis");
    one.restart().await;
    other.restart().await;
    since("both control planes answer, and are ready,");
    envoy.restart().await;
    let known = envoy.follow("/known").await;
    assert_eq!(known.status, 302, "{known:?}");
    since("a link is followed");
    until("workers have their snapshot", LIMIT, async || {
        envoy.follow("/first-request").await;
        let stats = envoy.figures().await;
        (stats.get("edgelink.admission") == envoy.filter().edges(2)).then_some(())
    })
    .await;
    since("all workers have a snapshot");
    for control_plane in [&one, &other] {
        let progress = until("all keys are known", LIMIT, async || {
            let progress = progress(control_plane).await;
            (progress["complete"] == true).then_some(progress)
        })
        .await;
        assert_eq!(progress["read"], links + 1, "{progress}");
        let log = control_plane.log();
        assert!(!log.contains("reading a page of the scan"), "{log}");
    }
    since("all keys are known everywhere");
    envoy.assert_unharmed().await;
}

async fn progress(control_plane: &ControlPlane) -> Value {
    let mut connection = control_plane.connect().await;
    let ready = Request::get("/health/ready");
    let answer = connection.exchange(&ready, b"").await.expect("an answer");
    let health: Value = serde_json::from_slice(&answer.body).expect("JSON");
    health["knownKeys"].clone()
}

/// Links of the one domain there is, with the statistics up to date.
fn fill(database: &MariaDb, schema: &str, links: u64) {
    let start = Instant::now();
    database.execute(&format!(
        "USE {schema}; SET SESSION unique_checks = 0; \
         INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, tags, created_at, updated_at, rev) \
         SELECT 1000000000 + seq, (SELECT MIN(id) FROM domains), CONCAT('alias-', seq), CONCAT('https://example.com/', seq), seq, \
         302, 0, 1, '[]', seq, seq, 1 FROM seq_1_to_{links}; ANALYZE TABLE links, domains"
    ));
    println!(
        "{links} links, written in {:.0} s",
        start.elapsed().as_secs_f64()
    );
}
