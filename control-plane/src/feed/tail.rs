//! Reading the feed out of Redis.

use super::Feed;
use crate::redis::{Redis, RedisError, StreamEntry};
use crate::telemetry::prometheus::{FEED_GAPS, FEED_MALFORMED};
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::{Beat, FeedMessage};
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The most entries in one answer.
const LIMIT: u64 = 1000;

/// The pause after a failure; no connection fails at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Keeps a [`Feed`] up with the stream in Redis.
pub struct Tail {
    redis: Arc<Redis>,
    feed: Arc<Feed>,
    /// Nothing before the first answer of Redis.
    position: Option<FeedPosition>,
    is_failing: bool,
    has_warned: bool,
}

impl Tail {
    /// A tail that has read nothing yet.
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
                let result = self.step().await;
                self.note(&result);
                if result.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = reading => {}
        }
    }

    async fn step(&mut self) -> Result<(), RedisError> {
        let Some(position) = self.position else {
            let newest = self.redis.newest().await?;
            self.start_anew(newest);
            return Ok(());
        };
        let entries = self.redis.read_feed(position, LIMIT).await?;
        if entries.is_empty() {
            return self.look_for_a_restart(position).await;
        }
        for entry in entries {
            self.take(&entry);
        }
        Ok(())
    }

    /// A Redis that was restarted empty, with a clock that is behind, gives ids out that are before ours: those we would
    /// never be told of.
    async fn look_for_a_restart(&mut self, position: FeedPosition) -> Result<(), RedisError> {
        let newest = self.redis.newest().await?;
        if newest < position && newest != FeedPosition::START {
            self.gap(newest);
        }
        Ok(())
    }

    fn take(&mut self, entry: &StreamEntry) {
        // An entry without its predecessor is not ours. It stands between ours, so those behind it do not join either.
        let joins = entry.previous().ok() == self.position;
        match entry.message() {
            Ok(message) => {
                if !joins || self.is_other_generation(&message) {
                    self.start_behind(entry, &message, joins);
                }
                self.position = Some(entry.position);
                self.feed.push(entry.position, &message);
            }
            Err(error) => {
                counter!(FEED_MALFORMED).increment(1);
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(%error, position = %entry.position, "an entry of the feed cannot be read; further ones are only counted");
                }
                // It may be about any link.
                self.gap(entry.position);
            }
        }
    }

    fn is_other_generation(&self, message: &FeedMessage<'_>) -> bool {
        matches!(message, FeedMessage::Beat(beat) if beat.generation != self.feed.place().0)
    }

    /// Starts in front of an entry. Of which generation it is, only a beat says.
    fn start_behind(&mut self, entry: &StreamEntry, message: &FeedMessage<'_>, joins: bool) {
        let position = entry.previous().unwrap_or(entry.position);
        if !joins {
            counter!(FEED_GAPS).increment(1);
            tracing::warn!(%position, "changes are missing in the feed: starting anew");
        }
        let generation = match message {
            FeedMessage::Beat(Beat { generation, .. }) => *generation,
            _ => 0,
        };
        self.position = Some(position);
        self.feed.start_anew(generation, position);
    }

    fn gap(&mut self, position: FeedPosition) {
        counter!(FEED_GAPS).increment(1);
        tracing::warn!(%position, "changes are missing in the feed: starting anew");
        self.start_anew(position);
    }

    fn start_anew(&mut self, position: FeedPosition) {
        self.position = Some(position);
        self.feed.start_anew(0, position);
    }

    fn note(&mut self, result: &Result<(), RedisError>) {
        match result {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the feed is read again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "the feed cannot be read");
                }
            }
        }
    }
}
