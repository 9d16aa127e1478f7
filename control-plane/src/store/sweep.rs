//! What the sweeper needs of a store.

use super::StoreError;
use async_trait::async_trait;

/// Removing what is over, a batch at a time.
#[async_trait]
pub trait SweepStore {
    /// Deletes links whose validity ended `grace_seconds` ago or earlier by the database's clock, `limit` at most; how
    /// many they were. As after any deletion the edges are told, and a tombstone stays. Target, title and tags are gone at
    /// once.
    async fn sweep_expired(&self, grace_seconds: u64, limit: u32) -> Result<u64, StoreError>;

    /// Removes tombstones of links that were deleted `kept_millis` ago or earlier by the database's clock, `limit` at
    /// most; how many they were. The floor of revisions remembers theirs: a link of the same name has a greater one.
    async fn purge_tombstones(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError>;
}
