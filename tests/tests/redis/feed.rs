//! The stream of changes.

use crate::fixture::{LIMIT, connected, link};
use edgelink_tests::servers::RedisServer;
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::FeedMessage;

fn bounds(numbers: std::ops::Range<u64>) -> Vec<FeedMessage<'static>> {
    numbers.map(|bound| FeedMessage::Bound { bound }).collect()
}

#[tokio::test]
async fn entries_are_read_in_order_and_each_names_the_one_before() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    assert_eq!(redis.newest().await.unwrap(), FeedPosition::START);
    let record = link("https://example.com/ä".trim_end_matches('ä'), 3);
    let put = FeedMessage::Put {
        key: "a.example/b",
        record: record.as_deref(),
        hot: true,
    };
    redis.append(&[put, FeedMessage::Flush]).await.unwrap();
    let last = redis.append(&bounds(7..8)).await.unwrap();
    let entries = redis.read_feed(FeedPosition::START, 10).await.unwrap();
    let messages: Vec<FeedMessage<'_>> = entries
        .iter()
        .map(|entry| entry.message().unwrap())
        .collect();
    assert_eq!(
        messages,
        [put, FeedMessage::Flush, FeedMessage::Bound { bound: 7 }]
    );
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
async fn the_stream_keeps_about_as_many_entries_as_configured() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    for start in (0..5000).step_by(500) {
        redis.append(&bounds(start..start + 500)).await.unwrap();
    }
    let length: u64 = server.ask(&["XLEN", "feed"]).trim().parse().unwrap();
    assert!((1000..1300).contains(&length), "{length}");
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_by_an_entry_and_answers_nothing_without_one() {
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
    redis.append(&bounds(1..2)).await.unwrap();
    assert_eq!(reader.await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn nudges_reach_every_replica_also_after_a_restart() {
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
