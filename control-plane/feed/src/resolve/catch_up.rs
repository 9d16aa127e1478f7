//! Adds everything committed to the known keys before a key is denied. Concurrent callers share one read of the outbox.

use super::known_keys::KnownKeys;
use crate::Feed;
use async_trait::async_trait;
use edgelink_store::{Packed, PendingKeys, Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Most batches of changes in the outbox with which keys are denied.
const MAX_PENDING: u32 = 1_000;

/// Time that a current feed may take to reach the position in the database.
const FEED_WAIT: Duration = Duration::from_millis(100);

/// Shortest interval between reads, so that a flood of absent keys does not become a flood of queries.
const PACE: Duration = Duration::from_millis(2);

struct CatchUpRound {
    /// The number of the last complete round.
    number: u64,
    /// Its outcome: the revision of an absence; `None` if the known keys may lack a link.
    absence: Option<u64>,
    next: Instant,
    /// The generation that the feed did not reach in time.
    missed: Option<u64>,
}

/// The outbox; a fake in tests.
#[async_trait]
pub(super) trait Outbox: Send + Sync {
    /// See [`Store::pending_keys`].
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
    /// The number of rounds begun.
    begun: AtomicU64,
    last: Mutex<CatchUpRound>,
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
            last: Mutex::new(CatchUpRound {
                number: 0,
                absence: None,
                next: Instant::now(),
                missed: None,
            }),
        }
    }

    /// Adds everything committed before the call to the known keys. Returns the revision of an absence; `None` if a link may
    /// be missing. A round that began after the call counts, also another caller's; one that was in progress or cancelled
    /// does not.
    pub(super) async fn run(&self) -> Option<u64> {
        let asked = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if last.number <= asked {
            sleep_until(last.next).await;
            let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            let absence = self.round(&mut last.missed).await;
            // Set together, without an await in between: the caller may be dropped at any time.
            last.number = number;
            last.absence = absence;
            last.next = Instant::now() + PACE;
        }
        last.absence
    }

    /// Committed changes are in the outbox until they are published, and then on the feed, up to the position in the
    /// same read. Changes published in another generation, or before this process followed this one, are known from the
    /// scan.
    ///
    /// The round waits for that position, but not if the feed is not current, nor again for a generation that was late
    /// (`missed`): then the database answers.
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
        let has_come = self
            .feed
            .wait_for_entry(state.generation, state.position, wait);
        let has_come = has_come.await;
        let is_other = self.feed.place().0 != state.generation;
        *missed = (!has_come && is_other).then_some(state.generation);
        has_come.then_some(state.rev_floor)
    }

    /// Adds keys to the known ones; `false` if they cannot be read.
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
