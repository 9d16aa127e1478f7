//! An encoded record that is passed on as it is.

use super::Record;
use crate::error::RecordError;

/// An encoded record that was checked: publisher, feed and caches pass these bytes on, and encode no record again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBytes<B> {
    /// The encoding.
    pub bytes: B,
    /// The kind of the record.
    pub kind: RecordKind,
    /// The revision, as [`Record::rev`].
    pub rev: u64,
}

/// The two kinds of records, as far as their lifetimes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A link.
    Link,
    /// The absence of a link.
    Absent,
}

impl RecordKind {
    /// The kind of a record.
    #[must_use]
    #[inline]
    pub fn of<U, B>(record: &Record<U, B>) -> Self {
        match record {
            Record::Link(_) => Self::Link,
            Record::Absent { .. } => Self::Absent,
        }
    }
}

impl<B> RecordBytes<B> {
    /// A record and its own encoding.
    #[must_use]
    #[inline]
    pub fn new(record: &Record<&str>, bytes: B) -> Self {
        Self {
            bytes,
            kind: RecordKind::of(record),
            rev: record.rev(),
        }
    }
}

impl RecordBytes<Vec<u8>> {
    /// Encodes a record.
    #[must_use]
    #[inline]
    pub fn of(record: &Record<&str>) -> Self {
        Self::new(record, record.to_bytes())
    }

    /// Borrows the encoding.
    #[must_use]
    #[inline]
    pub fn as_deref(&self) -> RecordBytes<&[u8]> {
        RecordBytes {
            bytes: &self.bytes,
            kind: self.kind,
            rev: self.rev,
        }
    }
}

impl<'a> RecordBytes<&'a [u8]> {
    /// Checks an encoded record.
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self::new(&Record::decode(bytes)?, bytes))
    }

    /// The record, for readers of more than kind and revision.
    #[must_use]
    pub fn record(&self) -> Record<&'a str> {
        Record::decode(self.bytes).unwrap_or(Record::Absent { rev: self.rev })
    }
}
