//! The reader of the feed in Redis.

use super::Feed;
use edgelink_redis::{Redis, RedisError, StreamEntry};
use edgelink_settings::telemetry::prometheus::{FEED_GAPS, FEED_MALFORMED};
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::{Beat, FeedMessage};
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The most entries in one answer.
const LIMIT: u64 = 1000;

/// The pause before a retry; without a connection, a read fails at once.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Applies the stream in Redis to a [`Feed`].
pub struct Tail {
    redis: Arc<Redis>,
    feed: Arc<Feed>,
    /// The last position read; `None` before the first answer of Redis.
    position: Option<FeedPosition>,
    is_failing: bool,
    has_warned: bool,
}

impl Tail {
    /// Creates a tail that has read nothing yet.
    #[must_use]
    pub fn new(redis: Arc<Redis>, feed: Arc<Feed>) -> Self {
        Self {
            redis,
            feed,
            position: None,
            is_failing: false,
            has_warned: false,
        }
    }

    /// Reads until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let reading = async {
            loop {
                let result = self.read_once().await;
                self.log_result(&result);
                if result.is_err() {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = reading => {}
        }
    }

    async fn read_once(&mut self) -> Result<(), RedisError> {
        let Some(position) = self.position else {
            let newest = self.redis.newest().await?;
            self.reset(newest);
            return Ok(());
        };
        let entries = self.redis.read_feed(position, LIMIT).await?;
        if entries.is_empty() {
            return self.detect_redis_restart(position).await;
        }
        for entry in entries {
            self.apply_entry(&entry);
        }
        Ok(())
    }

    /// Resets the feed if the newest entry precedes our position: a Redis that was restarted empty, with a clock that
    /// is behind, gives such ids, and a read after our position never returns them.
    async fn detect_redis_restart(&mut self, position: FeedPosition) -> Result<(), RedisError> {
        let newest = self.redis.newest().await?;
        if newest < position && newest != FeedPosition::START {
            self.gap(newest);
        }
        Ok(())
    }

    fn apply_entry(&mut self, entry: &StreamEntry) {
        // An entry whose predecessor is not ours leaves a gap, and so do its successors.
        let joins = entry.previous().ok() == self.position;
        match entry.message() {
            Ok(message) => {
                if !joins || self.is_other_generation(&message) {
                    self.reset_before(entry, &message, joins);
                }
                self.position = Some(entry.position);
                self.feed.push(entry.position, &message);
                if let Some(key) = message.changed_key() {
                    tracing::debug!(%key, "a change is read");
                }
            }
            Err(error) => {
                counter!(FEED_MALFORMED).increment(1);
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(%error, position = %entry.position, "malformed entry in the feed; caches drop everything (further ones are only counted)");
                }
                // The entry may be about any link.
                self.gap(entry.position);
            }
        }
    }

    fn is_other_generation(&self, message: &FeedMessage<'_>) -> bool {
        matches!(message, FeedMessage::Beat(beat) if beat.generation != self.feed.place().0)
    }

    /// Resets the feed to the position before an entry. Only a beat has its generation.
    fn reset_before(&mut self, entry: &StreamEntry, message: &FeedMessage<'_>, joins: bool) {
        let position = entry.previous().unwrap_or(entry.position);
        if !joins {
            counter!(FEED_GAPS).increment(1);
            tracing::warn!(%position, "changes are missing from the feed; caches drop everything and continue from here");
        }
        let generation = match message {
            FeedMessage::Beat(Beat { generation, .. }) => *generation,
            _ => 0,
        };
        self.position = Some(position);
        self.feed.reset(generation, position);
    }

    fn gap(&mut self, position: FeedPosition) {
        counter!(FEED_GAPS).increment(1);
        tracing::warn!(%position, "changes are missing from the feed; caches drop everything and continue from here");
        self.reset(position);
    }

    fn reset(&mut self, position: FeedPosition) {
        self.position = Some(position);
        self.feed.reset(0, position);
    }

    fn log_result(&mut self, result: &Result<(), RedisError>) {
        match result {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the feed in Redis is read again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "reading the feed in Redis failed: retrying");
                }
            }
        }
    }
}
