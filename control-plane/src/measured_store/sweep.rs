//! Removing what is over, measured.

use super::{MeasuredStore, measured};
use crate::store::{StoreError, SweepStore};
use async_trait::async_trait;

#[async_trait]
impl SweepStore for MeasuredStore {
    async fn sweep_expired(&self, grace_seconds: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self.0.sweep_expired(grace_seconds, limit);
        self.changing("sweep_expired", &[], call).await
    }

    async fn purge_tombstones(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        measured(
            "purge_tombstones",
            self.0.purge_tombstones(kept_millis, limit),
        )
        .await
    }
}
