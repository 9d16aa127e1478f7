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
    /// the receipts is there already, or a twin that is not allowed, nothing is created and the answer is `None`: somebody
    /// else was faster. Of concurrent calls that allow no twin, one creates.
    async fn create_links_once(
        &self,
        links: Vec<OnceLink>,
    ) -> Result<Option<Vec<Result<Link, CreateError>>>, StoreError>;

    /// The receipts of these items of a request.
    async fn receipts(
        &self,
        request: &[u8; 32],
        items: Range<u32>,
    ) -> Result<Vec<StoredReceipt>, StoreError>;

    /// Forgets receipts that are older than `kept_millis` by the database's clock, `limit` at most; how many they were.
    async fn purge_receipts(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError>;
}

/// A link to create once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceLink {
    /// The link.
    pub link: NewLink,
    /// The receipt to leave.
    pub receipt: Option<Receipt>,
    /// Whether there may be another one like it.
    pub twin: Twin,
}

/// Whether a link may be created beside another one with the same domain and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// It may.
    Allowed,
    /// Not beside one with the same code.
    NotWithThisCode,
    /// Not beside one with any code.
    NotWithAnyCode,
}

impl OnceLink {
    /// Whether `link` is a twin that is not allowed.
    pub(super) fn is_met_by(&self, link: &Link) -> bool {
        let is_code = match self.twin {
            Twin::Allowed => false,
            Twin::NotWithThisCode => link.code == self.link.key.code,
            Twin::NotWithAnyCode => true,
        };
        is_code && link.domain == self.link.key.domain && link.content == self.link.content
    }
}

impl From<(NewLink, Option<Receipt>)> for OnceLink {
    /// A link that may have twins.
    fn from((link, receipt): (NewLink, Option<Receipt>)) -> Self {
        Self {
            link,
            receipt,
            twin: Twin::Allowed,
        }
    }
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
