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
use edgelink_database::sql::{Sql, Value, insert_literally, padded, sql};
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

/// Consecutive numbers of rows of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutboxRun {
    pub(super) first: u64,
    pub(super) last: u64,
}

/// Rows of the outbox by their numbers, in runs. A number in between, whose row may be committed later, is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxRuns {
    /// In ascending order, with a gap between each two.
    runs: Vec<OutboxRun>,
    rows: usize,
    /// The sum of the times at which they were written, by which rows are told from others that have got their numbers.
    times: u64,
}

impl OutboxRuns {
    /// Adds the row with this number, written at `created_at`.
    pub fn add(&mut self, id: u64, created_at: u64) {
        let place = self.runs.partition_point(|run| run.last < id);
        let before = place.checked_sub(1).and_then(|place| self.runs.get(place));
        let follows = before.is_some_and(|run| run.last.saturating_add(1) == id);
        let next = self.runs.get(place).copied();
        if next.is_some_and(|run| run.first <= id) {
            return;
        }
        self.rows += 1;
        self.times = self.times.wrapping_add(created_at);
        let precedes = next.filter(|run| run.first == id.saturating_add(1));
        match (follows, precedes) {
            (true, Some(next)) => {
                self.runs.remove(place);
                self.extend_to(place - 1, next.last);
            }
            (true, None) => self.extend_to(place - 1, id),
            (false, Some(_)) => {
                if let Some(run) = self.runs.get_mut(place) {
                    run.first = id;
                }
            }
            (false, None) => self.runs.insert(
                place,
                OutboxRun {
                    first: id,
                    last: id,
                },
            ),
        }
    }

    fn extend_to(&mut self, place: usize, last: u64) {
        if let Some(run) = self.runs.get_mut(place) {
            run.last = last;
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of runs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// The greatest number; 0 without a row.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.last)
    }

    /// The runs, padded to one of few lengths.
    pub(super) fn padded(&self) -> impl Iterator<Item = &OutboxRun> {
        padded(&self.runs)
    }

    /// The statement that removes them; `None` without a row. It names each: for a range MariaDB locks the row behind it as well, which
    /// may belong to a transaction that is open.
    pub(super) fn removal(&self) -> Option<Sql<'static>> {
        let runs = self.runs.iter();
        let ids: Vec<u64> = runs.flat_map(|run| run.first..=run.last).collect();
        let delete = sql("DELETE FROM outbox WHERE id IN ");
        (!ids.is_empty()).then(|| delete.list(&ids))
    }

    /// The condition for a row to be among them.
    pub(super) fn condition(&self) -> String {
        let runs = vec!["id BETWEEN ? AND ?"; self.padded().count()];
        if runs.is_empty() {
            return "id IS NULL".to_owned();
        }
        runs.join(" OR ")
    }

    /// The values of [`Self::condition`].
    pub(super) fn bounds(&self) -> impl Iterator<Item = u64> {
        self.padded().flat_map(|run| [run.first, run.last])
    }

    /// True if so many rows, written at times with this sum, are all of them.
    pub(super) fn are(&self, rows: i64, times: u64) -> bool {
        u64::try_from(rows).is_ok_and(|rows| rows == self.rows as u64) && times == self.times
    }
}

impl FromIterator<u64> for OutboxRuns {
    fn from_iter<T: IntoIterator<Item = u64>>(ids: T) -> Self {
        let mut runs = Self::default();
        for id in ids {
            runs.add(id, 0);
        }
        runs
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
        for addition in self.additions(now) {
            session.execute(addition).await?;
        }
        Ok(())
    }

    /// The statements that add them at `now`, in unix milliseconds.
    pub(super) fn additions(&self, now: u64) -> impl Iterator<Item = Sql<'_>> {
        let batches = self.0.iter();
        batches.map(move |batch| sql(INSERT).rows([batch.values(now)]))
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
    /// The time at which it was written, in unix milliseconds.
    pub created_at: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_when_rows_are_added_leave_out_gaps() {
        for (ids, expected) in [
            (&[][..], &[][..]),
            (&[5], &[(5, 5)]),
            (&[5, 6, 7, 9], &[(5, 7), (9, 9)]),
            (&[5, 9, 6, 8, 8, 7], &[(5, 9)]),
            (&[9, 5, 4, 1, 9, 5], &[(1, 1), (4, 5), (9, 9)]),
            (&[u64::MAX, u64::MAX - 1], &[(u64::MAX - 1, u64::MAX)]),
        ] {
            let runs: OutboxRuns = ids.iter().copied().collect();
            let found: Vec<(u64, u64)> =
                runs.runs.iter().map(|run| (run.first, run.last)).collect();
            assert_eq!(found, expected, "{ids:?}");
            let rows = expected
                .iter()
                .map(|(first, last)| (last - first) as usize + 1);
            assert_eq!(runs.rows(), rows.sum::<usize>(), "{ids:?}");
            assert_eq!(runs.last(), ids.iter().copied().max().unwrap_or(0));
        }
    }
}
