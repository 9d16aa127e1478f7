//! Records in Redis, and the lock under which they are filled.

use crate::redis::fixture::{
    GENERATION, KEY, LOCKED, append, beat, connected, link, lock, looked_up, order,
};
use edgelink_redis::{Redis, RedisLookup};
use edgelink_tests::servers::RedisServer;
use edgelink_wire::Record;
use std::sync::Arc;

const HASH: &str = "link:7:go.example.com/aB3";

async fn server() -> (RedisServer, Arc<Redis>) {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    (server, redis)
}

async fn fill(redis: &Redis, record: &Record<String>) {
    let held = lock(redis).await;
    redis
        .fill(record, &RedisLookup::Unknown, held)
        .await
        .unwrap();
}

#[tokio::test]
async fn record_when_filled_is_found_and_expires() {
    let (server, redis) = server().await;
    assert_eq!(looked_up(&redis).await, RedisLookup::Unknown);
    for (record, least, most) in [
        (link("https://example.com/", 3), 6 * 86_400, 7 * 86_400),
        (Record::Absent { rev: 9 }, 55, 180),
    ] {
        fill(&redis, &record).await;
        assert_eq!(looked_up(&redis).await, RedisLookup::Known(record));
        let ttl: i64 = server.ask(&["TTL", HASH]).trim().parse().unwrap();
        assert!((least..=most).contains(&ttl), "{ttl}");
    }
}

#[tokio::test]
async fn lock_when_held_is_refused_until_the_fill_releases_it() {
    let (_server, redis) = server().await;
    let held = lock(&redis).await;
    assert!(redis.lock(GENERATION, KEY, LOCKED).await.unwrap().is_none());
    let record = link("https://example.com/", 1);
    redis
        .fill(&record, &RedisLookup::Unknown, held)
        .await
        .unwrap();
    let again = lock(&redis).await;
    redis.unlock(again).await.unwrap();
    lock(&redis).await;
}

#[tokio::test]
async fn lock_when_lost_to_another_owner_is_not_used_or_released() {
    let (server, redis) = server().await;
    let lost = lock(&redis).await;
    let _ = server.ask(&["DEL", "lock:{link:7:go.example.com/aB3}"]);
    let lost_too = lock(&redis).await;
    let _ = server.ask(&["DEL", "lock:{link:7:go.example.com/aB3}"]);
    let held = lock(&redis).await;
    let record = link("https://old.example/", 1);
    redis
        .fill(&record, &RedisLookup::Unknown, lost)
        .await
        .unwrap();
    redis.unlock(lost_too).await.unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Unknown);
    let record = link("https://new.example/", 1);
    redis
        .fill(&record, &RedisLookup::Unknown, held)
        .await
        .unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Known(record));
}

#[tokio::test]
async fn record_when_a_change_is_published_meanwhile_is_not_filled() {
    let (_server, redis) = server().await;
    let held = lock(&redis).await;
    let newer = link("https://new.example/", 2);
    redis
        .publish(GENERATION, &[(KEY, newer.as_deref())])
        .await
        .unwrap();
    // Nothing is cached before the first lookup.
    assert_eq!(looked_up(&redis).await, RedisLookup::Unknown);
    let old = link("https://old.example/", 1);
    redis.fill(&old, &RedisLookup::Unknown, held).await.unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Unknown);
}

#[tokio::test]
async fn record_when_an_older_one_comes_is_not_replaced() {
    let (_server, redis) = server().await;
    // As numbers of Lua, the two were the same.
    let (older, newer) = (9_007_199_254_740_992, 9_007_199_254_740_993);
    for (rev, url, found) in [
        (9, "https://a.example/", "https://a.example/"),
        (10, "https://b.example/", "https://b.example/"),
        (9, "https://c.example/", "https://b.example/"),
        (newer, "https://d.example/", "https://d.example/"),
        (older, "https://e.example/", "https://d.example/"),
    ] {
        fill(&redis, &link(url, rev)).await;
        let RedisLookup::Known(Record::Link(known)) = looked_up(&redis).await else {
            panic!("no link");
        };
        assert_eq!(known.url, found);
    }
}

#[tokio::test]
async fn change_when_published_replaces_the_cached_record() {
    let (_server, redis) = server().await;
    fill(&redis, &Record::Absent { rev: 0 }).await;
    let created = link("https://example.com/", 1);
    redis
        .publish(GENERATION, &[(KEY, created.as_deref())])
        .await
        .unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Known(created));
    let deleted = Record::Absent { rev: 2 };
    redis
        .publish(GENERATION, &[(KEY, deleted.as_deref())])
        .await
        .unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Known(deleted));
    let old = link("https://old.example/", 1);
    redis
        .publish(GENERATION, &[(KEY, old.as_deref())])
        .await
        .unwrap();
    assert_eq!(
        looked_up(&redis).await,
        RedisLookup::Known(Record::Absent { rev: 2 })
    );
    redis.forget(GENERATION, &[KEY.to_owned()]).await.unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Unknown);
}

#[tokio::test]
async fn record_when_malformed_is_repaired_by_a_fill() {
    let (server, redis) = server().await;
    for command in [
        &["SET", HASH, "garbage"][..],
        &["HSET", HASH, "rev", "99", "state", "active"],
        &["HSET", HASH, "url", "javascript:alert(1)", "rev", "x"],
        &["RPUSH", HASH, "1"],
    ] {
        let _ = server.ask(&["DEL", HASH]);
        let _ = server.ask(command);
        let found = looked_up(&redis).await;
        assert!(
            matches!(found, RedisLookup::Malformed(_)),
            "{command:?}: {found:?}"
        );
        let record = link("https://example.com/", 1);
        let held = lock(&redis).await;
        redis.fill(&record, &found, held).await.unwrap();
        assert_eq!(looked_up(&redis).await, RedisLookup::Known(record));
    }
}

#[tokio::test]
async fn scripts_when_redis_has_forgotten_them_are_sent_again() {
    let (server, redis) = server().await;
    let record = link("https://example.com/", 1);
    for rev in 1..=3 {
        let _ = server.ask(&["SCRIPT", "FLUSH"]);
        fill(&redis, &link("https://example.com/", rev)).await;
        let _ = server.ask(&["SCRIPT", "FLUSH"]);
        let changes = [
            (KEY, record.as_deref()),
            ("go.example.com/x", record.as_deref()),
        ];
        redis.publish(GENERATION, &changes).await.unwrap();
        assert_eq!(
            looked_up(&redis).await,
            RedisLookup::Known(link("https://example.com/", rev))
        );
    }
}

#[tokio::test]
async fn record_when_forgotten_is_gone_with_its_lock() {
    let (_server, redis) = server().await;
    let held = lock(&redis).await;
    redis.forget(GENERATION, &[KEY.to_owned()]).await.unwrap();
    let old = link("https://old.example/", 1);
    redis.fill(&old, &RedisLookup::Unknown, held).await.unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Unknown);
}

#[tokio::test]
async fn record_when_of_another_generation_is_not_seen() {
    let (_server, redis) = server().await;
    let record = link("https://example.com/", 1);
    fill(&redis, &record).await;
    let other = redis.look_up(GENERATION + 1, KEY).await.unwrap();
    assert_eq!(other.lookup, RedisLookup::Unknown);
    assert_eq!(looked_up(&redis).await, RedisLookup::Known(record));
}

#[tokio::test]
async fn lookup_when_a_beat_was_noted_has_the_publisher_state() {
    let (server, redis) = server().await;
    let state = async || redis.look_up(GENERATION, KEY).await.unwrap().state;
    assert_eq!(state().await, None);
    append(&redis, &[beat(3)]).await;
    assert_eq!(state().await, None, "no beat was noted");
    let mut with_beat = order(1, GENERATION);
    with_beat.beat = Some((3, "nodes"));
    redis.append(&with_beat, &[beat(3)]).await.unwrap();
    let found = state().await.unwrap();
    assert!(found.covers(GENERATION, 3) && !found.covers(GENERATION, 4));
    let _ = server.ask(&["FLUSHALL"]);
    assert_eq!(state().await, None);
}
