//! Real Redis behind the bridge in real Envoy, with a real control plane behind both.

use crate::load::{Load, known_links};
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::{RedisSentinel, RedisServer};
use edgelink_tests::stack::{
    ControlPlane, Deployment, Envoy, EnvoyOptions, Filter, RedisOptions, until,
};
use edgelink_wire::redis::{STATE_KEY, link_key};
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than `freshSeconds`, so that every known link is asked for again meanwhile.
const FAULT: Duration = Duration::from_secs(7);
const LIMIT: Duration = Duration::from_secs(10);
/// For a new generation to be at every worker.
const GENERATION_LIMIT: Duration = Duration::from_secs(30);

/// Codes that links have before any worker has read the feed, so that no worker holds them.
const KNOWN: [&str; 3] = ["here", "gone", "after"];
/// Where they lead by the database.
const DATABASE: &str = "https://example.com/database";
/// Further ones.
const SPARE: usize = 500;

async fn start(redis: &RedisServer, mode: &'static str) -> Deployment {
    let options = EnvoyOptions {
        redis: Some(RedisOptions {
            mode,
            ..RedisOptions::direct(redis.port())
        }),
        ..EnvoyOptions::default()
    };
    start_with(&redis.url(), options).await
}

/// With the Redis at the URL, and two workers.
async fn start_with(url: &str, options: EnvoyOptions) -> Deployment {
    let control_plane = ControlPlane::with_variables(&[
        ("EDGELINK_LINKS_DOMAINS", DOMAIN),
        ("EDGELINK_REDIS_URL", url),
    ])
    .await;
    let spare = (0..SPARE).map(|number| format!("spare{number}"));
    let known = KNOWN.into_iter().chain(["string"]).map(str::to_owned);
    let link = |slug| json!({ "longUrl": DATABASE, "customSlug": slug });
    let links: Value = known.chain(spare).map(link).collect();
    let answer = control_plane.api("POST", "/links/bulk", &links).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let options = EnvoyOptions {
        workers: 2,
        feed: "poll",
        ..options
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    let edgelink = Deployment {
        envoy,
        control_plane,
    };
    connect(&edgelink).await;
    edgelink
}

/// A worker connects with its first request, and which worker gets a request is the kernel's choice.
async fn connect(edgelink: &Deployment) {
    until("both workers know Redis", LIMIT, async || {
        edgelink.envoy.follow("/connect").await;
        let stats = edgelink.envoy.figures().await;
        let connections = edgelink.envoy.filter().edges(2);
        (stats.get("edgelink.redis_connected.lookup") == connections).then_some(())
    })
    .await;
}

/// The key of a link in the generation that the publisher writes in.
async fn key(redis: &RedisServer, code: &str) -> String {
    let generation = until("the publisher has begun a generation", LIMIT, async || {
        redis
            .ask(&["HGET", STATE_KEY, "generation"])
            .trim()
            .parse()
            .ok()
    })
    .await;
    link_key(generation, &format!("{DOMAIN}/{code}"))
}

/// Returns when both workers believe what Redis says: so many answers in a row come from there.
async fn believe(
    edgelink: &Deployment,
    redis: &RedisServer,
    spare: &mut impl Iterator<Item = usize>,
) {
    const IN_A_ROW: usize = 8;
    let mut believed = 0;
    until("Redis is believed", LIMIT, async || {
        let code = format!("spare{}", spare.next().expect("a code"));
        put(redis, &code, &["state", "absent", "rev", REV]).await;
        let answer = edgelink.envoy.follow(&format!("/{code}")).await;
        believed = if answer.tier() == Some("redis") {
            believed + 1
        } else {
            0
        };
        (believed >= IN_A_ROW).then_some(())
    })
    .await;
}

/// Returns when admission counts at so many workers.
async fn await_admission(edgelink: &Deployment, workers: u16) {
    let what = format!("admission counts at {workers} workers");
    let edges = edgelink.envoy.filter().edges(workers).min(workers.into());
    until(&what, GENERATION_LIMIT, async || {
        let stats = edgelink.envoy.stats("admission").await;
        (stats.get("edgelink.admission") == edges).then_some(())
    })
    .await;
}

/// Greater than any revision by the clock.
const REV: &str = "9000000000000000000";

async fn put(redis: &RedisServer, code: &str, fields: &[&str]) {
    let key = key(redis, code).await;
    let answer = redis.ask(&[&["HSET", &key], fields].concat());
    assert!(answer.trim().parse::<u32>().is_ok(), "{answer}");
}

async fn assert_redis_answers(mode: &'static str) {
    let redis = RedisServer::start().await;
    let edgelink = start(&redis, mode).await;
    let target = "https://example.com/redis";
    put(
        &redis,
        "here",
        &[
            "state",
            "active",
            "url",
            target,
            "redirect",
            "307",
            "forward_query",
            "1",
            "rev",
            REV,
        ],
    )
    .await;
    put(&redis, "gone", &["state", "absent", "rev", REV]).await;
    believe(&edgelink, &redis, &mut (0..SPARE)).await;

    let answer = edgelink.envoy.follow("/here").await;
    assert_eq!((answer.status, answer.location()), (307, Some(target)));
    assert_eq!(answer.tier(), Some("redis"), "{answer:?}");
    let answer = edgelink.envoy.follow("/gone").await;
    assert_eq!((answer.status, answer.tier()), (404, Some("redis")));
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_when_in_redis_are_answered_from_there() {
    assert_redis_answers("direct").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_when_asked_for_through_the_pool_are_answered() {
    assert_redis_answers("pooled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn native_module_when_sentinels_name_a_master_asks_it() {
    let mut redis = RedisSentinel::start().await;
    let options = EnvoyOptions {
        filter: Filter::Native,
        redis: Some(RedisOptions::direct(redis.port())),
        variables: vec![("EDGELINK_REDIS_SENTINEL", RedisSentinel::NAME.to_owned())],
        ..EnvoyOptions::default()
    };
    let edgelink = start_with(&redis.url(), options).await;
    let mut spare = 0..SPARE;
    believe(&edgelink, redis.master(), &mut spare).await;
    redis.fail_over().await;
    await_admission(&edgelink, 2).await;
    connect(&edgelink).await;
    believe(&edgelink, redis.master(), &mut spare).await;
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_when_foreign_are_left_to_the_control_plane() {
    let redis = RedisServer::start().await;
    let edgelink = start(&redis, "direct").await;
    believe(&edgelink, &redis, &mut (0..SPARE)).await;
    let garbage: [&[&str]; 3] = [
        &["state", "\u{1}\u{2}", "rev", REV],
        &[
            "state", "active", "url", "no url", "redirect", "999", "rev", "-1",
        ],
        &["something", "else"],
    ];
    for (code, fields) in KNOWN.into_iter().zip(garbage) {
        put(&redis, code, fields).await;
    }
    let _ = redis.ask(&["SET", &key(&redis, "string").await, "no hash"]);
    for code in KNOWN.into_iter().chain(["string"]) {
        let answer = edgelink.envoy.follow(&format!("/{code}")).await;
        assert_eq!(answer.location(), Some(DATABASE), "{code}");
        assert_eq!(answer.tier(), Some("control-plane"), "{code}");
    }
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_when_under_load_has_one_redis_connection() {
    let redis = RedisServer::start().await;
    let edgelink = start(&redis, "direct").await;
    let load = Load::start(edgelink.envoy.edge(), &known_links(&edgelink).await);
    for code in 0..200 {
        edgelink.envoy.follow(&format!("/unknown{code}")).await;
    }
    let clients = redis.ask(&["CLIENT", "LIST"]);
    let lookups = clients
        .lines()
        .filter(|line| line.contains(" name=edgelink "));
    let edges = edgelink.envoy.filter().edges(2);
    assert_eq!(lookups.count() as u64, edges, "{clients}");
    let (_, failed) = load.stop().await;
    assert!(failed.is_empty(), "{:?}", failed.first());
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_when_redis_fails_do_not_notice() {
    let mut redis = RedisServer::start().await;
    let edgelink = start(&redis, "direct").await;
    let mut spare = 0..SPARE;
    believe(&edgelink, &redis, &mut spare).await;
    let load = Load::start(edgelink.envoy.edge(), &known_links(&edgelink).await);

    await_admission(&edgelink, 2).await;
    redis.stop();
    tokio::time::sleep(FAULT).await;
    await_admission(&edgelink, 0).await;
    redis.cont();
    await_admission(&edgelink, 2).await;
    redis.kill();
    tokio::time::sleep(FAULT).await;
    await_admission(&edgelink, 0).await;
    redis.restart().await;
    connect(&edgelink).await;
    await_admission(&edgelink, 2).await;
    assert_eq!(redis.ask(&["FLUSHALL"]).trim(), "OK");
    believe(&edgelink, &redis, &mut spare).await;
    put(&redis, "after", &["state", "absent", "rev", REV]).await;
    assert_eq!(edgelink.envoy.follow("/after").await.tier(), Some("redis"));
    await_admission(&edgelink, 2).await;

    load.stop_unharmed().await;
    edgelink.envoy.assert_unharmed().await;
}
