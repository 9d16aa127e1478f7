//! What the careful ways of creating links need of a store: to find what is there, and to do it once.

use super::{CreateError, NewLink, StoreError};
use crate::model::Link;
use crate::target::TargetUrl;
use async_trait::async_trait;
use edgelink_wire::LinkKey;
use std::ops::Range;

/// How many links to one target are looked at, at most.
pub(super) const MAX_LINKS_TO_TARGET: usize = 100;

/// Finding links by their target, and creating links once for a request that may come twice.
#[async_trait]
pub trait CreationStore {
    /// Links to any of these targets, oldest first; for each of them about 100 at most.
    async fn links_to(&self, targets: &[&TargetUrl]) -> Result<Vec<Link>, StoreError>;

    /// As [`super::Store::create_links`], and each created link leaves its receipt in the same transaction. Where one of
    /// the receipts is there already, nothing is created and the answer is `None`: somebody else was faster.
    async fn create_links_once(
        &self,
        links: Vec<(NewLink, Option<Receipt>)>,
    ) -> Result<Option<Vec<Result<Link, CreateError>>>, StoreError>;

    /// The receipts of these items of a request.
    async fn receipts(
        &self,
        request: &[u8; 32],
        items: Range<u32>,
    ) -> Result<Vec<StoredReceipt>, StoreError>;

    /// Forgets receipts from before that time (unix milliseconds), `limit` at most; how many they were.
    async fn purge_receipts(&self, before: u64, limit: u32) -> Result<u64, StoreError>;
}

/// What tells a request that comes again from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The hash of who asks, and of the key that they gave their request.
    pub request: [u8; 32],
    /// Which link of the request it is about.
    pub item: u32,
    /// The hash of what was asked for.
    pub fingerprint: [u8; 32],
}

/// A receipt with what came of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReceipt {
    /// Which link of the request it is about.
    pub item: u32,
    /// The hash of what was asked for.
    pub fingerprint: [u8; 32],
    /// The number of the link.
    pub id: u64,
    /// Domain and code of the link.
    pub key: LinkKey,
    /// Its first revision.
    pub rev: u64,
    /// When it was created, unix milliseconds.
    pub created_at: u64,
}
