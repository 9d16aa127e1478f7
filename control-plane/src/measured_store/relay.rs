//! The relay's part of the store, measured.

use super::{MeasuredStore, measured};
use crate::store::{BoundState, RelayStore, ScannedKey, StoreError};
use async_trait::async_trait;

#[async_trait]
impl RelayStore for MeasuredStore {
    async fn take_lease(
        &self,
        name: &str,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, StoreError> {
        measured("take_lease", self.0.take_lease(name, owner, milliseconds)).await
    }

    async fn release_lease(&self, name: &str, owner: &str) -> Result<(), StoreError> {
        measured("release_lease", self.0.release_lease(name, owner)).await
    }

    async fn bound_state(&self) -> Result<BoundState, StoreError> {
        measured("bound_state", self.0.bound_state()).await
    }

    async fn add_bound(&self, bound: u64) -> Result<(), StoreError> {
        measured("add_bound", self.0.add_bound(bound)).await
    }

    async fn mark_bound_published(&self, bound: u64) -> Result<(), StoreError> {
        measured("mark_bound_published", self.0.mark_bound_published(bound)).await
    }

    async fn scan_keys(
        &self,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedKey>, StoreError> {
        measured("scan_keys", self.0.scan_keys(after, limit)).await
    }
}
