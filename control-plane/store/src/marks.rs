//! Marks that a process caches, to avoid reading tables from their beginning, or again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Validity of a mark. After it, everything is read once more: a transaction may have taken longer, or the database's clock may
/// have gone back.
const MARKED: Duration = Duration::from_secs(30);

/// The most webhooks with marks.
const MAX_MARKED: usize = 256;

/// The low-water mark of the outbox, as last read by this process.
#[derive(Debug, Default)]
pub(super) struct OutboxMark(AtomicU64);

impl OutboxMark {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Stores the mark of the row read last. A late answer to an earlier read does no harm: the next one corrects it.
    pub(super) fn set(&self, mark: u64) {
        self.0.store(mark, Ordering::Release);
    }

    pub(super) fn lower(&self, mark: u64) {
        self.0.fetch_min(mark, Ordering::AcqRel);
    }
}

/// Time of the oldest waiting delivery of each webhook, in unix milliseconds, as read by this process: an open snapshot keeps settled
/// deliveries in the index, and reads begin behind them.
#[derive(Debug, Default)]
pub(super) struct DeliveryMarks(Mutex<HashMap<u64, (Instant, u64)>>);

impl DeliveryMarks {
    /// The mark of a webhook; 0 without a valid one.
    pub(super) fn of(&self, webhook_id: u64) -> u64 {
        let marks = self.lock();
        let mark = marks.get(&webhook_id).copied();
        mark.filter(|(until, _)| Instant::now() < *until)
            .map_or(0, |(_, from)| from)
    }

    /// All webhooks with their marks; 0 for an expired one.
    pub(super) fn all(&self) -> Vec<(u64, u64)> {
        let now = Instant::now();
        let of = |(id, (until, from)): (&u64, &(Instant, u64))| {
            (*id, if now < *until { *from } else { 0 })
        };
        let mut all: Vec<_> = self.lock().iter().map(of).collect();
        all.sort_unstable();
        all
    }

    /// Stores a mark. It expires when a previous valid one would have.
    pub(super) fn note(&self, webhook_id: u64, from: u64) {
        let now = Instant::now();
        let mut marks = self.lock();
        if marks.len() >= MAX_MARKED && !marks.contains_key(&webhook_id) {
            marks.retain(|_, (until, _)| now < *until);
            if marks.len() >= MAX_MARKED {
                return;
            }
        }
        let mark = marks.entry(webhook_id).or_insert((now + MARKED, from));
        let until = if now < mark.0 { mark.0 } else { now + MARKED };
        *mark = (until, from);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Instant, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
