//! Destination of changes: Redis for all replicas and edges, or this process alone.

use crate::Feed;
use edgelink_model::clock;
use edgelink_redis::{Append, Appended, Nudges, Redis, RedisError, StoredState};
use edgelink_store::FeedKind;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{FeedPosition, Record};
use std::sync::Arc;

/// Destination of published changes.
#[derive(Clone)]
pub enum FeedSink {
    /// Redis: the hashes of links, and the stream that all replicas and edges read.
    Redis(Arc<Redis>),
    /// This process only.
    Local(Arc<Feed>),
}

impl FeedSink {
    /// Its kind.
    pub(super) fn kind(&self) -> FeedKind {
        match self {
            Self::Redis(_) => FeedKind::Redis,
            Self::Local(_) => FeedKind::Local,
        }
    }

    /// The state that was written there last; `None` for this process, whose feed starts over with every lease.
    pub(super) async fn stored_state(&self) -> Result<Option<StoredState>, RedisError> {
        match self {
            Self::Redis(redis) => redis.stored_state().await,
            Self::Local(_) => Ok(None),
        }
    }

    /// A text that changes when writes may have been lost there.
    pub(super) async fn nodes(&self) -> Result<String, RedisError> {
        match self {
            Self::Redis(redis) => redis.nodes().await,
            Self::Local(_) => Ok(String::new()),
        }
    }

    /// Replaces the links of these messages in the cache that replicas and edges share.
    pub(super) async fn cache(
        &self,
        generation: u64,
        messages: &[FeedMessage<'_>],
    ) -> Result<(), RedisError> {
        let Self::Redis(redis) = self else {
            return Ok(());
        };
        let (mut records, mut changed) = (Vec::new(), Vec::new());
        for message in messages {
            match *message {
                FeedMessage::Put { key, record, .. } => records.push((key, record.record())),
                FeedMessage::Del { key, rev } => records.push((key, Record::Absent { rev })),
                FeedMessage::Changed { key } => changed.push(key.to_owned()),
                FeedMessage::Flush | FeedMessage::Beat(_) => {}
            }
        }
        redis.publish(generation, &records).await?;
        if !changed.is_empty() {
            redis.forget(generation, &changed).await?;
        }
        Ok(())
    }

    /// Appends messages to the feed, unless the fence or a loss there forbids it.
    pub(super) async fn append(
        &self,
        order: &Append<'_>,
        messages: &[FeedMessage<'_>],
    ) -> Result<Appended, RedisError> {
        match self {
            Self::Redis(redis) => redis.append(order, messages).await,
            Self::Local(feed) => {
                if order.begins {
                    feed.reset(order.generation, next_position(feed.end()));
                }
                for message in messages {
                    feed.push(next_position(feed.end()), message);
                }
                Ok(Appended::At(feed.end()))
            }
        }
    }

    /// Nudges the replica that publishes.
    pub(super) async fn nudge(&self) -> Result<(), RedisError> {
        match self {
            Self::Redis(redis) => redis.nudge().await,
            Self::Local(_) => Ok(()),
        }
    }

    /// True while nudges of other replicas are lost.
    pub(super) fn misses_nudges(&self) -> bool {
        match self {
            Self::Redis(redis) => redis.misses_nudges(),
            Self::Local(_) => false,
        }
    }

    /// True if it seems to accept writes.
    pub(super) async fn takes_writes(&self) -> bool {
        match self {
            Self::Redis(redis) => redis.takes_writes().await,
            Self::Local(_) => true,
        }
    }

    /// Nudges of other replicas; `None` for this process.
    pub(super) fn nudges(&self) -> Option<Nudges> {
        match self {
            Self::Redis(redis) => Some(redis.nudges()),
            Self::Local(_) => None,
        }
    }
}

/// A position after `last`, formed like an id of Redis.
fn next_position(last: FeedPosition) -> FeedPosition {
    let now = clock::unix_millis();
    if now > last.millis {
        FeedPosition::new(now, 0)
    } else {
        FeedPosition::new(last.millis, last.sequence + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_when_clock_stands_still_grows() {
        let future = FeedPosition::new(u64::MAX, 7);
        assert_eq!(next_position(future), FeedPosition::new(u64::MAX, 8));
        assert!(next_position(FeedPosition::START).millis > 1_700_000_000_000);
    }
}
