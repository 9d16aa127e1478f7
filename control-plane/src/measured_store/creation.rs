//! Creating links with care, measured.

use super::{MeasuredStore, measured};
use crate::model::Link;
use crate::store::{
    CreateError, CreationStore, OnceLink, Receipt, StoreError, StoredReceipt, Wanted,
};
use async_trait::async_trait;
use edgelink_wire::LinkKey;
use std::ops::Range;

#[async_trait]
impl CreationStore for MeasuredStore {
    async fn find_like(&self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Link>>, StoreError> {
        measured("find_like", self.0.find_like(wanted)).await
    }

    async fn hash_contents(&self, limit: u32) -> Result<u64, StoreError> {
        measured("hash_contents", self.0.hash_contents(limit)).await
    }

    async fn claim_request(
        &self,
        request: &[u8; 32],
        fingerprint: &[u8; 32],
    ) -> Result<bool, StoreError> {
        let call = self.0.claim_request(request, fingerprint);
        measured("claim_request", call).await
    }

    async fn leave_receipts(&self, found: &[(&Receipt, &Link)]) -> Result<bool, StoreError> {
        measured("leave_receipts", self.0.leave_receipts(found)).await
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
