//! What the careful ways of creating links need of a store: to find what is there, and to do it once.

use super::{CreateError, NewLink, StoreError};
use crate::model::{Link, LinkContent};
use async_trait::async_trait;
use edgelink_wire::{Code, Domain, LinkKey};
use std::ops::Range;

/// Finding links like others, and creating links once for a request that may come twice.
#[async_trait]
pub trait CreationStore {
    /// The oldest link like each of `wanted`, in their order. Of links from before version 36 of the schema, until
    /// [`CreationStore::hash_contents`] has come by, the first 100 to the same target are looked at.
    async fn find_like(&self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Link>>, StoreError>;

    /// Makes links from before version 36 of the schema found as fast as others, `limit` at most; how many they were.
    async fn hash_contents(&self, limit: u32) -> Result<u64, StoreError>;

    /// Notes what a request as a whole has asked for, unless that was noted before; whether it was the same.
    async fn claim_request(
        &self,
        request: &[u8; 32],
        fingerprint: &[u8; 32],
    ) -> Result<bool, StoreError>;

    /// Leaves the receipts of links that were there already. `false` if one of the receipts is there: then none is left.
    async fn leave_receipts(&self, found: &[(&Receipt, &Link)]) -> Result<bool, StoreError>;

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
    /// The twin that is not allowed.
    pub(super) fn unwanted(&self) -> Option<Wanted<'_>> {
        let code = match self.twin {
            Twin::Allowed => return None,
            Twin::NotWithThisCode => Some(&self.link.key.code),
            Twin::NotWithAnyCode => None,
        };
        Some(Wanted {
            domain: &self.link.key.domain,
            code,
            content: &self.link.content,
        })
    }
}

/// What a link is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its domain.
    pub domain: &'a Domain,
    /// Its code; `None` for any.
    pub code: Option<&'a Code>,
    /// Its content.
    pub content: &'a LinkContent,
}

impl Wanted<'_> {
    /// Whether `link` is like that.
    pub(super) fn is_met_by(&self, link: &Link) -> bool {
        let is_code = self.code.is_none_or(|code| *code == link.code);
        is_code && link.domain == *self.domain && link.content == *self.content
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
    /// Its revision at that time.
    pub rev: u64,
    /// When it was created, unix milliseconds.
    pub created_at: u64,
    /// When it was changed last by then, unix milliseconds.
    pub updated_at: u64,
    /// Whether it was there already.
    pub found: bool,
}
