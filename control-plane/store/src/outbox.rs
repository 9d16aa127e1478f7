//! The outbox: changes of links in transit to the feed. A row has the changes of one transaction, or a part of them.
//!
//! Reads begin behind a low-water mark, up to which rows were removed: while a snapshot is open (a dump, a long transaction), the
//! database keeps removed rows, and a read from the beginning walks all of them. Numbers are assigned before transactions
//! commit, so the mark lags behind the removed rows by longer than transactions take, and rows that a transaction still leaves below
//! it are found by [`Store::oldest_of`].

use super::packed::{CutOff, Packed};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Value, insert_literally, sql};
use edgelink_wire::code::MAX_CODE_LENGTH;
use edgelink_wire::domain::MAX_DOMAIN_LENGTH;
use edgelink_wire::record::RecordBytes;
use edgelink_wire::{Record, RecordError};
use std::fmt::Display;
use std::io::Write;
use std::str::Utf8Error;

/// The most bytes of keys and records in a batch, the unit of reading and publishing.
pub const MAX_BATCH_BYTES: usize = 64 << 10;

impl Store {
    /// Size of the outbox above the low-water mark.
    pub async fn outbox_size(&self) -> Result<OutboxSize, StoreError> {
        let mark = self.publisher().await?.outbox_mark;
        let call = self
            .read("outbox_size", "measuring the outbox")
            .of(Class::Control);
        run!(call, |session| {
            let (now, clock) = session.dialect().clock();
            let query = sql(format!(
                "SELECT {now} AS now, (SELECT created_at FROM outbox WHERE id > ? ORDER BY id LIMIT 1) AS oldest, \
                 (SELECT COUNT(*) FROM (SELECT id FROM outbox WHERE id > ? LIMIT 100000) AS waiting) AS rows_waiting"
            ));
            let query = query.bind_all(clock).bind(mark).bind(mark);
            let (now, oldest, rows): (u64, Option<u64>, i64) = session.fetch_one(query).await?;
            Ok(OutboxSize {
                rows: rows.cast_unsigned(),
                age_millis: (now / 1000).saturating_sub(oldest.unwrap_or(u64::MAX)),
            })
        })
    }

    /// Lowers the low-water mark of the outbox below a row; returns `false` without a change if `token` is not the newest one.
    pub async fn lower_outbox_mark(&self, token: u64, row: u64) -> Result<bool, StoreError> {
        let call = self
            .write("lower_outbox_mark", "lowering the mark of the outbox")
            .of(Class::Control);
        let mark = row.saturating_sub(1);
        let is_ours = run!(call, |session| {
            let least = session.dialect().least;
            let lower = sql(format!(
                "UPDATE publisher SET outbox_mark = {least}(outbox_mark, ?) WHERE id = 1 AND token = ?"
            ));
            Ok(session.autocommit(lower.bind(mark).bind(token)).await? > 0)
        })?;
        if is_ours {
            self.outbox_mark.lower(mark);
        }
        Ok(is_ours)
    }
}

/// Size of the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxSize {
    /// Rows, counted up to 100,000.
    pub rows: u64,
    /// Age of the oldest row, in milliseconds.
    pub age_millis: u64,
}

/// Changes written to the outbox by a transaction, in batches.
#[derive(Debug, Default)]
pub(super) struct OutboxBatches(Vec<NewBatch>);

/// A row of the outbox.
#[derive(Debug, Default)]
struct NewBatch {
    pub keys: Packed,
    pub records: Packed,
}

impl OutboxBatches {
    /// Adds the record of a link key or a domain key.
    pub(super) fn push(&mut self, key: &impl Display, record: &Record<&str>) {
        let change = LONGEST_KEY + record.max_length();
        if self.0.last().is_none_or(|batch| !batch.has_room(change)) {
            self.0.push(NewBatch::default());
        }
        if let Some(batch) = self.0.last_mut() {
            // Writing to a vector does not fail.
            batch.keys.push(|bytes| drop(write!(bytes, "{key}")));
            batch.records.push(|bytes| record.encode(bytes));
        }
    }

    /// Appends the statement that adds all of them at `now`, in unix milliseconds, to a text.
    pub(super) fn insert_literally(&self, text: &mut String, now: u64) {
        let rows = self.0.iter().map(|batch| batch.values(now));
        insert_literally(text, INSERT, rows);
    }

    /// Adds them to the outbox. Part of a transaction.
    pub(super) async fn append_outbox(&self, session: &mut Session, now: u64) -> Result<(), Fault> {
        for batch in &self.0 {
            session
                .execute(sql(INSERT).rows([batch.values(now)]))
                .await?;
        }
        Ok(())
    }
}

/// The most bytes of a key, plus the lengths in front of key and record.
const LONGEST_KEY: usize = MAX_DOMAIN_LENGTH + 1 + MAX_CODE_LENGTH + 8;

const INSERT: &str = "INSERT INTO outbox (link_keys, records, created_at) ";

impl NewBatch {
    fn values(&self, now: u64) -> [Value<'_>; 3] {
        [
            self.keys.as_bytes().into(),
            self.records.as_bytes().into(),
            now.into(),
        ]
    }

    pub(crate) fn size(&self) -> usize {
        self.keys.as_bytes().len() + self.records.as_bytes().len()
    }

    /// True if a change of up to this length fits.
    fn has_room(&self, change: usize) -> bool {
        self.size() + change <= MAX_BATCH_BYTES
    }
}

/// Unpublished changes of one transaction: all of them, or a part of up to [`MAX_BATCH_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingBatch {
    /// The number of the row.
    pub id: u64,
    /// `{domain}/{code}` of each change.
    pub keys: Packed,
    /// The encoded record of each change.
    pub records: Packed,
}

/// An unpublished change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingChange<'a> {
    /// `{domain}/{code}`.
    pub key: &'a str,
    /// The encoded record.
    record: &'a [u8],
}

/// A batch that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedBatch {
    /// A column is cut off.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// A key is not UTF-8.
    #[error("a key is not UTF-8: {0}")]
    Key(#[from] Utf8Error),
    /// The numbers of keys and records differ.
    #[error("{0} keys, but {1} records")]
    Count(usize, usize),
}

impl PendingBatch {
    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.keys.as_bytes().len() + self.records.as_bytes().len()
    }

    /// The changes one by one.
    ///
    /// # Errors
    /// If the row is malformed.
    pub fn changes(&self) -> Result<Vec<PendingChange<'_>>, MalformedBatch> {
        let keys = self.keys.values().collect::<Result<Vec<_>, _>>()?;
        let records = self.records.values().collect::<Result<Vec<_>, _>>()?;
        if keys.len() != records.len() {
            return Err(MalformedBatch::Count(keys.len(), records.len()));
        }
        let change = |(key, record)| {
            let key = str::from_utf8(key)?;
            Ok(PendingChange { key, record })
        };
        keys.into_iter().zip(records).map(change).collect()
    }
}

impl<'a> PendingChange<'a> {
    /// The record of the link after this change.
    ///
    /// # Errors
    /// If the record has a format unknown to this version.
    pub fn record(&self) -> Result<RecordBytes<&'a [u8]>, RecordError> {
        RecordBytes::decode(self.record)
    }
}
