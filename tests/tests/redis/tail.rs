//! Following the stream.

use crate::fixture::{LIMIT, connected};
use edgelink_control_plane::feed::{Feed, RingLimits, Tail};
use edgelink_control_plane::redis::Redis;
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
        let feed = Arc::new(Feed::new(RingLimits::default(), Vec::new()));
        let stop = CancellationToken::new();
        let position = redis.append(&[FeedMessage::Flush]).await.unwrap();
        tokio::spawn(Tail::new(redis.clone(), feed.clone()).run(stop.clone()));
        assert!(feed.catch_up(position, LIMIT).await);
        Self {
            server,
            redis,
            feed,
            position,
            stop,
        }
    }

    async fn append(&self, bound: u64) -> FeedPosition {
        self.redis
            .append(&[FeedMessage::Bound { bound }])
            .await
            .unwrap()
    }

    /// Reads on: whether there was a gap, and the bounds that came.
    async fn read(&mut self) -> (bool, Vec<u64>) {
        let batch = self.feed.read(Some(self.position), LIMIT).await;
        self.position = batch.next;
        let bytes = batch.to_bytes();
        let messages = FeedBatch::decode(&bytes).unwrap().messages;
        let bounds = messages.into_iter().filter_map(|message| match message {
            Ok(FeedMessage::Bound { bound }) => Some(bound),
            _ => None,
        });
        (batch.gap, bounds.collect())
    }
}

#[tokio::test]
async fn what_is_appended_comes_in_order() {
    let mut following = Following::start().await;
    for bound in 1..=3 {
        following.append(bound).await;
        assert_eq!(following.read().await, (false, vec![bound]));
    }
}

#[tokio::test]
async fn a_flush_of_redis_is_a_gap_and_the_feed_goes_on() {
    let mut following = Following::start().await;
    let _ = following.server.ask(&["FLUSHALL"]);
    following.append(1).await;
    assert!(following.read().await.0);
    following.append(2).await;
    assert_eq!(following.read().await.1.last(), Some(&2));
}

#[tokio::test]
async fn entries_that_were_trimmed_before_they_were_read_are_a_gap() {
    let mut following = Following::start().await;
    let script = "redis.call('XADD','feed','*','op','bound','bound','1','prev',redis.call('XREVRANGE','feed','+','-')[1][1]) \
                  redis.call('XADD','feed','MAXLEN','1','*','op','bound','bound','2','prev',redis.call('XREVRANGE','feed','+','-')[1][1])";
    let _ = following.server.ask(&["EVAL", script, "1", "feed"]);
    assert!(following.read().await.0);
    following.append(3).await;
    assert_eq!(following.read().await.1.last(), Some(&3));
}

#[tokio::test]
async fn a_restarted_redis_is_a_gap_even_where_its_clock_is_behind() {
    let mut following = Following::start().await;
    following.server.restart().await;
    let _ = following
        .server
        .ask(&["XADD", "feed", "5-1", "op", "flush", "prev", "0-0"]);
    assert!(following.read().await.0);
    until("the next entry", LIMIT, async || {
        following
            .redis
            .append(&[FeedMessage::Bound { bound: 9 }])
            .await
            .ok()
    })
    .await;
    assert_eq!(following.read().await.1.first(), Some(&9));
}

#[tokio::test]
async fn an_entry_that_is_not_ours_is_a_gap_and_harms_nothing_else() {
    let mut following = Following::start().await;
    let _ = following.server.ask(&["XADD", "feed", "*", "garbage", "x"]);
    assert!(following.read().await.0);
    following.append(1).await;
    assert_eq!(following.read().await, (false, vec![1]));
}

#[tokio::test]
async fn an_entry_of_a_newer_version_is_passed_over() {
    let mut following = Following::start().await;
    let previous = following.position.to_string();
    let _ = following
        .server
        .ask(&["XADD", "feed", "*", "op", "upsert", "prev", &previous]);
    let (gap, bounds) = following.read().await;
    assert_eq!((gap, bounds.len()), (false, 0));
    following.append(1).await;
    let (gap, bounds) = following.read().await;
    assert!(!gap && bounds.iter().all(|bound| *bound == 1));
}
