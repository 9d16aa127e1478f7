//! The stream of changes.

use crate::redis::fixture::{FEED_BYTES, GENERATION, LIMIT, append, beat, connected, link, order};
use edgelink_model::drawn::Drawn;
use edgelink_redis::{Append, Appended, Redis};
use edgelink_tests::servers::RedisServer;
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::record::RecordBytes;

fn beats(numbers: std::ops::Range<u64>) -> Vec<FeedMessage<'static>> {
    numbers.map(beat).collect()
}

#[tokio::test]
async fn entries_when_read_are_in_order_and_name_their_predecessor() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    assert_eq!(redis.newest().await.unwrap(), FeedPosition::START);
    let record = link("https://example.com/ä".trim_end_matches('ä'), 3);
    let record = RecordBytes::of(&record.as_deref());
    let put = FeedMessage::Put {
        key: "a.example/b",
        record: record.as_deref(),
        hot: true,
    };
    append(&redis, &[put, FeedMessage::Flush]).await;
    let last = append(&redis, &beats(7..8)).await;
    let entries = redis.read_feed(FeedPosition::START, 10).await.unwrap();
    let messages: Vec<FeedMessage<'_>> = entries
        .iter()
        .map(|entry| entry.message().unwrap())
        .collect();
    assert_eq!(messages, [put, FeedMessage::Flush, beat(7)]);
    let mut previous = FeedPosition::START;
    for entry in &entries {
        assert_eq!(entry.previous().unwrap(), previous);
        previous = entry.position;
    }
    assert_eq!((last, redis.newest().await.unwrap()), (previous, previous));
    let rest = redis.read_feed(entries[0].position, 1).await.unwrap();
    assert_eq!(rest, entries[1..2]);
}

#[tokio::test]
async fn stream_when_long_keeps_about_the_configured_entries() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    for start in (0..5000).step_by(500) {
        append(&redis, &beats(start..start + 500)).await;
    }
    let length: u64 = server.ask(&["XLEN", "feed"]).trim().parse().unwrap();
    assert!((1000..1300).contains(&length), "{length}");
}

#[tokio::test]
async fn reader_when_it_waits_is_woken_by_an_entry() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    assert!(
        redis
            .read_feed(FeedPosition::START, 10)
            .await
            .unwrap()
            .is_empty()
    );
    let reader = tokio::spawn({
        let redis = redis.clone();
        async move { redis.read_feed(FeedPosition::START, 10).await }
    });
    edgelink_tests::stack::until("a blocked reader", LIMIT, async || {
        server
            .ask(&["INFO", "clients"])
            .contains("blocked_clients:1")
            .then_some(())
    })
    .await;
    append(&redis, &beats(1..2)).await;
    assert_eq!(reader.await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn nudges_when_redis_restarts_still_reach_replicas() {
    let mut server = RedisServer::start().await;
    let (one, other) = (
        connected(&server.url()).await,
        connected(&server.url()).await,
    );
    for _ in 0..2 {
        let mut nudges = other.nudges();
        let nudged = tokio::spawn(async move { nudges.next().await });
        edgelink_tests::stack::until("the nudge", LIMIT, async || {
            let _ = one.nudge().await;
            nudged.is_finished().then_some(())
        })
        .await;
        server.restart().await;
    }
}

async fn appended(redis: &edgelink_redis::Redis, order: Append<'_>) -> Appended {
    redis.append(&order, &[beat(1)]).await.unwrap()
}

#[tokio::test]
async fn publisher_when_its_token_is_older_is_refused() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    for (token, owner, expected) in [
        (9, "one", None),
        (9, "one", None),
        (10, "two", None),
        (9, "one", Some(10)),
        // The database has given it out twice.
        (10, "one", Some(10)),
        (11, "one", None),
        // As numbers of Lua, the two were the same.
        (9_007_199_254_740_993, "one", None),
        (9_007_199_254_740_992, "two", Some(9_007_199_254_740_993)),
    ] {
        let order = Append {
            owner,
            ..order(token, GENERATION)
        };
        match (appended(&redis, order).await, expected) {
            (Appended::At(_), None) => {}
            (Appended::Fenced(seen), Some(expected)) => assert_eq!(seen, expected),
            other => panic!("{token} {owner}: {other:?}"),
        }
    }
    let other = Append {
        installation: "other",
        ..order(u64::MAX, GENERATION)
    };
    assert_eq!(
        appended(&redis, other).await,
        Appended::Foreign("ours".to_owned())
    );
}

#[tokio::test]
async fn drawn_numbers_when_lower_ones_come_do_not_go_back() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    for (drawn, expected) in [
        ([0; 4], [0; 4]),
        ([9, 8, 7, 6], [9, 8, 7, 6]),
        ([10, 7, 8, 0], [10, 8, 8, 6]),
    ] {
        let [allocated, sum, counted, counts] = drawn;
        let drawn = Drawn {
            allocated,
            sum,
            counted,
            counts,
        };
        let order = Append {
            drawn,
            ..order(1, GENERATION)
        };
        let done = appended(&redis, order).await;
        assert!(matches!(done, Appended::At(_)), "{done:?}");
        let stored = redis.stored_state().await.unwrap().unwrap().drawn;
        let stored = [stored.allocated, stored.sum, stored.counted, stored.counts];
        assert_eq!(stored, expected);
    }
}

#[tokio::test]
async fn append_when_redis_has_changed_needs_another_generation() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    let goes_on = |generation, after| Append {
        begins: false,
        flushed_in: 0,
        after,
        ..order(1, generation)
    };
    let gone = |what: &str| Appended::GoneBack(what.to_owned());
    let start = FeedPosition::START;
    assert_eq!(appended(&redis, goes_on(7, start)).await, gone("state"));
    let Appended::At(first) = appended(&redis, order(1, 7)).await else {
        panic!("not appended");
    };
    for after in [start, first] {
        let done = appended(&redis, goes_on(7, after)).await;
        assert!(matches!(done, Appended::At(_)), "{done:?}");
    }
    assert_eq!(
        appended(&redis, goes_on(8, first)).await,
        gone("generation")
    );
    let lost = FeedPosition::new(first.millis + 1_000_000, 0);
    assert_eq!(appended(&redis, goes_on(7, lost)).await, gone("position"));
    let _ = server.ask(&["DEL", "feed"]);
    assert_eq!(appended(&redis, goes_on(7, first)).await, gone("position"));
    let _ = server.ask(&["FLUSHALL"]);
    assert_eq!(appended(&redis, goes_on(7, first)).await, gone("state"));
    assert_eq!(redis.newest().await.unwrap(), start, "nothing was appended");
}

/// Appends so many links of almost 8 KiB, at most 64 at once.
async fn append_long_links(redis: &Redis, count: usize) {
    let long = link(&format!("https://example.com/{}", "x".repeat(7_900)), 1);
    let long = RecordBytes::of(&long.as_deref());
    let put = FeedMessage::Put {
        key: "a.example/b",
        record: long.as_deref(),
        hot: false,
    };
    for messages in vec![put; count].chunks(64) {
        append(redis, messages).await;
    }
}

#[tokio::test]
async fn stream_when_links_are_long_keeps_about_the_configured_bytes() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    append_long_links(&redis, 20 * 64).await;
    let bytes: u64 = server
        .ask(&["MEMORY", "USAGE", "feed"])
        .trim()
        .parse()
        .unwrap();
    assert!(bytes < FEED_BYTES + 64 * 9_000, "{bytes}");
    assert!(bytes > FEED_BYTES / 4, "{bytes}");
}

#[tokio::test]
async fn stream_when_redis_is_full_is_trimmed() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    append_long_links(&redis, 6 * 64).await;
    let memory = server.ask(&["INFO", "memory"]);
    let used = memory
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    let _ = server.ask(&["CONFIG", "SET", "maxmemory", used.unwrap().trim()]);
    let refused = server.ask(&["SET", "other", &"x".repeat(20_000)]);
    assert!(refused.contains("OOM"), "{refused}");
    let length = || server.ask(&["XLEN", "feed"]).trim().parse::<u64>().unwrap();
    let before = length();
    append_long_links(&redis, 5).await;
    assert!(length() < before, "{before}");
}
