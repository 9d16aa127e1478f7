//! Following the stream.

use crate::redis::fixture::{GENERATION, LIMIT, append, beat, connected, order, try_append};
use edgelink_feed::{Feed, Tail};
use edgelink_redis::Redis;
use edgelink_settings::config::FeedConfig;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::until;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{FeedBatch, FeedPosition};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

struct Following {
    server: RedisServer,
    redis: Arc<Redis>,
    feed: Arc<Feed>,
    position: FeedPosition,
    stop: CancellationToken,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Following {
    /// A feed that has caught up with a stream of one entry.
    async fn start() -> Self {
        let server = RedisServer::start().await;
        let redis = connected(&server.url()).await;
        let feed = Arc::new(Feed::new(&FeedConfig::default(), Vec::new()));
        let stop = CancellationToken::new();
        append(&redis, &[beat(0)]).await;
        tokio::spawn(Tail::new(redis.clone(), feed.clone()).run(stop.clone()));
        // Of which generation the stream is, a beat has to say.
        let position = until("the generation", LIMIT, async || {
            let position = append(&redis, &[beat(0)]).await;
            let is_there = feed.wait_for_position(position, LIMIT).await;
            (is_there && feed.place().0 == GENERATION).then_some(position)
        })
        .await;
        Self {
            server,
            redis,
            feed,
            position,
            stop,
        }
    }

    async fn append(&self, number: u64) -> FeedPosition {
        append(&self.redis, &[beat(number)]).await
    }

    /// Reads on: whether there was a gap, and the numbers of the beats that came.
    async fn read(&mut self) -> (bool, Vec<u64>) {
        let batch = self.feed.read(self.position, LIMIT).await;
        self.position = batch.next;
        let bytes = batch.to_bytes();
        let messages = FeedBatch::decode(&bytes).unwrap().messages;
        let bounds = messages.into_iter().filter_map(|message| match message {
            Ok(FeedMessage::Beat(beat)) => Some(beat.number),
            _ => None,
        });
        (batch.gap, bounds.collect())
    }
}

#[tokio::test]
async fn entries_when_appended_come_in_order() {
    let mut following = Following::start().await;
    for bound in 1..=3 {
        following.append(bound).await;
        assert_eq!(following.read().await, (false, vec![bound]));
    }
}

#[tokio::test]
async fn feed_when_redis_is_flushed_has_a_gap_and_goes_on() {
    let mut following = Following::start().await;
    let _ = following.server.ask(&["FLUSHALL"]);
    following.append(1).await;
    assert!(following.read().await.0);
    following.append(2).await;
    assert_eq!(following.read().await.1.last(), Some(&2));
}

#[tokio::test]
async fn feed_when_its_connection_is_lost_has_no_gap() {
    let mut following = Following::start().await;
    following.append(1).await;
    assert_eq!(following.read().await, (false, vec![1]));
    let killed = following
        .server
        .ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert!(killed.trim().parse::<u32>().is_ok_and(|count| count > 0));
    until("the next entry", LIMIT, async || {
        try_append(&following.redis, &[beat(2)]).await
    })
    .await;
    assert_eq!(following.read().await, (false, vec![2]));
    following.append(3).await;
    assert_eq!(following.read().await, (false, vec![3]));
}

#[tokio::test]
async fn feed_when_read_entries_are_trimmed_has_no_gap() {
    let mut following = Following::start().await;
    for number in 1..=3 {
        following.append(number).await;
        assert_eq!(following.read().await, (false, vec![number]));
    }
    let trimmed = following.server.ask(&["XTRIM", "feed", "MAXLEN", "1"]);
    assert!(trimmed.trim().parse::<u32>().is_ok_and(|count| count > 0));
    following.append(4).await;
    assert_eq!(following.read().await, (false, vec![4]));
}

#[tokio::test]
async fn feed_when_unread_entries_are_trimmed_has_a_gap() {
    let mut following = Following::start().await;
    let script = "redis.call('XADD','feed','*','op','beat','bound','1','generation','7','number','1','at','1','prev',redis.call('XREVRANGE','feed','+','-')[1][1]) \
                  redis.call('XADD','feed','MAXLEN','1','*','op','beat','bound','1','generation','7','number','2','at','1','prev',redis.call('XREVRANGE','feed','+','-')[1][1])";
    let _ = following.server.ask(&["EVAL", script, "1", "feed"]);
    assert!(following.read().await.0);
    following.append(3).await;
    assert_eq!(following.read().await.1.last(), Some(&3));
}

#[tokio::test]
async fn feed_when_redis_restarts_with_a_clock_behind_has_a_gap() {
    let mut following = Following::start().await;
    following.server.restart().await;
    let _ = following
        .server
        .ask(&["XADD", "feed", "5-1", "op", "flush", "prev", "0-0"]);
    assert!(following.read().await.0);
    until("the next entry", LIMIT, async || {
        try_append(&following.redis, &[beat(9)]).await
    })
    .await;
    assert_eq!(following.read().await.1.first(), Some(&9));
}

#[tokio::test]
async fn feed_when_an_entry_is_foreign_has_a_gap() {
    let mut following = Following::start().await;
    let _ = following.server.ask(&["XADD", "feed", "*", "garbage", "x"]);
    assert!(following.read().await.0);
    following.append(1).await;
    assert_eq!(following.read().await, (false, vec![1]));
}

#[tokio::test]
async fn entry_when_of_a_newer_version_is_a_change_or_a_gap() {
    let mut following = Following::start().await;
    let previous = following.position.to_string();
    let entry = ["XADD", "feed", "*", "op", "upsert", "prev", &previous];
    let _ = following
        .server
        .ask(&[&entry[..], &["key", "a.example/x"]].concat());
    let batch = following.feed.read(following.position, LIMIT).await;
    let bytes = batch.to_bytes();
    let changed = FeedMessage::Changed { key: "a.example/x" };
    let messages = FeedBatch::decode(&bytes).unwrap().messages;
    assert_eq!((batch.gap, messages), (false, vec![Ok(changed)]));
    following.position = batch.next;
    let previous = following.position.to_string();
    let _ = following
        .server
        .ask(&["XADD", "feed", "*", "op", "upsert", "prev", &previous]);
    assert!(following.read().await.0);
}

#[tokio::test]
async fn feed_when_the_generation_changes_has_a_gap() {
    let mut following = Following::start().await;
    let other = FeedMessage::Beat(edgelink_wire::feed::Beat {
        generation: GENERATION + 1,
        ..Default::default()
    });
    let order = order(2, GENERATION + 1);
    following.redis.append(&order, &[other]).await.unwrap();
    until("the generation", LIMIT, async || {
        (following.feed.place().0 == GENERATION + 1).then_some(())
    })
    .await;
    let place = (GENERATION, following.position);
    // Nothing has asked the database here: the feed is not current, and what it has would be a gap.
    let polled = following.feed.poll(None, Some(place), LIMIT).await;
    assert!(polled.is_err());
    following.feed.clock().note(tokio::time::Instant::now(), 1);
    let polled = following.feed.poll(None, Some(place), LIMIT).await.unwrap();
    assert!(polled.gap && polled.generation == GENERATION + 1);
    following.position = polled.next;
}
