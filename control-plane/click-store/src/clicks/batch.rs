//! Batches of clicks, and their accounts.

use edgelink_wire::clicks::{ClickBatch, WorkerId};

/// Head of a batch of clicks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// The worker that counted them.
    pub worker: WorkerId,
    /// Grows with every batch of the worker.
    pub seq: u64,
    /// All clicks of the worker so far.
    pub sent: u64,
    /// All clicks that the worker has dropped.
    pub dropped: u64,
    /// The clicks in this batch that have lost their attributes.
    pub undescribed: u64,
    /// The clicks in this batch.
    pub clicks: u64,
}

impl BatchHead {
    /// Returns the head of a decoded batch.
    #[must_use]
    pub fn of(batch: &ClickBatch<'_>) -> Self {
        Self {
            worker: batch.worker,
            seq: batch.seq,
            sent: batch.total,
            dropped: batch.dropped,
            undescribed: batch.undescribed,
            clicks: batch.sum(),
        }
    }
}

/// Accounts of clicks: `sent = counted + dropped + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ClickAccounts {
    /// Clicks that workers report.
    pub sent: u64,
    /// Clicks counted.
    pub counted: u64,
    /// Clicks that workers have dropped.
    pub dropped: u64,
    /// Counted clicks that came without attributes, because there were too many.
    pub undescribed: u64,
}

/// Index of a report, and of a batch in it.
pub(super) type Place = (usize, usize);

/// A batch with its place.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) head: &'a BatchHead,
    pub(super) received_at: u64,
    pub(super) edge: &'a str,
    pub(super) place: Place,
}
