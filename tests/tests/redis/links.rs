//! Records in Redis, and the lock under which they are filled.

use crate::fixture::{
    GENERATION, KEY, LOCKED, append, beat, connected, link, lock, looked_up, order,
};
use edgelink_redis::{Lookup, Redis};
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
    redis.fill(record, &Lookup::Unknown, held).await.unwrap();
}

#[tokio::test]
async fn what_was_filled_is_found_and_ends_by_itself() {
    let (server, redis) = server().await;
    assert_eq!(looked_up(&redis).await, Lookup::Unknown);
    for (record, least, most) in [
        (link("https://example.com/", 3), 6 * 86_400, 7 * 86_400),
        (Record::Absent { rev: 9 }, 55, 180),
    ] {
        fill(&redis, &record).await;
        assert_eq!(looked_up(&redis).await, Lookup::Known(record));
        let ttl: i64 = server.ask(&["TTL", HASH]).trim().parse().unwrap();
        assert!((least..=most).contains(&ttl), "{ttl}");
    }
}

#[tokio::test]
async fn a_lock_is_had_by_one_and_released_by_the_fill() {
    let (_server, redis) = server().await;
    let held = lock(&redis).await;
    assert!(redis.lock(GENERATION, KEY, LOCKED).await.unwrap().is_none());
    let record = link("https://example.com/", 1);
    redis.fill(&record, &Lookup::Unknown, held).await.unwrap();
    let again = lock(&redis).await;
    redis.unlock(again).await.unwrap();
    lock(&redis).await;
}

#[tokio::test]
async fn a_lock_that_another_owner_has_by_now_is_neither_used_nor_released() {
    let (server, redis) = server().await;
    let lost = lock(&redis).await;
    let _ = server.ask(&["DEL", "lock:{link:7:go.example.com/aB3}"]);
    let lost_too = lock(&redis).await;
    let _ = server.ask(&["DEL", "lock:{link:7:go.example.com/aB3}"]);
    let held = lock(&redis).await;
    let record = link("https://old.example/", 1);
    redis.fill(&record, &Lookup::Unknown, lost).await.unwrap();
    redis.unlock(lost_too).await.unwrap();
    assert_eq!(looked_up(&redis).await, Lookup::Unknown);
    let record = link("https://new.example/", 1);
    redis.fill(&record, &Lookup::Unknown, held).await.unwrap();
    assert_eq!(looked_up(&redis).await, Lookup::Known(record));
}

#[tokio::test]
async fn a_change_that_is_published_during_a_lookup_keeps_the_old_record_out() {
    let (_server, redis) = server().await;
    let held = lock(&redis).await;
    let newer = link("https://new.example/", 2);
    redis
        .publish(GENERATION, &[(KEY, newer.as_deref())])
        .await
        .unwrap();
    // Nothing is cached before the first lookup.
    assert_eq!(looked_up(&redis).await, Lookup::Unknown);
    let old = link("https://old.example/", 1);
    redis.fill(&old, &Lookup::Unknown, held).await.unwrap();
    assert_eq!(looked_up(&redis).await, Lookup::Unknown);
}

#[tokio::test]
async fn a_record_is_never_replaced_by_an_older_one() {
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
        let Lookup::Known(Record::Link(known)) = looked_up(&redis).await else {
            panic!("no link");
        };
        assert_eq!(known.url, found);
    }
}

#[tokio::test]
async fn published_news_replace_what_is_there_whatever_its_state() {
    let (_server, redis) = server().await;
    fill(&redis, &Record::Absent { rev: 0 }).await;
    let created = link("https://example.com/", 1);
    redis
        .publish(GENERATION, &[(KEY, created.as_deref())])
        .await
        .unwrap();
    assert_eq!(looked_up(&redis).await, Lookup::Known(created));
    let deleted = Record::Absent { rev: 2 };
    redis
        .publish(GENERATION, &[(KEY, deleted.as_deref())])
        .await
        .unwrap();
    assert_eq!(looked_up(&redis).await, Lookup::Known(deleted));
    let old = link("https://old.example/", 1);
    redis
        .publish(GENERATION, &[(KEY, old.as_deref())])
        .await
        .unwrap();
    assert_eq!(
        looked_up(&redis).await,
        Lookup::Known(Record::Absent { rev: 2 })
    );
    redis.forget(GENERATION, &[KEY.to_owned()]).await.unwrap();
    assert_eq!(looked_up(&redis).await, Lookup::Unknown);
}

#[tokio::test]
async fn what_no_version_of_ours_wrote_is_malformed_and_repaired() {
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
            matches!(found, Lookup::Malformed(_)),
            "{command:?}: {found:?}"
        );
        let record = link("https://example.com/", 1);
        let held = lock(&redis).await;
        redis.fill(&record, &found, held).await.unwrap();
        assert_eq!(looked_up(&redis).await, Lookup::Known(record));
    }
}

#[tokio::test]
async fn scripts_that_redis_has_forgotten_are_sent_again() {
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
            Lookup::Known(link("https://example.com/", rev))
        );
    }
}

#[tokio::test]
async fn a_change_that_is_not_published_takes_the_record_and_the_lock_away() {
    let (_server, redis) = server().await;
    let held = lock(&redis).await;
    redis.forget(GENERATION, &[KEY.to_owned()]).await.unwrap();
    let old = link("https://old.example/", 1);
    redis.fill(&old, &Lookup::Unknown, held).await.unwrap();
    assert_eq!(looked_up(&redis).await, Lookup::Unknown);
}

#[tokio::test]
async fn a_generation_does_not_see_what_was_cached_in_another() {
    let (_server, redis) = server().await;
    let record = link("https://example.com/", 1);
    fill(&redis, &record).await;
    let other = redis.look_up(GENERATION + 1, KEY).await.unwrap();
    assert_eq!(other.lookup, Lookup::Unknown);
    assert_eq!(looked_up(&redis).await, Lookup::Known(record));
}

#[tokio::test]
async fn a_lookup_says_how_far_the_publisher_has_written_to_this_very_redis() {
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
