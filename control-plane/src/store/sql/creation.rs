//! Finding links by their target, and creating links once.

use super::create::{self, ChunkLimits, Outcome};
use super::fault::{Fault, Remedy};
use super::rows::{LinkRow, NewRow, Unsigned, url_hash};
use super::session::Session;
use super::sizes::pieces;
use super::statements::Statements;
use super::store::{SqlStore, answer, links, unix_millis};
use crate::model::Link;
use crate::store::creation::MAX_LINKS_TO_TARGET;
use crate::store::{CreateError, CreationStore, NewLink, Receipt, StoreError, StoredReceipt};
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

    /// Deletes receipts from before that time. Lasts.
    fn purge_receipts(
        &mut self,
        before: u64,
        limit: u32,
    ) -> impl Future<Output = Result<u64, Fault>> + Send;
}

#[async_trait]
impl<DB: Database> CreationStore for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn links_to(&self, targets: &[&TargetUrl]) -> Result<Vec<Link>, StoreError> {
        let hashes: HashSet<i64> = targets.iter().map(|target| url_hash(target)).collect();
        let hashes: Vec<i64> = hashes.into_iter().collect();
        let limit = u32::try_from(hashes.len() * MAX_LINKS_TO_TARGET).unwrap_or(u32::MAX);
        let hashes = hashes.as_slice();
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        self.connections()
            .read("finding links by their target", |mut session| async move {
                let rows = session.links_by_hash(hashes, limit).await;
                (rows.and_then(links), session)
            })
            .await
    }

    async fn create_links_once(
        &self,
        new: Vec<(NewLink, Option<Receipt>)>,
    ) -> Result<Option<Vec<Result<Link, CreateError>>>, StoreError> {
        let now = unix_millis();
        let (new, receipts): (Vec<NewLink>, Vec<Option<Receipt>>) = new.into_iter().unzip();
        let rows = self.new_rows(new, now).await?;
        let (new, receipts, limits) = (rows.as_slice(), receipts.as_slice(), self.limits());
        let outcomes = self
            .connections()
            .write("creating links once", |mut session| async move {
                let outcomes = create_once(&mut session, new, receipts, limits, now).await;
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

    async fn purge_receipts(&self, before: u64, limit: u32) -> Result<u64, StoreError> {
        self.connections()
            .write("purging receipts", |mut session| async move {
                (session.purge_receipts(before, limit).await, session)
            })
            .await
    }
}

/// Creates the links, and with each of them its receipt. Nothing where a receipt is there already.
async fn create_once<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    receipts: &[Option<Receipt>],
    limits: ChunkLimits,
    now: u64,
) -> Result<Option<Vec<Outcome>>, Fault> {
    let outcomes = create::begin_and_create(session, rows, limits, now).await?;
    match leave_receipts(session, rows, receipts, &outcomes, limits).await {
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

async fn leave_receipts<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    receipts: &[Option<Receipt>],
    outcomes: &[Outcome],
    limits: ChunkLimits,
) -> Result<(), Fault> {
    let created = rows.iter().zip(receipts).zip(outcomes);
    let receipts: Vec<NewReceipt<'_>> = created
        .filter_map(|((row, receipt), outcome)| {
            Some(NewReceipt {
                receipt: receipt.as_ref()?,
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
