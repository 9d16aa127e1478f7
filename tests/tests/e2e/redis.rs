//! Real Redis behind the bridge in real Envoy, with a real control plane behind both.

use crate::load::{Load, known_links};
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Deployment, EnvoyOptions, RedisOptions, until};
use serde_json::json;
use std::time::Duration;

/// Longer than `freshSeconds`, so that every known link is asked for again meanwhile.
const FAULT: Duration = Duration::from_secs(7);
const LIMIT: Duration = Duration::from_secs(10);

async fn start(redis: &RedisServer, mode: &'static str) -> Deployment {
    let options = EnvoyOptions {
        workers: 2,
        redis: Some(RedisOptions {
            mode,
            ..RedisOptions::direct(redis.port())
        }),
        ..EnvoyOptions::default()
    };
    let edgelink = Deployment::start(&options).await;
    connect(&edgelink).await;
    edgelink
}

/// A worker connects with its first request, and which worker gets a request is the kernel's choice.
async fn connect(edgelink: &Deployment) {
    until("both workers know Redis", LIMIT, async || {
        edgelink.envoy.follow("/connect").await;
        let stats = edgelink.envoy.stats("redis_connected").await;
        (stats.get("wasmcustom.edgelink.redis_connected.lookup") == 2).then_some(())
    })
    .await;
}

/// The key of a link in the generation that the publisher writes in.
async fn key(redis: &RedisServer, code: &str) -> String {
    let generation = until("the publisher has begun a generation", LIMIT, async || {
        redis.ask(&["HGET", STATE_KEY, "generation"]).trim().parse().ok()
    })
    .await;
    link_key(generation, &format!("{DOMAIN}/{code}"))
}

/// Returns when both workers believe what Redis says.
async fn believe(edgelink: &Edgelink, redis: &RedisServer) {
    let mut number = 0;
    until("Redis is believed", LIMIT, async || {
        let codes = [0, 1, 2, 3].map(|of| format!("believe{}-{of}", number));
        number += 1;
        for code in codes {
            put(redis, &code, &["state", "absent", "rev", "1"]).await;
            let answer = edgelink.envoy.follow(&format!("/{code}")).await;
            if answer.tier() != Some("redis") {
                return None;
            }
        }
        Some(())
    })
    .await;
}

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
            "1",
        ],
    );
    put(&redis, "gone", &["state", "absent", "rev", "7"]);

    let answer = edgelink.envoy.follow("/here").await;
    assert_eq!((answer.status, answer.location()), (307, Some(target)));
    assert_eq!(answer.tier(), Some("redis"), "{answer:?}");
    let answer = edgelink.envoy.follow("/gone").await;
    assert_eq!((answer.status, answer.tier()), (404, Some("redis")));
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_and_absences_in_redis_are_answered_from_there() {
    assert_redis_answers("direct").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_and_absences_are_answered_through_the_pool_too() {
    assert_redis_answers("pooled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_nobody_of_us_wrote_are_left_to_the_control_plane() {
    let redis = RedisServer::start().await;
    let edgelink = start(&redis, "direct").await;
    let garbage: [&[&str]; 3] = [
        &["state", "\u{1}\u{2}", "rev", "1"],
        &[
            "state", "active", "url", "no url", "redirect", "999", "rev", "-1",
        ],
        &["something", "else"],
    ];
    for (index, fields) in garbage.into_iter().enumerate() {
        let slug = format!("garbage{index}");
        let target = format!("https://example.com/{slug}");
        let path = edgelink
            .create(&json!({ "longUrl": target, "customSlug": slug }))
            .await;
        put(&redis, &slug, fields);
        let answer = edgelink.envoy.follow(&path).await;
        assert_eq!(answer.location(), Some(target.as_str()), "{fields:?}");
        assert_eq!(answer.tier(), Some("control-plane"), "{fields:?}");
    }
    edgelink
        .create(&json!({ "longUrl": "https://example.com/s", "customSlug": "string" }))
        .await;
    let _ = redis.ask(&["SET", &format!("link:{DOMAIN}/string"), "no hash"]);
    assert_eq!(
        edgelink.envoy.follow("/string").await.tier(),
        Some("control-plane")
    );
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_has_one_connection_for_lookups_whatever_the_load() {
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
    assert_eq!(lookups.count(), 2, "{clients}");
    let (_, failed) = load.stop().await;
    assert!(failed.is_empty(), "{:?}", failed.first());
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_do_not_notice_what_happens_to_redis() {
    let mut redis = RedisServer::start().await;
    let edgelink = start(&redis, "direct").await;
    let load = Load::start(edgelink.envoy.edge(), &known_links(&edgelink).await);

    redis.stop();
    tokio::time::sleep(FAULT).await;
    redis.cont();
    redis.kill();
    tokio::time::sleep(FAULT).await;
    redis.restart().await;
    connect(&edgelink).await;
    assert_eq!(redis.ask(&["FLUSHALL"]).trim(), "OK");
    put(&redis, "after", &["state", "absent", "rev", "7"]);
    assert_eq!(edgelink.envoy.follow("/after").await.tier(), Some("redis"));

    let (answered, failed) = load.stop().await;
    println!(
        "{answered} requests for known links, {} failed",
        failed.len()
    );
    assert!(failed.is_empty(), "{:?}", failed.first());
    edgelink.envoy.assert_unharmed().await;
}
