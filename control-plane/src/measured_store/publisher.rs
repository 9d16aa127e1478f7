//! The publisher's part of the store, measured.

use super::{MeasuredStore, measured};
use crate::store::{
    LeaseClaim, OutboxSize, Past, Pending, PendingKeys, PublisherState, PublisherStore, StoreError,
};
use async_trait::async_trait;
use edgelink_wire::FeedPosition;

#[async_trait]
impl PublisherStore for MeasuredStore {
    fn newest_token(&self) -> u64 {
        self.0.newest_token()
    }

    fn skipped_in(&self) -> u64 {
        self.0.skipped_in()
    }

    async fn publisher(&self) -> Result<PublisherState, StoreError> {
        measured("publisher", self.0.publisher()).await
    }

    async fn pending(&self, limit: u32) -> Result<Pending, StoreError> {
        measured("pending", self.0.pending(limit)).await
    }

    async fn pending_keys(&self, limit: u32) -> Result<PendingKeys, StoreError> {
        measured("pending_keys", self.0.pending_keys(limit)).await
    }

    async fn outbox_size(&self) -> Result<OutboxSize, StoreError> {
        measured("outbox_size", self.0.outbox_size()).await
    }

    async fn take_publisher_lease(
        &self,
        claim: &LeaseClaim<'_>,
    ) -> Result<Option<PublisherState>, StoreError> {
        measured("take_publisher_lease", self.0.take_publisher_lease(claim)).await
    }

    async fn release_publisher_lease(&self, owner: &str) -> Result<(), StoreError> {
        measured(
            "release_publisher_lease",
            self.0.release_publisher_lease(owner),
        )
        .await
    }

    async fn forget_published(
        &self,
        token: u64,
        position: FeedPosition,
        ids: &[u64],
    ) -> Result<bool, StoreError> {
        let call = self.0.forget_published(token, position, ids);
        measured("forget_published", call).await
    }

    async fn begin_generation(
        &self,
        token: u64,
        past: Past,
    ) -> Result<Option<PublisherState>, StoreError> {
        measured("begin_generation", self.0.begin_generation(token, past)).await
    }
}
