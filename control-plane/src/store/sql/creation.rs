//! Finding links by their target, and creating links once.

use super::create::{self, ChunkLimits, Outcome};
use super::fault::{Fault, Remedy};
use super::revisions::LastRevisions;
use super::rows::{LinkRow, NewRow, Unsigned, url_hash};
use super::session::Session;
use super::sizes::pieces;
use super::statements::Statements;
use super::store::{SqlStore, answer, links};
use crate::model::Link;
use crate::store::creation::MAX_LINKS_TO_TARGET;
use crate::store::{
    CreateError, CreationStore, NewLink, OnceLink, Receipt, StoreError, StoredReceipt, Twin,
};
use crate::target::TargetUrl;
use async_trait::async_trait;
use sqlx::Database;
use std::collections::HashSet;
use std::ops::Range;

/// A receipt on its way into the database.
#[derive(Debug)]
pub(in crate::store) struct NewReceipt<'a> {
    pub(in crate::store) receipt: &'a Receipt,
    pub(in crate::store) link: &'a Link,
    pub(in crate::store) rev: u64,
}

/// A receipt as a query answers it.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct ReceiptRow {
    item: u32,
    fingerprint: Vec<u8>,
    link_id: Unsigned,
    link_key: Vec<u8>,
    rev: Unsigned,
    created_at: Unsigned,
}

/// The statements that a database has to bring.
pub(in crate::store) trait CreationStatements: Send {
    /// Links by the hashes of their targets, without tombstones, oldest first.
    fn links_by_hash(
        &mut self,
        hashes: &[i64],
        limit: u32,
    ) -> impl Future<Output = Result<Vec<LinkRow>, Fault>> + Send;

    /// Keeps others from creating links to targets with these hashes that may have no twin, until the transaction ends.
    fn lock_targets(&mut self, hashes: &[i64]) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Adds receipts: all of them, or none and [`Remedy::Duplicate`]. Part of a transaction.
    fn insert_receipts(
        &mut self,
        receipts: &[NewReceipt<'_>],
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The receipts of these items of a request.
    fn find_receipts(
        &mut self,
        request: &[u8; 32],
        items: Range<u32>,
    ) -> impl Future<Output = Result<Vec<ReceiptRow>, Fault>> + Send;

    /// Deletes receipts that are older than `kept` milliseconds. Lasts.
    fn purge_receipts(
        &mut self,
        kept: u64,
        limit: u32,
    ) -> impl Future<Output = Result<u64, Fault>> + Send;
}

#[async_trait]
impl<DB: Database> CreationStore for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn links_to(&self, targets: &[&TargetUrl]) -> Result<Vec<Link>, StoreError> {
        let hashes = hashes_of(targets.iter().copied());
        let hashes = hashes.as_slice();
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        self.connections()
            .read("finding links by their target", |mut session| async move {
                let rows = session.links_by_hash(hashes, most_links(hashes)).await;
                (rows.and_then(links), session)
            })
            .await
    }

    async fn create_links_once(
        &self,
        new: Vec<OnceLink>,
    ) -> Result<Option<Vec<Result<Link, CreateError>>>, StoreError> {
        let now = self.now().await?;
        let links: Vec<NewLink> = new.iter().map(|new| new.link.clone()).collect();
        let rows = self.new_rows(links, now).await?;
        let (links, new, limits) = (rows.as_slice(), new.as_slice(), self.limits());
        let last = self.last_revisions();
        let outcomes = self
            .connections()
            .write("creating links once", |mut session| async move {
                let outcomes = create_once(&mut session, links, new, limits, last, now).await;
                (outcomes, session)
            })
            .await?;
        Ok(outcomes.map(|outcomes| rows.into_iter().zip(outcomes).map(answer).collect()))
    }

    async fn receipts(
        &self,
        request: &[u8; 32],
        items: Range<u32>,
    ) -> Result<Vec<StoredReceipt>, StoreError> {
        let items = &items;
        self.connections()
            .read("finding receipts", |mut session| async move {
                let rows = session.find_receipts(request, items.clone()).await;
                let receipts =
                    rows.and_then(|rows| rows.into_iter().map(ReceiptRow::into_receipt).collect());
                (receipts, session)
            })
            .await
    }

    async fn purge_receipts(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        self.connections()
            .write("purging receipts", |mut session| async move {
                (session.purge_receipts(kept_millis, limit).await, session)
            })
            .await
    }
}

/// Creates the links, and with each of them its receipt. Nothing where a receipt is there already, or a twin that is not
/// allowed.
async fn create_once<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    new: &[OnceLink],
    limits: ChunkLimits,
    last: &LastRevisions,
    now: u64,
) -> Result<Option<Vec<Outcome>>, Fault> {
    let singles: Vec<&OnceLink> = new.iter().filter(|new| new.twin != Twin::Allowed).collect();
    let outcomes = if singles.is_empty() {
        create::begin_and_create(session, rows, limits, last, now).await?
    } else {
        session.begin().await?;
        if meet_twins(session, &singles).await? {
            session.rollback().await?;
            return Ok(None);
        }
        create::create_within(session, rows, limits, now).await?
    };
    match leave_receipts(session, rows, new, &outcomes, limits).await {
        Ok(()) => {}
        Err(fault) if S::remedy(&fault) == Remedy::Duplicate => {
            session.rollback().await?;
            return Ok(None);
        }
        Err(fault) => return Err(fault),
    }
    session.commit(rows.len()).await?;
    Ok(Some(outcomes))
}

/// Whether one of these links has a twin. Nobody else creates one until the transaction ends.
async fn meet_twins<S: Statements>(session: &mut S, singles: &[&OnceLink]) -> Result<bool, Fault> {
    let hashes = hashes_of(singles.iter().map(|new| &new.link.content.target));
    session.lock_targets(&hashes).await?;
    let rows = session.links_by_hash(&hashes, most_links(&hashes)).await?;
    let links = links(rows)?;
    Ok(singles
        .iter()
        .any(|new| links.iter().any(|link| new.is_met_by(link))))
}

fn hashes_of<'a>(targets: impl Iterator<Item = &'a TargetUrl>) -> Vec<i64> {
    let hashes: HashSet<i64> = targets.map(url_hash).collect();
    hashes.into_iter().collect()
}

fn most_links(hashes: &[i64]) -> u32 {
    u32::try_from(hashes.len() * MAX_LINKS_TO_TARGET).unwrap_or(u32::MAX)
}

async fn leave_receipts<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    new: &[OnceLink],
    outcomes: &[Outcome],
    limits: ChunkLimits,
) -> Result<(), Fault> {
    let created = rows.iter().zip(new).zip(outcomes);
    let receipts: Vec<NewReceipt<'_>> = created
        .filter_map(|((row, new), outcome)| {
            Some(NewReceipt {
                receipt: new.receipt.as_ref()?,
                link: &row.link,
                rev: *outcome.as_ref().ok()?,
            })
        })
        .collect();
    for chunk in receipts.chunks(limits.rows).flat_map(pieces) {
        session.insert_receipts(chunk).await?;
    }
    Ok(())
}

impl ReceiptRow {
    fn into_receipt(self) -> Result<StoredReceipt, Fault> {
        let fingerprint = self.fingerprint.as_slice().try_into();
        let key = std::str::from_utf8(&self.link_key).ok();
        let key = key.and_then(|key| key.parse().ok());
        Ok(StoredReceipt {
            item: self.item,
            fingerprint: fingerprint
                .map_err(|_| Fault::Corrupt("fingerprint of a receipt".to_owned()))?,
            id: self.link_id.0,
            key: key.ok_or_else(|| Fault::Corrupt("key of a receipt".to_owned()))?,
            rev: self.rev.0,
            created_at: self.created_at.0,
        })
    }
}
