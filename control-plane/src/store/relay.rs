//! Changes that are to be published, leases, and the bound.

use super::{CutOff, Packed, StoreError};
use async_trait::async_trait;
use edgelink_wire::{Record, RecordError};
use std::str::Utf8Error;

/// How long a bound has to be published before a number above the one before it is issued, in milliseconds: an edge that
/// has not heard of it by then has stopped using admission.
pub const BOUND_LEAD_MS: u64 = 60_000;

/// How many bytes of keys and records a batch has at most. It bounds what is read and published at once.
pub const MAX_BATCH_BYTES: usize = 64 << 10;

/// The part of a store that the relay works on. Times are those of the database's clock.
#[async_trait]
pub trait RelayStore {
    /// Takes or renews the lease of that name. `false` where another owner has it.
    async fn take_lease(
        &self,
        name: &str,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, StoreError>;

    /// Gives a lease back before its time, where `owner` has it.
    async fn release_lease(&self, name: &str, owner: &str) -> Result<(), StoreError>;

    /// How far numbers may be issued, and have been.
    async fn bound_state(&self) -> Result<BoundState, StoreError>;

    /// Adds a bound that the edges are not told of yet.
    async fn add_bound(&self, bound: u64) -> Result<(), StoreError>;

    /// Notes that the edges were told of a bound just now. Lower ones are forgotten once this one counts.
    async fn mark_bound_published(&self, bound: u64) -> Result<(), StoreError>;

    /// Keys of all links, deleted ones included, in the order of their numbers, from behind `after` on.
    async fn scan_keys(
        &self,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedKey>, StoreError>;
}

/// Changes of one transaction that are not published yet: all of them, or a part that takes up to [`MAX_BATCH_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingBatch {
    /// The number of the row.
    pub id: u64,
    /// `{domain}/{code}` of each change.
    pub keys: Packed,
    /// The encoded record of each change.
    pub records: Packed,
}

/// A change that is not published yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingChange<'a> {
    /// `{domain}/{code}`.
    pub key: &'a str,
    /// The encoded record.
    record: &'a [u8],
}

/// A batch that cannot be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedBatch {
    /// A column is cut off.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// A key is no text.
    #[error("a key is no text: {0}")]
    Key(#[from] Utf8Error),
    /// There are more of the ones than of the others.
    #[error("{keys} keys with {records} records")]
    Count {
        /// How many keys there are.
        keys: usize,
        /// How many records there are.
        records: usize,
    },
}

impl PendingBatch {
    /// How many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.keys.as_bytes().len() + self.records.as_bytes().len()
    }

    /// The changes one by one.
    ///
    /// # Errors
    /// Where the row is not what any version writes.
    pub fn changes(&self) -> Result<Vec<PendingChange<'_>>, MalformedBatch> {
        let keys = self.keys.values().collect::<Result<Vec<_>, _>>()?;
        let records = self.records.values().collect::<Result<Vec<_>, _>>()?;
        if keys.len() != records.len() {
            return Err(MalformedBatch::Count {
                keys: keys.len(),
                records: records.len(),
            });
        }
        let change = |(key, record)| PendingChange::new(key, record);
        keys.into_iter().zip(records).map(change).collect()
    }
}

impl<'a> PendingChange<'a> {
    /// A change of the link with this key to the encoded record.
    ///
    /// # Errors
    /// Where the key is no text.
    pub fn new(key: &'a [u8], record: &'a [u8]) -> Result<Self, MalformedBatch> {
        let key = std::str::from_utf8(key)?;
        Ok(Self { key, record })
    }

    /// What the link is by this change.
    ///
    /// # Errors
    /// Where a version that is not known here wrote the row.
    pub fn record(&self) -> Result<Record<&'a str>, RecordError> {
        Record::decode(self.record)
    }
}

/// How far numbers may be issued, and have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundState {
    /// No number at or above this was drawn.
    pub allocated: u64,
    /// The greatest bound.
    pub bound: u64,
    /// Whether the edges were told of it.
    pub is_published: bool,
}

/// A key with the number of its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedKey {
    /// The number of the link.
    pub id: u64,
    /// `{domain}/{code}`.
    pub key: String,
}
