//! Low-water marks of queues, below which reads skip removed rows, and the scans for late rows below them.
//!
//! An open snapshot (a dump, a long transaction) keeps removed rows in the table, and a read from the beginning scans all of them.
//!
//! Row numbers are assigned before their transactions commit, which may happen in any order. Reading a row proves that all lower
//! numbers were assigned by then, so the mark is raised to a row only [`SETTLE`] after that. A transaction that takes longer
//! between its row and its commit (its control plane was paused, or its COMMIT was in flight in a partitioned network) leaves a row
//! below the mark, which a scan finds. Readers wait [`PATIENCE`] for scans, which usually end sooner; if a snapshot keeps very many
//! removed rows, a late row is read seconds later.

use crate::{MarkedQueue, Store};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Time from removing rows to raising the mark past them: longer than transactions are open, whose statements are bounded by
/// `store.timeout_ms`.
const SETTLE: Duration = Duration::from_secs(10);

/// Rows that were removed within this time share an entry.
const GRAIN: Duration = Duration::from_secs(1);

/// Time that a reader waits for a scan.
const PATIENCE: Duration = Duration::from_millis(10);

/// Pause between scans as a multiple of the last one's duration, at most [`MAX_REST`].
const REST: u32 = 4;
const MAX_REST: Duration = Duration::from_secs(3);

/// Numbers below the mark that are scanned first. Each further part is [`GROWTH`] times as long.
const FIRST_PART: u64 = 65_536;
const GROWTH: u64 = 8;

/// The low-water mark of a queue, for the process that empties it.
#[derive(Debug)]
pub struct LowWater {
    queue: MarkedQueue,
    /// Times of removal, rounded up to [`GRAIN`], with the last row of each.
    removed: VecDeque<(Instant, u64)>,
    look: Option<LateLook>,
    rests_until: Option<Instant>,
}

/// A scan for late rows.
#[derive(Debug)]
struct LateLook {
    begun: Instant,
    task: AbortOnDropHandle<Option<u64>>,
}

impl LowWater {
    /// Creates the mark of a queue from which nothing is removed yet.
    pub fn new(queue: MarkedQueue) -> Self {
        Self {
            queue,
            removed: VecDeque::new(),
            look: None,
            rests_until: None,
        }
    }

    /// Drops removals and a scan in progress, because another process may empty the queue.
    pub fn clear(&mut self) {
        *self = Self::new(self.queue);
    }

    /// Notes that all rows read up to `last` are removed, and returns the mark up to which removals have settled, 0 if none has.
    pub fn removed(&mut self, last: u64, now: Instant) -> u64 {
        match self.removed.back_mut() {
            Some((until, row)) if now <= *until => *row = last.max(*row),
            _ => self.removed.push_back((now + GRAIN, last)),
        }
        self.settled(now)
    }

    fn settled(&mut self, now: Instant) -> u64 {
        let is_settled = |(at, _): &&(Instant, u64)| now.saturating_duration_since(*at) >= SETTLE;
        let settled = self.removed.iter().take_while(is_settled).count();
        let last = self.removed.drain(..settled).next_back();
        last.map_or(0, |(_, row)| row)
    }

    /// Scans for late rows below the mark, or waits a moment for the scan in progress, and returns the lowest of them.
    pub async fn look(&mut self, store: &Arc<Store>, mark: u64) -> Option<u64> {
        let now = Instant::now();
        let rests = self.rests_until.is_some_and(|until| now < until);
        if self.look.is_none() && (rests || mark == 0) {
            return None;
        }
        let queue = self.queue;
        let look = self.look.get_or_insert_with(|| {
            let store = Arc::clone(store);
            let task = tokio::spawn(async move { look_below(&store, queue, mark).await });
            LateLook {
                begun: now,
                task: AbortOnDropHandle::new(task),
            }
        });
        let found = timeout(PATIENCE, &mut look.task).await.ok()?;
        let took = look.begun.elapsed();
        self.look = None;
        if took > PATIENCE {
            self.rests_until = Some(Instant::now() + MAX_REST.min(took * REST));
        }
        // An aborted task has found none.
        found.ok().flatten()
    }
}

/// The lowest row in the first part below the mark that has any: parts grow with their distance, because late rows are near the mark.
async fn look_below(store: &Store, queue: MarkedQueue, mark: u64) -> Option<u64> {
    let (mut to, mut length) = (mark, FIRST_PART);
    while to > 0 {
        let from = to.saturating_sub(length);
        match store.oldest_of(queue, from, to).await {
            Ok(None) => {}
            Ok(row) => return row,
            Err(error) => {
                tracing::warn!(%error, ?queue, from, to, "scanning a queue for late rows failed; the next scan will find them");
                return None;
            }
        }
        (to, length) = (from, length.saturating_mul(GROWTH));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_when_rows_are_removed_is_raised_long_afterwards() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut water = LowWater::new(MarkedQueue::Outbox);
        for (millis, last, mark) in [
            (0, 5, 0),
            (900, 9, 0),
            // A lower number that is committed later does not set it back.
            (950, 7, 0),
            (1_100, 12, 0),
            (10_999, 20, 0),
            (11_000, 21, 9),
            (11_500, 22, 0),
            (12_100, 30, 12),
        ] {
            assert_eq!(water.removed(last, at(millis)), mark, "{millis}");
        }
        assert!(water.removed.len() <= 12);
        water.clear();
        assert_eq!(water.removed(40, at(60_000)), 0);
    }
}
