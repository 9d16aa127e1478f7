//! What counting clicks needs of a store.

use super::StoreError;
use async_trait::async_trait;
use edgelink_wire::clicks::WorkerId;

/// The part of a store that counts clicks.
#[async_trait]
pub trait ClickStore {
    /// Counts batches, those that were counted before left out, and answers how many were new.
    async fn count_clicks(&self, batches: &[CountedBatch]) -> Result<usize, StoreError>;

    /// The links followed most since `minute` (unix time / 60), the most wanted first.
    async fn hot_keys(&self, minute: u64, limit: u32) -> Result<Vec<String>, StoreError>;

    /// What became of all clicks.
    async fn click_accounts(&self) -> Result<ClickAccounts, StoreError>;

    /// Removes up to `limit` rows each of what was counted more than `minutes` ago, and of batches that were received more
    /// than `batch_minutes` ago, by the database's clock, and answers how many there were.
    async fn purge_clicks(
        &self,
        minutes: u64,
        batch_minutes: u64,
        limit: u32,
    ) -> Result<u64, StoreError>;
}

/// A batch of clicks as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedBatch {
    /// Who counted.
    pub worker: WorkerId,
    /// Grows with every batch of the worker.
    pub seq: u64,
    /// All clicks that the worker has had.
    pub sent: u64,
    /// All clicks that the worker has given up.
    pub dropped: u64,
    /// The minute (unix time / 60) that the clicks belong to.
    pub minute: u64,
    /// When it came in: unix time in milliseconds.
    pub received_at: u64,
    /// Keys and clicks.
    pub clicks: Vec<(String, u64)>,
}

/// What became of all clicks: `sent = counted + dropped + what is under way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClickAccounts {
    /// How many clicks workers say they have had.
    pub sent: u64,
    /// How many are counted.
    pub counted: u64,
    /// How many the workers say they have given up.
    pub dropped: u64,
}
