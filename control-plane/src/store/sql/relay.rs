//! The relay's part of the store.

use super::SqlStore;
use super::fault::Fault;
use super::rows::{NewRow, Unsigned};
use super::session::Session;
use super::statements::Statements;
use crate::store::{BoundState, MAX_BATCH_BYTES, Packed, RelayStore, ScannedKey, StoreError};
use async_trait::async_trait;
use edgelink_wire::record::MAX_URL_LENGTH;
use edgelink_wire::{LinkKey, LinkRecord, Record};
use sqlx::Database;
use std::io::Write;

/// The changes of a transaction on their way into the outbox.
#[derive(Debug, Default)]
pub(in crate::store) struct Announcements(Vec<Batch>);

/// A row of the outbox.
#[derive(Debug, Default)]
pub(in crate::store) struct Batch {
    pub(in crate::store) keys: Packed,
    pub(in crate::store) records: Packed,
}

impl Announcements {
    /// The only change.
    pub(in crate::store) fn one(key: &LinkKey, record: &Record<&str>) -> Self {
        let mut changes = Self::default();
        changes.push(key, record);
        changes
    }

    /// Says what the link of `key` is now.
    pub(in crate::store) fn push(&mut self, key: &LinkKey, record: &Record<&str>) {
        if self.0.last().is_none_or(Batch::is_full) {
            self.0.push(Batch::default());
        }
        if let Some(batch) = self.0.last_mut() {
            // Writing to a vector does not fail.
            batch.keys.push(|bytes| drop(write!(bytes, "{key}")));
            batch.records.push(|bytes| record.encode(bytes));
        }
    }

    /// Says that a link was created with revision `rev`.
    pub(in crate::store) fn push_new(&mut self, row: &NewRow, rev: u64) {
        let record = match row.link.record() {
            Record::Link(link) => Record::Link(LinkRecord { rev, ..link }),
            absent @ Record::Absent { .. } => absent,
        };
        self.push(&row.link.key(), &record);
    }

    /// The rows that they take.
    pub(in crate::store) fn batches(&self) -> &[Batch] {
        &self.0
    }

    /// How many bytes they take.
    pub(in crate::store) fn size(&self) -> usize {
        self.0.iter().map(Batch::size).sum()
    }
}

impl Batch {
    fn size(&self) -> usize {
        self.keys.as_bytes().len() + self.records.as_bytes().len()
    }

    /// Whether another change might be too much.
    fn is_full(&self) -> bool {
        const LONGEST_CHANGE: usize = MAX_URL_LENGTH + 512;
        self.size() + LONGEST_CHANGE > MAX_BATCH_BYTES
    }
}

/// The state of the bounds as a query answers it.
#[derive(Debug, sqlx_macros::FromRow)]
pub(in crate::store) struct BoundRow {
    allocated: Unsigned,
    bound: Unsigned,
    is_published: bool,
}

impl BoundRow {
    /// The greatest bound.
    pub(in crate::store) fn bound(&self) -> u64 {
        self.bound.0
    }
}

/// A key as a query answers it.
#[derive(Debug, sqlx_macros::FromRow)]
pub(in crate::store) struct ScannedRow {
    id: Unsigned,
    domain: Vec<u8>,
    code: Vec<u8>,
}

/// The single statements for the relay, in one dialect. Those that write last.
pub(in crate::store) trait RelayStatements: Send {
    /// Adds changes to the outbox. Part of a transaction.
    fn announce(
        &mut self,
        changes: &Announcements,
        now: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Takes a lease that nobody else has.
    fn take_lease(
        &mut self,
        name: &str,
        owner: &str,
        milliseconds: u64,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Gives a lease back.
    fn release_lease(
        &mut self,
        name: &str,
        owner: &str,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The state of the bounds.
    fn bound_state(&mut self) -> impl Future<Output = Result<BoundRow, Fault>> + Send;

    /// Adds a bound unless it is there.
    fn add_bound(&mut self, bound: u64) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Sets when a bound was published, unless it was before; removes those below the greatest one that counts.
    fn mark_bound_published(
        &mut self,
        bound: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Keys in the order of the numbers.
    fn scan_keys(
        &mut self,
        after: Option<u64>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<ScannedRow>, Fault>> + Send;
}

impl ScannedRow {
    fn into_key(self) -> Result<ScannedKey, Fault> {
        Ok(ScannedKey {
            id: self.id.0,
            key: [text(self.domain)?, text(self.code)?].join("/"),
        })
    }
}

/// A key as text.
pub(in crate::store) fn text(bytes: Vec<u8>) -> Result<String, Fault> {
    String::from_utf8(bytes).map_err(|error| Fault::Corrupt(format!("key: {error}")))
}

fn keys(rows: Vec<ScannedRow>) -> Result<Vec<ScannedKey>, Fault> {
    rows.into_iter().map(ScannedRow::into_key).collect()
}

#[async_trait]
impl<DB: Database> RelayStore for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn take_lease(
        &self,
        name: &str,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, StoreError> {
        self.connections()
            .write("taking a lease", |mut session| async move {
                let taken = session.take_lease(name, owner, milliseconds).await;
                (taken, session)
            })
            .await
    }

    async fn release_lease(&self, name: &str, owner: &str) -> Result<(), StoreError> {
        self.connections()
            .write("giving back a lease", |mut session| async move {
                (session.release_lease(name, owner).await, session)
            })
            .await
    }

    async fn bound_state(&self) -> Result<BoundState, StoreError> {
        self.connections()
            .read("reading the bound", |mut session| async move {
                let row = session.bound_state().await;
                let state = row.map(|row| BoundState {
                    allocated: row.allocated.0,
                    bound: row.bound.0,
                    is_published: row.is_published,
                });
                (state, session)
            })
            .await
    }

    async fn add_bound(&self, bound: u64) -> Result<(), StoreError> {
        self.connections()
            .write("adding a bound", |mut session| async move {
                (session.add_bound(bound).await, session)
            })
            .await
    }

    async fn mark_bound_published(&self, bound: u64) -> Result<(), StoreError> {
        self.connections()
            .write("marking a bound as published", |mut session| async move {
                (session.mark_bound_published(bound).await, session)
            })
            .await
    }

    async fn scan_keys(
        &self,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedKey>, StoreError> {
        self.connections()
            .read("scanning the keys", |mut session| async move {
                let rows = session.scan_keys(after, limit).await;
                (rows.and_then(keys), session)
            })
            .await
    }
}
