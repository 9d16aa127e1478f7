//! What the sweeper needs of a store.

use super::StoreError;
use async_trait::async_trait;

/// Removing what is over, a batch at a time.
#[async_trait]
pub trait SweepStore {
    /// Deletes links whose validity has ended at or before `valid_until` (unix seconds), `limit` at most; how many they
    /// were. As after any deletion the edges are told, and a tombstone stays. Target, title and tags are gone at once.
    async fn sweep_expired(&self, valid_until: u64, limit: u32) -> Result<u64, StoreError>;

    /// Removes tombstones of links that were deleted before that time (unix milliseconds), `limit` at most; how many they
    /// were. From then on a link of the same name starts with revision 1 again, so no cache may remember the old one.
    async fn purge_tombstones(&self, deleted_before: u64, limit: u32) -> Result<u64, StoreError>;
}
