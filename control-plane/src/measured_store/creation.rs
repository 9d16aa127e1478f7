//! Creating links with care, measured.

use super::{MeasuredStore, measured};
use crate::model::Link;
use crate::store::{CreateError, CreationStore, OnceLink, StoreError, StoredReceipt};
use crate::target::TargetUrl;
use async_trait::async_trait;
use edgelink_wire::LinkKey;
use std::ops::Range;

#[async_trait]
impl CreationStore for MeasuredStore {
    async fn links_to(&self, targets: &[&TargetUrl]) -> Result<Vec<Link>, StoreError> {
        measured("links_to", self.0.links_to(targets)).await
    }

    async fn create_links_once(
        &self,
        links: Vec<OnceLink>,
    ) -> Result<Option<Vec<Result<Link, CreateError>>>, StoreError> {
        let keys: Vec<LinkKey> = links.iter().map(|new| new.link.key.clone()).collect();
        let call = self.0.create_links_once(links);
        self.changing("create_links_once", &keys, call).await
    }

    async fn receipts(
        &self,
        request: &[u8; 32],
        items: Range<u32>,
    ) -> Result<Vec<StoredReceipt>, StoreError> {
        measured("receipts", self.0.receipts(request, items)).await
    }

    async fn purge_receipts(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        measured("purge_receipts", self.0.purge_receipts(kept_millis, limit)).await
    }
}
