//! Removing what is over.

use super::fault::Fault;
use super::relay::Announcements;
use super::rows::{LinkRow, Unsigned};
use super::session::Session;
use super::statements::Statements;
use super::store::SqlStore;
use crate::store::{StoreError, SweepStore};
use async_trait::async_trait;
use edgelink_wire::Record;
use sqlx::Database;

/// A tombstone as a query answers it.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct TombstoneRow {
    id: Unsigned,
    rev: Unsigned,
}

/// The statements that a database has to bring.
pub(in crate::store) trait SweepStatements: Send {
    /// Locks links whose validity ended `grace` seconds ago or earlier, and answers their numbers.
    fn lock_expired(
        &mut self,
        grace: u64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<u64>, Fault>> + Send;

    /// The links with these numbers.
    fn links_by_id(
        &mut self,
        ids: &[u64],
    ) -> impl Future<Output = Result<Vec<LinkRow>, Fault>> + Send;

    /// Makes empty tombstones of links. Their revision is the next one, and `first` at least.
    fn empty_links(
        &mut self,
        ids: &[u64],
        first: u64,
        now: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Locks the tombstones of links that were deleted `kept` milliseconds ago or earlier, the oldest first.
    fn lock_tombstones(
        &mut self,
        kept: u64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<TombstoneRow>, Fault>> + Send;

    /// Deletes rows of links. Part of a transaction.
    fn delete_rows(&mut self, ids: &[u64]) -> impl Future<Output = Result<(), Fault>> + Send;
}

#[async_trait]
impl<DB: Database> SweepStore for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn sweep_expired(&self, grace_seconds: u64, limit: u32) -> Result<u64, StoreError> {
        self.connections()
            .write("deleting links that are over", |mut session| async move {
                (sweep(&mut session, grace_seconds, limit).await, session)
            })
            .await
    }

    async fn purge_tombstones(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        self.connections()
            .write("purging tombstones", |mut session| async move {
                (purge(&mut session, kept_millis, limit).await, session)
            })
            .await
    }
}

/// Removes tombstones. Caches may remember their revisions, so the floor keeps the greatest of them.
async fn purge<S: Statements>(session: &mut S, kept: u64, limit: u32) -> Result<u64, Fault> {
    session.begin().await?;
    let tombstones = session.lock_tombstones(kept, limit).await?;
    let Some(greatest) = tombstones.iter().map(|row| row.rev.0).max() else {
        session.rollback().await?;
        return Ok(0);
    };
    let ids: Vec<u64> = tombstones.iter().map(|row| row.id.0).collect();
    session.delete_rows(&ids).await?;
    session.raise_floor(greatest).await?;
    session.commit(ids.len()).await?;
    Ok(ids.len() as u64)
}

async fn sweep<S: Statements>(session: &mut S, grace: u64, limit: u32) -> Result<u64, Fault> {
    session.begin().await?;
    let ids = session.lock_expired(grace, limit).await?;
    if ids.is_empty() {
        session.rollback().await?;
        return Ok(0);
    }
    let revisions = session.revisions().await?;
    let now = revisions.now_millis();
    let mut changes = Announcements::default();
    for row in session.links_by_id(&ids).await? {
        let link = row.into_link()?;
        let rev = revisions.after(link.rev);
        changes.push(&link.key(), &Record::Absent { rev });
    }
    session.empty_links(&ids, revisions.first(), now).await?;
    session.announce(&changes, now).await?;
    session.commit(ids.len()).await?;
    Ok(ids.len() as u64)
}
