//! Making sure, before a key is denied, that everything committed by now is among the known keys. All who ask at once share one
//! look into the outbox.

use super::known_keys::KnownKeys;
use crate::feed::Feed;
use crate::store::{Packed, PendingKeys, Store, StoreError};
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// With more batches of changes than this under way, nothing is denied.
const MAX_PENDING: u32 = 1_000;

/// How long a feed that is current may take to come as far as the database says that it is.
const FEED_WAIT: Duration = Duration::from_millis(100);

/// The time between two looks at least, so that a flood of keys that are not there does not become one of queries.
const PACE: Duration = Duration::from_millis(2);

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Certainty {
    /// The revision of the absence of a link that that is not among the known keys.
    pub(super) rev: u64,
}

struct Round {
    /// The number of the last round that is over.
    number: u64,
    /// What it has shown; `None` if not everything is known.
    certainty: Option<Certainty>,
    next: Instant,
    /// The generation that the feed did not come to in time.
    missed: Option<u64>,
}

/// What is looked at: the outbox.
#[async_trait]
pub(super) trait Outbox: Send + Sync {
    /// As [`Store::pending_keys`].
    async fn pending_keys(&self, limit: u32) -> Result<PendingKeys, StoreError>;
}

#[async_trait]
impl Outbox for Store {
    async fn pending_keys(&self, limit: u32) -> Result<PendingKeys, StoreError> {
        Store::pending_keys(self, limit).await
    }
}

/// Brings the known keys up to date.
pub(super) struct CatchUp {
    outbox: Arc<dyn Outbox>,
    known_keys: Arc<KnownKeys>,
    feed: Arc<Feed>,
    /// How many rounds were begun.
    begun: AtomicU64,
    last: Mutex<Round>,
}

impl CatchUp {
    pub(super) fn new(
        outbox: Arc<dyn Outbox>,
        known_keys: Arc<KnownKeys>,
        feed: Arc<Feed>,
    ) -> Self {
        Self {
            outbox,
            known_keys,
            feed,
            begun: AtomicU64::new(0),
            last: Mutex::new(Round {
                number: 0,
                certainty: None,
                next: Instant::now(),
                missed: None,
            }),
        }
    }

    /// Whether the known keys have everything that was committed before the call. A round that began after the call counts,
    /// no matter which call began it; one that was under way does not, and neither does one that was given up.
    pub(super) async fn run(&self) -> Option<Certainty> {
        let asked = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if last.number <= asked {
            sleep_until(last.next).await;
            let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            let certainty = self.round(&mut last.missed).await;
            // Together, and with nothing to wait for in between: the caller may go away at any time.
            last.number = number;
            last.certainty = certainty;
            last.next = Instant::now() + PACE;
        }
        last.certainty
    }

    /// What is committed is in the outbox until it is published. From then on it is on the feed, as far as the same look says
    /// that this was published; what was published in another generation, or before we followed this one, the known keys
    /// have from the database.
    ///
    /// It is waited for, but not if the feed is not current, nor again for a generation that was waited for in vain (`missed`):
    /// those who ask are answered by the database then.
    async fn round(&self, missed: &mut Option<u64>) -> Option<Certainty> {
        let asked = Instant::now();
        let pending = self.outbox.pending_keys(MAX_PENDING).await.ok()?;
        let state = pending.state;
        self.feed.clock().note(asked, state.now);
        let are_readable = pending.keys.iter().all(|keys| self.note(keys));
        let is_all = u32::try_from(pending.keys.len()).is_ok_and(|count| count < MAX_PENDING);
        if !are_readable || !is_all || state.generation == 0 {
            return None;
        }
        let is_expected = self.feed.is_current() && *missed != Some(state.generation);
        let wait = if is_expected {
            FEED_WAIT
        } else {
            Duration::ZERO
        };
        let has_come = self
            .feed
            .has_come(state.generation, state.position, wait)
            .await;
        let is_other = self.feed.place().0 != state.generation;
        *missed = (!has_come && is_other).then_some(state.generation);
        has_come.then_some(Certainty {
            rev: state.rev_floor,
        })
    }

    /// Notes keys, where they can be read.
    fn note(&self, keys: &Packed) -> bool {
        let texts = keys.values().map(|key| str::from_utf8(key.ok()?).ok());
        let Some(texts) = texts.collect::<Option<Vec<_>>>() else {
            return false;
        };
        self.known_keys.note(texts);
        true
    }
}

#[cfg(test)]
mod tests;
