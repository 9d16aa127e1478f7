//! Making sure, before a key is denied, that everything committed by now is among the known keys. Callers at the same time
//! share one look into the outbox.

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

struct Round {
    /// The number of the last round that is over.
    number: u64,
    /// What it has shown: the revision of the absence of a link that is not among the known keys; `None` if they may lack
    /// one that is there.
    absence: Option<u64>,
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
                absence: None,
                next: Instant::now(),
                missed: None,
            }),
        }
    }

    /// Brings the known keys up to everything that was committed before the call: the revision of the absence of a link that is
    /// not among them then, `None` if they may lack one. A round counts that began after the call, also by another caller; one
    /// that was under way does not, and neither does one that was given up.
    pub(super) async fn run(&self) -> Option<u64> {
        let asked = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if last.number <= asked {
            sleep_until(last.next).await;
            let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            let absence = self.round(&mut last.missed).await;
            // Together, and with nothing to wait for in between: the caller may go away at any time.
            last.number = number;
            last.absence = absence;
            last.next = Instant::now() + PACE;
        }
        last.absence
    }

    /// What is committed is in the outbox until it is published. From then on it is on the feed, up to the position that the
    /// same look shows; what was published in another generation, or before this process followed this one, the known
    /// keys have from the database.
    ///
    /// The round waits for that position, but not if the feed is not current, nor again for a generation that did not come in
    /// time (`missed`): the database answers then.
    async fn round(&self, missed: &mut Option<u64>) -> Option<u64> {
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
        let has_come = self.feed.has_come(state.generation, state.position, wait);
        let has_come = has_come.await;
        let is_other = self.feed.place().0 != state.generation;
        *missed = (!has_come && is_other).then_some(state.generation);
        has_come.then_some(state.rev_floor)
    }

    /// Notes keys among the known ones; says whether they could be read.
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
