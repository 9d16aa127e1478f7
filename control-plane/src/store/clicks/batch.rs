//! Batches of clicks, and their accounts.

use edgelink_wire::clicks::WorkerId;

/// What a batch of clicks says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// The worker that counted.
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

/// What became of all clicks: `sent = counted + dropped + what is under way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ClickAccounts {
    /// How many clicks workers report.
    pub sent: u64,
    /// How many are counted.
    pub counted: u64,
    /// How many workers have dropped.
    pub dropped: u64,
    /// How many of those that are counted have come without their attributes, because there were too many.
    pub undescribed: u64,
}

/// The place of a batch: that of its report, and its own in there.
pub(super) type Place = (usize, usize);

/// A batch, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) head: &'a BatchHead,
    pub(super) received_at: u64,
    pub(super) edge: &'a str,
    pub(super) place: Place,
}
