//! Counting clicks.

use super::SqlStore;
use super::fault::Fault;
use super::relay::text;
use super::rows::Unsigned;
use super::session::Session;
use super::sizes::pieces;
use super::statements::Statements;
use crate::store::{ClickAccounts, ClickStore, CountedBatch, StoreError};
use async_trait::async_trait;
use sqlx::Database;
use std::collections::BTreeMap;

const MINUTE_MS: u64 = 60_000;

/// How often a link was followed in a minute.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct MinuteRow<'a> {
    pub(in crate::store) minute: u64,
    pub(in crate::store) key: &'a str,
    pub(in crate::store) clicks: u64,
}

/// Sums as a query answers them.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct AccountsRow {
    sent: Unsigned,
    counted: Unsigned,
    dropped: Unsigned,
}

/// The single statements for clicks, in one dialect.
pub(in crate::store) trait ClickStatements: Send {
    /// Notes a batch; `false` where it was noted before. Part of a transaction.
    fn note_batch(
        &mut self,
        batch: &CountedBatch,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Adds to the accounts of the batch's worker. Part of a transaction.
    fn account(
        &mut self,
        batch: &CountedBatch,
        counted: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Adds clicks. Part of a transaction.
    fn add_clicks(
        &mut self,
        rows: &[MinuteRow<'_>],
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The keys with the most clicks.
    fn hot_keys(
        &mut self,
        minute: u64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Vec<u8>>, Fault>> + Send;

    /// The sums over all workers.
    fn click_accounts(&mut self) -> impl Future<Output = Result<AccountsRow, Fault>> + Send;

    /// Removes old minutes, and answers how many rows that were. Lasts.
    fn purge_minutes(
        &mut self,
        minute: u64,
        limit: u32,
    ) -> impl Future<Output = Result<u64, Fault>> + Send;

    /// Removes old batches, and answers how many rows that were. Lasts.
    fn purge_batches(
        &mut self,
        received_at: u64,
        limit: u32,
    ) -> impl Future<Output = Result<u64, Fault>> + Send;
}

/// Counts those batches that were not counted before, all in one transaction.
async fn count<S: Statements>(session: &mut S, batches: &[CountedBatch]) -> Result<usize, Fault> {
    session.begin().await?;
    let mut new = Vec::new();
    for batch in in_order(batches) {
        if session.note_batch(batch).await? {
            session.account(batch, sum(batch)).await?;
            new.push(batch);
        }
    }
    let minutes = by_minute(&new);
    for rows in pieces(&minutes) {
        session.add_clicks(rows).await?;
    }
    session.commit(1).await?;
    Ok(new.len())
}

/// Transactions that touch the same rows in the same order do not deadlock.
fn in_order(batches: &[CountedBatch]) -> Vec<&CountedBatch> {
    let mut batches: Vec<&CountedBatch> = batches.iter().collect();
    batches.sort_unstable_by_key(|batch| (batch.worker, batch.seq));
    batches
}

fn by_minute<'a>(batches: &[&'a CountedBatch]) -> Vec<MinuteRow<'a>> {
    let mut sums = BTreeMap::<(u64, &str), u64>::new();
    for batch in batches {
        for (key, clicks) in &batch.clicks {
            let sum = sums.entry((batch.minute, key)).or_default();
            *sum = sum.saturating_add(*clicks);
        }
    }
    let row = |((minute, key), clicks)| MinuteRow {
        minute,
        key,
        clicks,
    };
    sums.into_iter().map(row).collect()
}

fn sum(batch: &CountedBatch) -> u64 {
    let clicks = batch.clicks.iter().map(|(_, clicks)| *clicks);
    clicks.fold(0, u64::saturating_add)
}

fn keys(rows: Vec<Vec<u8>>) -> Result<Vec<String>, Fault> {
    rows.into_iter().map(text).collect()
}

async fn purge<S: Statements>(
    session: &mut S,
    minute: u64,
    received_at: u64,
    limit: u32,
) -> Result<u64, Fault> {
    let minutes = session.purge_minutes(minute, limit).await?;
    Ok(minutes + session.purge_batches(received_at, limit).await?)
}

#[async_trait]
impl<DB: Database> ClickStore for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn count_clicks(&self, batches: &[CountedBatch]) -> Result<usize, StoreError> {
        self.connections()
            .write("counting clicks", |mut session| async move {
                (count(&mut session, batches).await, session)
            })
            .await
    }

    async fn hot_keys(&self, minute: u64, limit: u32) -> Result<Vec<String>, StoreError> {
        self.connections()
            .read("finding the hot links", |mut session| async move {
                let rows = session.hot_keys(minute, limit).await;
                (rows.and_then(keys), session)
            })
            .await
    }

    async fn click_accounts(&self) -> Result<ClickAccounts, StoreError> {
        self.connections()
            .read("summing up clicks", |mut session| async move {
                let accounts = session.click_accounts().await.map(|row| ClickAccounts {
                    sent: row.sent.0,
                    counted: row.counted.0,
                    dropped: row.dropped.0,
                });
                (accounts, session)
            })
            .await
    }

    async fn purge_clicks(
        &self,
        minutes: u64,
        batch_minutes: u64,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let now = self.now().await? / MINUTE_MS;
        let minute = now.saturating_sub(minutes);
        let received_at = now.saturating_sub(batch_minutes) * MINUTE_MS;
        self.connections()
            .write("removing old clicks", |mut session| async move {
                let purged = purge(&mut session, minute, received_at, limit).await;
                (purged, session)
            })
            .await
    }
}
