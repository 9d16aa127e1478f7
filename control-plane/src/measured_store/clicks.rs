//! Counting clicks, measured.

use super::{MeasuredStore, measured};
use crate::store::{ClickAccounts, ClickStore, CountedBatch, StoreError};
use async_trait::async_trait;

#[async_trait]
impl ClickStore for MeasuredStore {
    async fn count_clicks(&self, batches: &[CountedBatch]) -> Result<usize, StoreError> {
        measured("count_clicks", self.0.count_clicks(batches)).await
    }

    async fn hot_keys(&self, minute: u64, limit: u32) -> Result<Vec<String>, StoreError> {
        measured("hot_keys", self.0.hot_keys(minute, limit)).await
    }

    async fn click_accounts(&self) -> Result<ClickAccounts, StoreError> {
        measured("click_accounts", self.0.click_accounts()).await
    }

    async fn purge_clicks(
        &self,
        minutes: u64,
        batch_minutes: u64,
        limit: u32,
    ) -> Result<u64, StoreError> {
        measured(
            "purge_clicks",
            self.0.purge_clicks(minutes, batch_minutes, limit),
        )
        .await
    }
}
