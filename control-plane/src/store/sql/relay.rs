//! The relay's part of the store.

use super::SqlStore;
use super::fault::Fault;
use super::rows::{NewRow, Unsigned};
use super::session::Session;
use super::statements::Statements;
use crate::store::{BoundState, PendingChange, RelayStore, ScannedKey, StoreError};
use async_trait::async_trait;
use edgelink_wire::{LinkRecord, Record};
use sqlx::Database;

/// A change on its way into the outbox.
#[derive(Debug)]
pub(in crate::store) struct Announcement {
    pub(in crate::store) key: String,
    pub(in crate::store) rev: u64,
    pub(in crate::store) record: Vec<u8>,
}

impl Announcement {
    /// Says what the link of `key` is now.
    pub(in crate::store) fn new(key: String, record: &Record<&str>) -> Self {
        Self {
            key,
            rev: record.rev(),
            record: record.to_bytes(),
        }
    }

    /// Says that a link was created with revision `rev`.
    pub(in crate::store) fn of_new(row: &NewRow, rev: u64) -> Self {
        let record = match row.link.record() {
            Record::Link(link) => Record::Link(LinkRecord { rev, ..link }),
            absent @ Record::Absent { .. } => absent,
        };
        Self::new(row.link.key().to_string(), &record)
    }

    /// About how many bytes it takes in a packet to the server.
    pub(in crate::store) fn wire_size(&self) -> usize {
        const NUMBERS: usize = 32;
        NUMBERS + self.key.len() + self.record.len()
    }
}

/// A row of the outbox as a query answers it.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct ChangeRow {
    id: Unsigned,
    link_key: Vec<u8>,
    record: Vec<u8>,
}

/// The state of the bounds as a query answers it.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct BoundRow {
    allocated: Unsigned,
    bound: Unsigned,
    is_published: bool,
}

/// A key as a query answers it.
#[derive(Debug, sqlx::FromRow)]
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
        changes: &[Announcement],
        now: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The oldest rows of the outbox.
    fn pending_changes(
        &mut self,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<ChangeRow>, Fault>> + Send;

    /// The keys of the outbox.
    fn pending_keys(
        &mut self,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Vec<u8>>, Fault>> + Send;

    /// Removes rows of the outbox.
    fn forget_changes(&mut self, ids: &[u64]) -> impl Future<Output = Result<(), Fault>> + Send;

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

impl ChangeRow {
    fn into_change(self) -> Result<PendingChange, Fault> {
        Ok(PendingChange {
            id: self.id.0,
            key: text(self.link_key)?,
            record: self.record,
        })
    }
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

fn texts(rows: Vec<Vec<u8>>) -> Result<Vec<String>, Fault> {
    rows.into_iter().map(text).collect()
}

fn changes(rows: Vec<ChangeRow>) -> Result<Vec<PendingChange>, Fault> {
    rows.into_iter().map(ChangeRow::into_change).collect()
}

fn keys(rows: Vec<ScannedRow>) -> Result<Vec<ScannedKey>, Fault> {
    rows.into_iter().map(ScannedRow::into_key).collect()
}

#[async_trait]
impl<DB: Database> RelayStore for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn pending_changes(&self, limit: u32) -> Result<Vec<PendingChange>, StoreError> {
        self.connections()
            .read("reading the outbox", |mut session| async move {
                let rows = session.pending_changes(limit).await;
                (rows.and_then(changes), session)
            })
            .await
    }

    async fn pending_keys(&self, limit: u32) -> Result<Vec<String>, StoreError> {
        self.connections()
            .read("reading the keys of the outbox", |mut session| async move {
                let rows = session.pending_keys(limit).await;
                (rows.and_then(texts), session)
            })
            .await
    }

    async fn forget_changes(&self, ids: &[u64]) -> Result<(), StoreError> {
        self.connections()
            .write("clearing the outbox", |mut session| async move {
                (session.forget_changes(ids).await, session)
            })
            .await
    }

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
