//! A record that a tier behind the caches has returned.

use crate::freshness::RecordKind;
use edgelink_wire::Record;

/// A record from another tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FetchedRecord<B> {
    /// The record, encoded.
    pub(crate) bytes: B,
    pub(crate) kind: RecordKind,
    pub(crate) rev: u64,
}

impl<B> FetchedRecord<B> {
    /// A record, and its encoding.
    pub(crate) fn new(record: &Record<&str>, bytes: B) -> Self {
        Self {
            bytes,
            kind: RecordKind::of(record),
            rev: record.rev(),
        }
    }
}

impl FetchedRecord<Vec<u8>> {
    /// Borrows the encoding.
    pub(crate) fn as_deref(&self) -> FetchedRecord<&[u8]> {
        FetchedRecord {
            bytes: &self.bytes,
            kind: self.kind,
            rev: self.rev,
        }
    }
}
