//! Where changes are published.

use crate::clock;
use crate::feed::Feed;
use crate::redis::{Append, Appended, Nudges, Redis, RedisError, StoredState, is_full};
use crate::store::{FeedKind, PendingBatch, PendingChange, StoreError};
use crate::telemetry::prometheus::PUBLISHER_MALFORMED;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{FeedPosition, Record};
use metrics::counter;
use std::sync::Arc;

/// Where changes are published.
#[derive(Clone)]
pub enum Outlet {
    /// Redis: the hashes of links, and the stream that all replicas and edges read.
    Redis(Arc<Redis>),
    /// This process only.
    Local(Arc<Feed>),
}

/// Why nothing was published.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Another database is published there.
    #[error(
        "Redis is used by another installation ({0}): give each its own redis.url. If no other one uses it, and the database \
         was restored from before it had a name: DEL {{feed}}:state"
    )]
    Foreign(String),
    /// The database seems to go back again and again.
    #[error(
        "the database went back a second time within 10 s: does a copy of it publish to this Redis? It is repaired after that"
    )]
    WentBackAgain,
}

impl Outlet {
    /// Which kind it is.
    pub(super) fn kind(&self) -> FeedKind {
        match self {
            Self::Redis(_) => FeedKind::Redis,
            Self::Local(_) => FeedKind::Local,
        }
    }

    /// What was written there last; nothing in this process, whose feed begins with every lease.
    pub(super) async fn stored_state(&self) -> Result<Option<StoredState>, RelayError> {
        match self {
            Self::Redis(redis) => Ok(redis.stored_state().await?),
            Self::Local(_) => Ok(None),
        }
    }

    /// A text that changes when what was written there may have been lost.
    pub(super) async fn nodes(&self) -> Result<String, RelayError> {
        match self {
            Self::Redis(redis) => Ok(redis.nodes().await?),
            Self::Local(_) => Ok(String::new()),
        }
    }

    /// Makes the links of these messages known in the caches that are shared.
    pub(super) async fn cache(
        &self,
        generation: u64,
        messages: &[FeedMessage<'_>],
    ) -> Result<(), RelayError> {
        let Self::Redis(redis) = self else {
            return Ok(());
        };
        let records = records(messages);
        match redis.publish(generation, &records).await {
            Err(RedisError::Refused(error)) if is_full(&error) => {
                redis.trim_to_half().await?;
                redis.publish(generation, &records).await?;
            }
            result => result?,
        }
        let changed = |message: &FeedMessage<'_>| match *message {
            FeedMessage::Changed { key } => Some(key.to_owned()),
            _ => None,
        };
        let changed: Vec<String> = messages.iter().filter_map(changed).collect();
        if !changed.is_empty() {
            redis.forget(generation, &changed).await?;
        }
        Ok(())
    }

    /// Puts messages on the feed, unless the fence or what was lost there forbids it.
    pub(super) async fn append(
        &self,
        order: &Append<'_>,
        messages: &[FeedMessage<'_>],
    ) -> Result<Appended, RelayError> {
        match self {
            Self::Redis(redis) => Ok(redis.append(order, messages).await?),
            Self::Local(feed) => Ok(Appended::At(append_here(feed, order, messages))),
        }
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

fn append_here(feed: &Feed, order: &Append<'_>, messages: &[FeedMessage<'_>]) -> FeedPosition {
    if order.begins {
        feed.start_anew(order.generation, next_position(feed.end()));
    }
    for message in messages {
        feed.push(next_position(feed.end()), message);
    }
    feed.end()
}

/// What is published of batches, in their order. Revisions up to `floor` are not told: a cache may have been told of the link
/// with that one before it had changed.
pub(super) fn messages(batches: &[PendingBatch], floor: u64) -> Vec<FeedMessage<'_>> {
    let mut messages = Vec::new();
    for batch in batches {
        match batch.changes() {
            Ok(changes) => messages.extend(changes.iter().map(|change| message(change, floor))),
            Err(error) => {
                counter!(PUBLISHER_MALFORMED).increment(1);
                tracing::error!(row = batch.id, %error, "changes cannot be read: caches ask for the links again");
                messages.extend(unreadable(batch));
            }
        }
    }
    messages
}

/// What is published of a batch that cannot be taken apart: which links have changed, or, if not even the keys are known, that
/// everything may have.
fn unreadable(batch: &PendingBatch) -> Vec<FeedMessage<'_>> {
    let keys = batch.keys.values();
    let keys: Option<Vec<&str>> = keys.map(|key| str::from_utf8(key.ok()?).ok()).collect();
    match keys.filter(|keys| !keys.is_empty()) {
        Some(keys) => {
            let changed = |key| FeedMessage::Changed { key };
            keys.into_iter().map(changed).collect()
        }
        None => vec![FeedMessage::Flush],
    }
}

fn message<'a>(change: &PendingChange<'a>, floor: u64) -> FeedMessage<'a> {
    let key = change.key;
    match change.record() {
        Ok(record) if record.rev() <= floor => FeedMessage::Changed { key },
        Ok(Record::Absent { rev }) => FeedMessage::Del { key, rev },
        Ok(record) => FeedMessage::Put {
            key,
            record,
            hot: false,
        },
        Err(error) => {
            counter!(PUBLISHER_MALFORMED).increment(1);
            tracing::error!(%key, %error, "a change cannot be read: caches ask for the link again");
            FeedMessage::Changed { key }
        }
    }
}

fn records<'a>(messages: &[FeedMessage<'a>]) -> Vec<(&'a str, Record<&'a str>)> {
    let record = |message: &FeedMessage<'a>| match *message {
        FeedMessage::Put { key, record, .. } => Some((key, record)),
        FeedMessage::Del { key, rev } => Some((key, Record::Absent { rev })),
        FeedMessage::Changed { .. } | FeedMessage::Flush | FeedMessage::Beat(_) => None,
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
    use crate::store::Packed;

    #[test]
    fn positions_grow_even_where_the_clock_does_not() {
        let future = FeedPosition::new(u64::MAX, 7);
        assert_eq!(next_position(future), FeedPosition::new(u64::MAX, 8));
        assert!(next_position(FeedPosition::START).millis > 1_700_000_000_000);
    }

    fn batch(keys: &[u8], records: &[u8]) -> PendingBatch {
        PendingBatch {
            id: 1,
            keys: Packed::from(keys.to_vec()),
            records: Packed::from(records.to_vec()),
        }
    }

    #[test]
    fn what_cannot_be_read_of_a_change_makes_caches_ask_for_as_little_as_possible() {
        let key = "a/b";
        let changed = FeedMessage::Changed { key };
        let deleted = FeedMessage::Del { key, rev: 7 };
        for (keys, records, floor, expected) in [
            (
                &b"\0\0\0\x03a/b"[..],
                &b"\0\0\0\x03\x01\x80\x07"[..],
                6,
                deleted,
            ),
            // A cache may have been told of this revision before the change.
            (b"\0\0\0\x03a/b", b"\0\0\0\x03\x01\x80\x07", 7, changed),
            (b"\0\0\0\x03a/b", b"\0\0\0\x01\x09", 0, changed),
            (b"\0\0\0\x03a/b", b"", 0, changed),
            (b"\0\0\0\x03a/b", b"\0\0\0\x09", 0, changed),
            (
                b"\0\0\0\x03a/\xff",
                b"\0\0\0\x03\x01\x80\x07",
                0,
                FeedMessage::Flush,
            ),
            (b"\0\0\0\x09", b"", 0, FeedMessage::Flush),
            (b"", b"\0\0\0\x01\x01", 0, FeedMessage::Flush),
        ] {
            let batch = batch(keys, records);
            let batches = [batch];
            assert_eq!(
                messages(&batches, floor),
                [expected],
                "{keys:?} {records:?}"
            );
        }
    }
}
