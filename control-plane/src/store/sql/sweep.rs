//! Removing what is over.

use super::fault::Fault;
use super::relay::Announcements;
use super::rows::LinkRow;
use super::session::Session;
use super::statements::Statements;
use super::store::{SqlStore, unix_millis};
use crate::store::{StoreError, SweepStore};
use async_trait::async_trait;
use edgelink_wire::Record;
use sqlx::Database;

/// The statements that a database has to bring.
pub(in crate::store) trait SweepStatements: Send {
    /// Locks links whose validity has ended, and answers their numbers.
    fn lock_expired(
        &mut self,
        valid_until: u64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<u64>, Fault>> + Send;

    /// The links with these numbers.
    fn links_by_id(
        &mut self,
        ids: &[u64],
    ) -> impl Future<Output = Result<Vec<LinkRow>, Fault>> + Send;

    /// Makes empty tombstones of links.
    fn empty_links(
        &mut self,
        ids: &[u64],
        now: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Deletes tombstones. Lasts.
    fn purge_tombstones(
        &mut self,
        before: u64,
        limit: u32,
    ) -> impl Future<Output = Result<u64, Fault>> + Send;
}

#[async_trait]
impl<DB: Database> SweepStore for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn sweep_expired(&self, valid_until: u64, limit: u32) -> Result<u64, StoreError> {
        let now = unix_millis();
        self.connections()
            .write("deleting links that are over", |mut session| async move {
                (sweep(&mut session, valid_until, limit, now).await, session)
            })
            .await
    }

    async fn purge_tombstones(&self, deleted_before: u64, limit: u32) -> Result<u64, StoreError> {
        self.connections()
            .write("purging tombstones", |mut session| async move {
                let purged = session.purge_tombstones(deleted_before, limit).await;
                (purged, session)
            })
            .await
    }
}

async fn sweep<S: Statements>(
    session: &mut S,
    valid_until: u64,
    limit: u32,
    now: u64,
) -> Result<u64, Fault> {
    session.begin().await?;
    let ids = session.lock_expired(valid_until, limit).await?;
    if ids.is_empty() {
        session.rollback().await?;
        return Ok(0);
    }
    let mut changes = Announcements::default();
    for row in session.links_by_id(&ids).await? {
        let link = row.into_link()?;
        let absent = Record::Absent { rev: link.rev + 1 };
        changes.push(&link.key(), &absent);
    }
    session.empty_links(&ids, now).await?;
    session.announce(&changes, now).await?;
    session.commit(ids.len()).await?;
    Ok(ids.len() as u64)
}
