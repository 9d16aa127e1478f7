//! What a starting edge gets at once.

use crate::catalog::Catalog;
use crate::clicks::{HotOptions, hot_links};
use crate::feed::Feed;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use edgelink_wire::snapshot::{MAX_DOMAINS, MAX_HOT, MAX_HOT_BYTES};
use edgelink_wire::{
    AliasFilter, CodeLength, Domain, Entry, FeedPosition, PermutationKey, Snapshot,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// For how long a snapshot is given to further edges: many start at once.
const LIFETIME: Duration = Duration::from_secs(1);

/// What every snapshot has.
#[derive(Clone, Debug)]
pub struct SnapshotFacts {
    /// The length of generated codes.
    pub length: CodeLength,
    /// The key of generated codes.
    pub key: Option<PermutationKey>,
    /// The domains, the default one first.
    pub domains: Vec<Domain>,
    /// Which links are hot.
    pub hot: HotOptions,
}

/// Makes snapshots.
pub struct Snapshots {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    feed: Arc<Feed>,
    facts: SnapshotFacts,
    last: Mutex<Option<(Instant, Bytes)>>,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Not everything was gone through yet.
    #[error("not all keys are known yet")]
    NotReady,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Snapshots {
    /// Snapshots of what `store`, `catalog` and `feed` have.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        feed: Arc<Feed>,
        facts: SnapshotFacts,
    ) -> Self {
        Self {
            store,
            catalog,
            feed,
            facts,
            last: Mutex::new(None),
        }
    }

    /// An encoded snapshot, at most a second old.
    ///
    /// # Errors
    /// The [`SnapshotError`] that says what is missing.
    pub async fn get(&self) -> Result<Bytes, SnapshotError> {
        let mut last = self.last.lock().await;
        if let Some((at, bytes)) = last.as_ref().filter(|(at, _)| at.elapsed() < LIFETIME) {
            let _ = at;
            return Ok(bytes.clone());
        }
        let bytes = self.make().await?;
        *last = Some((Instant::now(), bytes.clone()));
        Ok(bytes)
    }

    /// The position is taken first: what changes meanwhile is in the feed behind it, and may be in the rest already.
    async fn make(&self) -> Result<Bytes, SnapshotError> {
        let position = self.feed.end();
        let filter = self.catalog.alias_filter().ok_or(SnapshotError::NotReady)?;
        let bound = self.store.bound_state().await?.bound;
        let hot = hot_links(self.store.as_ref(), &self.facts.hot).await?;
        let entries = hot.iter().map(|(key, record)| Entry {
            key: key.as_bytes(),
            record: record.as_deref(),
        });
        // More aliases than fit: the edges ask for everything then.
        let (aliases, bound) = match filter {
            Ok(filter) => (filter, bound),
            Err(_) => (empty()?, u64::MAX),
        };
        Ok(self
            .encode(position, bound, aliases, bounded(entries))
            .into())
    }

    fn encode(
        &self,
        position: FeedPosition,
        bound: u64,
        aliases: AliasFilter,
        hot: Vec<Entry<'_>>,
    ) -> Vec<u8> {
        let domains = self.facts.domains.iter().take(MAX_DOMAINS);
        Snapshot {
            position,
            bound,
            length: self.facts.length,
            key: self.facts.key.clone(),
            domains: domains.map(Domain::as_str).collect(),
            aliases,
            hot,
        }
        .to_bytes()
    }
}

fn empty() -> Result<AliasFilter, SnapshotError> {
    AliasFilter::with_capacity(0).map_err(|_| SnapshotError::NotReady)
}

/// As many as fit.
fn bounded<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Vec<Entry<'a>> {
    let mut bytes = 0;
    let mut buffer = Vec::new();
    entries
        .take(MAX_HOT)
        .take_while(|entry| {
            buffer.clear();
            entry.encode(&mut buffer);
            bytes += buffer.len();
            bytes <= MAX_HOT_BYTES
        })
        .collect()
}
