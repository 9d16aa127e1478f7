//! Where links live: one [`Store`] for several databases, made of traits by concern, with one suite of tests for all of them.

mod clicks;
mod counters;
mod creation;
mod issuers;
mod mysql;
mod options;
mod packed;
mod publisher;
mod relay;
mod sql;
mod sqlite;
mod sweep;

pub use clicks::{ClickAccounts, ClickStore, CountedBatch};
pub use counters::Counters;
pub use creation::{CreationStore, OnceLink, Receipt, StoredReceipt, Twin, Wanted};
pub use issuers::{ISSUERS, IssuerHolder, IssuerLeases, IssuerUsage};
pub use options::{PoolOptions, connect};
pub use packed::{CutOff, Packed};
pub use publisher::{
    FeedKind, LeaseClaim, MAX_LEASE_MS, NUMBERS_SKIPPED, OTHER_KIND_WAIT_MS, OutboxSize, Past,
    Pending, PendingKeys, PublisherState, PublisherStore,
};
pub use relay::{
    BOUND_LEAD_MS, BoundState, MAX_BATCH_BYTES, MalformedBatch, PendingBatch, PendingChange,
    RelayStore, ScannedKey,
};

pub use sweep::SweepStore;

use crate::model::{Link, LinkContent};
use async_trait::async_trait;
use edgelink_wire::{Domain, LinkKey, Record};

/// A database that owns the truth.
///
/// Every method is one transaction: it has happened wholly when it answers `Ok`, and an error that
/// [`StoreError::is_transient`] may or may not have happened. Every creation, change and deletion of a link is in the
/// outbox ([`RelayStore`]) from the same transaction on.
#[async_trait]
pub trait Store:
    RelayStore
    + PublisherStore
    + ClickStore
    + Counters
    + CreationStore
    + IssuerLeases
    + SweepStore
    + Send
    + Sync
    + 'static
{
    /// Brings the schema up to date. One that is newer is left as it is: later versions only add to it what earlier ones
    /// can do without, so that there is a way back.
    async fn migrate(&self) -> Result<(), StoreError>;

    /// Answers when the database does.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Draws the next `step` sequences of `issuer`; nobody else ever gets them. Their numbers are below a bound that was
    /// published at least [`BOUND_LEAD_MS`] ago; `None` where they would not be, until the relay has raised the bound.
    async fn draw_segment(&self, issuer: u16, step: u32) -> Result<Option<Segment>, StoreError>;

    /// Gives back the unused rest of a segment. `false` where somebody has drawn since: the rest is lost then.
    /// After an error the call must not be repeated: the rest may have been given back and drawn again.
    async fn return_segment(&self, rest: Segment) -> Result<bool, StoreError>;

    /// Creates links in one transaction; the answers are in the order of `links`. One that fails leaves the others.
    ///
    /// The code of a deleted link is free: its row is revived with the next revision, the new number and a new
    /// creation time, so that caches which hold the deletion take the new link.
    async fn create_links(
        &self,
        links: Vec<NewLink>,
    ) -> Result<Vec<Result<Link, CreateError>>, StoreError>;

    /// Whether links like these, by number and key, could not be created right now: another link has the number or the
    /// code. The answers are in the order of `links`.
    async fn are_taken(&self, links: &[(u64, LinkKey)]) -> Result<Vec<bool>, StoreError>;

    /// The link of that key.
    async fn find_link(&self, key: &LinkKey) -> Result<Option<Link>, StoreError>;

    /// What the edges are to know of that key: the link, or `Absent` with the revision of its deletion.
    async fn resolve(&self, key: &LinkKey) -> Result<Record<String>, StoreError>;

    /// Replaces the content of a link by what `change` makes of it, with the row locked meanwhile. `None` where there
    /// is no such link. An error of `change` changes nothing and comes back as the inner error.
    async fn update_link(
        &self,
        key: &LinkKey,
        change: ChangeFn,
    ) -> Result<Option<Result<Link, ChangeError>>, StoreError>;

    /// Deletes a link, with the row locked while `check` looks at it. `None` where there is no such link. An error of
    /// `check` deletes nothing and comes back as the inner error.
    async fn delete_link(
        &self,
        key: &LinkKey,
        check: CheckFn,
    ) -> Result<Option<Result<(), ChangeError>>, StoreError>;

    /// Links, newest first.
    async fn list_links(&self, query: &ListQuery) -> Result<Vec<Link>, StoreError>;

    /// Keeps a new API key.
    async fn insert_api_key(&self, key: &ApiKeyRow) -> Result<(), StoreError>;

    /// The API key of that id.
    async fn find_api_key(&self, id: &str) -> Result<Option<ApiKeyRow>, StoreError>;

    /// Whether there is any API key.
    async fn has_api_keys(&self) -> Result<bool, StoreError>;

    /// All API keys, oldest first.
    async fn list_api_keys(&self) -> Result<Vec<ApiKeyRow>, StoreError>;

    /// Forgets an API key. `false` where there was none.
    async fn delete_api_key(&self, id: &str) -> Result<bool, StoreError>;
}

/// Makes the new content out of the link as it is, or refuses. The database may ask for the change again after a
/// deadlock, then with the link as it is by then.
pub type ChangeFn = Box<dyn Fn(&Link) -> Result<LinkContent, ChangeError> + Send + Sync>;

/// Whether a link may go; asked again like a [`ChangeFn`].
pub type CheckFn = Box<dyn Fn(&Link) -> Result<(), ChangeError> + Send + Sync>;

/// A change that does not fit what the link is now: the field (camelCase) and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct ChangeError {
    /// The field in the API's spelling.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// Consecutive sequences of one issuer: `number = sequence * 1000 + issuer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// 0..=999.
    pub issuer: u16,
    /// The first sequence.
    pub start: u64,
    /// The first sequence behind.
    pub end: u64,
}

/// A link that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// The number of the link; its primary key.
    pub id: u64,
    /// Domain and code.
    pub key: LinkKey,
    /// The rest.
    pub content: LinkContent,
}

/// Why one link of several was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The code is taken on this domain.
    #[error("the code is taken")]
    CodeTaken,
    /// Another link has the number; the caller takes the next one.
    #[error("the number is taken")]
    NumberTaken,
}

/// Which links to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Only those on this domain.
    pub domain: Option<Domain>,
    /// Only those behind this place.
    pub after: Option<ListCursor>,
    /// How many at most.
    pub limit: u32,
}

/// A place in the list: that of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListCursor {
    /// [`Link::created_at`].
    pub created_at: u64,
    /// [`Link::id`].
    pub id: u64,
}

/// An API key as it is kept: never the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// The public part by which the row is found.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// SHA-256 of the secret part.
    pub secret_hash: [u8; 32],
    /// Unix time in milliseconds.
    pub created_at: u64,
}

/// A failure of the database.
#[derive(Debug, thiserror::Error)]
#[error("{context}: {source}")]
pub struct StoreError {
    /// What was being done.
    pub context: &'static str,
    /// Whether the same call may succeed later.
    pub transient: bool,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl StoreError {
    /// Whether the same call may succeed later: the database is away, busy or restarting.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.transient
    }
}
