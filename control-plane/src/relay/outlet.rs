//! Where changes are published.

use super::RelayError;
use crate::clock;
use crate::feed::Feed;
use crate::redis::{Nudges, Redis};
use crate::store::{MalformedBatch, PendingBatch, PendingChange};
use crate::telemetry::prometheus::RELAY_MALFORMED;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{FeedPosition, Record};
use metrics::counter;
use std::sync::Arc;

/// How many changes are published by one message to Redis.
const AT_ONCE: usize = 256;

/// Where changes are published.
pub enum Outlet {
    /// Redis: the hashes of links, and the stream that all replicas and edges read.
    Redis(Arc<Redis>),
    /// This process only.
    Local(Arc<Feed>),
}

impl Outlet {
    /// Publishes batches of changes in their order, and says how many changes they were.
    pub(super) async fn publish(&self, batches: &[PendingBatch]) -> Result<u64, RelayError> {
        let mut changes = Vec::new();
        for batch in batches {
            match batch.changes() {
                Ok(some) => changes.extend(some),
                Err(error) => self.give_up(batch.id, error).await?,
            }
        }
        for some in changes.chunks(AT_ONCE) {
            self.publish_some(some).await?;
        }
        Ok(changes.len() as u64)
    }

    async fn publish_some(&self, changes: &[PendingChange<'_>]) -> Result<(), RelayError> {
        let messages: Vec<FeedMessage<'_>> = changes.iter().map(message).collect();
        if let Self::Redis(redis) = self {
            redis.publish(&records(&messages)).await?;
            for change in changes.iter().filter(|change| change.record().is_err()) {
                redis.forget(change.key).await?;
            }
        }
        self.send(&messages).await
    }

    /// Of a batch that cannot be taken apart nobody knows which links it is about: everybody is to forget everything.
    async fn give_up(&self, row: u64, error: MalformedBatch) -> Result<(), RelayError> {
        counter!(RELAY_MALFORMED).increment(1);
        tracing::error!(row, %error, "changes cannot be read: all caches start anew instead");
        self.send(&[FeedMessage::Flush]).await
    }

    /// Puts messages on the feed.
    pub(crate) async fn send(&self, messages: &[FeedMessage<'_>]) -> Result<(), RelayError> {
        match self {
            Self::Redis(redis) => {
                redis.append(messages).await?;
            }
            Self::Local(feed) => {
                for message in messages {
                    feed.push(next_position(feed.end()), message);
                }
            }
        }
        Ok(())
    }

    /// Tells the replica that publishes to look.
    pub(super) async fn nudge(&self) -> Result<(), RelayError> {
        match self {
            Self::Redis(redis) => Ok(redis.nudge().await?),
            Self::Local(_) => Ok(()),
        }
    }

    /// The nudges of other replicas.
    pub(super) fn nudges(&self) -> Option<Nudges> {
        match self {
            Self::Redis(redis) => Some(redis.nudges()),
            Self::Local(_) => None,
        }
    }
}

/// What is published of a change. One that a newer version wrote is not understood: everybody is to forget everything then,
/// for that is right whatever it says.
fn message<'a>(change: &PendingChange<'a>) -> FeedMessage<'a> {
    let key = change.key;
    match change.record() {
        Ok(Record::Absent { rev }) => FeedMessage::Del { key, rev },
        Ok(record) => FeedMessage::Put {
            key,
            record,
            hot: false,
        },
        Err(error) => {
            counter!(RELAY_MALFORMED).increment(1);
            tracing::error!(%key, %error, "a change cannot be read: all caches start anew instead");
            FeedMessage::Flush
        }
    }
}

fn records<'a>(messages: &[FeedMessage<'a>]) -> Vec<(&'a str, Record<&'a str>)> {
    let record = |message: &FeedMessage<'a>| match *message {
        FeedMessage::Put { key, record, .. } => Some((key, record)),
        FeedMessage::Del { key, rev } => Some((key, Record::Absent { rev })),
        FeedMessage::Flush | FeedMessage::Bound { .. } => None,
    };
    messages.iter().filter_map(record).collect()
}

/// A position behind `last`, made as Redis makes its ids.
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
    fn positions_grow_even_where_the_clock_does_not() {
        let future = FeedPosition::new(u64::MAX, 7);
        assert_eq!(next_position(future), FeedPosition::new(u64::MAX, 8));
        assert!(next_position(FeedPosition::START).millis > 1_700_000_000_000);
    }

    #[test]
    fn a_change_that_cannot_be_read_makes_everybody_forget() {
        let change = |record| PendingChange::new(b"a.example/b", record).unwrap();
        assert_eq!(message(&change(b"\x09")), FeedMessage::Flush);
        let deleted = change(b"\x01\x80\x07");
        assert_eq!(
            message(&deleted),
            FeedMessage::Del {
                key: "a.example/b",
                rev: 7
            }
        );
    }
}
