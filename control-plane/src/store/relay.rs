//! What the relay needs of a store: changes to be published, a lease, and the bound.

use super::StoreError;
use async_trait::async_trait;
use edgelink_wire::{Record, RecordError};

/// How long a bound has to be published before a number above the one before it is issued, in milliseconds: an edge that
/// has not heard of it by then has stopped using admission.
pub const BOUND_LEAD_MS: u64 = 60_000;

/// The part of a store that the relay works on. Times are those of the database's clock.
#[async_trait]
pub trait RelayStore {
    /// The oldest changes that are not published yet.
    async fn pending_changes(&self, limit: u32) -> Result<Vec<PendingChange>, StoreError>;

    /// The keys of changes that are not published yet, `limit` at most.
    async fn pending_keys(&self, limit: u32) -> Result<Vec<String>, StoreError>;

    /// Forgets changes that are published.
    async fn forget_changes(&self, ids: &[u64]) -> Result<(), StoreError>;

    /// Takes or renews the lease of that name. `false` where another owner has it.
    async fn take_lease(
        &self,
        name: &str,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, StoreError>;

    /// Gives a lease back before its time, where `owner` has it.
    async fn release_lease(&self, name: &str, owner: &str) -> Result<(), StoreError>;

    /// How far numbers may be issued, and have been.
    async fn bound_state(&self) -> Result<BoundState, StoreError>;

    /// Adds a bound that the edges are not told of yet.
    async fn add_bound(&self, bound: u64) -> Result<(), StoreError>;

    /// Notes that the edges were told of a bound just now. Lower ones are forgotten once this one counts.
    async fn mark_bound_published(&self, bound: u64) -> Result<(), StoreError>;

    /// Keys of all links, deleted ones included, in the order of their numbers, from behind `after` on.
    async fn scan_keys(
        &self,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedKey>, StoreError>;
}

/// A change that is not published yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// The number of the row.
    pub id: u64,
    /// `{domain}/{code}`.
    pub key: String,
    /// The encoded record.
    pub record: Vec<u8>,
}

impl PendingChange {
    /// What the link is by this change.
    ///
    /// # Errors
    /// Where a version that is not known here wrote the row.
    pub fn record(&self) -> Result<Record<&str>, RecordError> {
        Record::decode(&self.record)
    }
}

/// How far numbers may be issued, and have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundState {
    /// No number at or above this was drawn.
    pub allocated: u64,
    /// The greatest bound.
    pub bound: u64,
    /// Whether the edges were told of it.
    pub is_published: bool,
}

/// A key with the number of its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedKey {
    /// The number of the link.
    pub id: u64,
    /// `{domain}/{code}`.
    pub key: String,
}
