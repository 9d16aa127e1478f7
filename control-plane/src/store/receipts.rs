//! Receipts: what came of a request with an Idempotency-Key, so that the same request again creates no link.

use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::session::Session;
use super::sql::{LONGEST, pieces, sql};
use crate::model::Link;
use edgelink_wire::LinkKey;
use std::ops::Range;

/// The item of the receipt that stands for a request as a whole. No request has as many.
const WHOLE_REQUEST: u32 = u32::MAX;

impl Store {
    /// Notes what a request as a whole has asked for, unless that was noted before; whether it was the same.
    pub async fn claim_request(
        &self,
        request: &[u8; 32],
        fingerprint: &[u8; 32],
    ) -> Result<bool, StoreError> {
        run!(self.write("claim_request", "noting a request"), |session| {
            let (now, insert_ignore) = (
                session.dialect().now_millis,
                session.dialect().insert_ignore,
            );
            let claim = sql(format!(
                "{insert_ignore} receipts (request, item, fingerprint, link_id, link_key, rev, created_at) \
                 VALUES (?, ?, ?, 0, '', 0, {now})"
            ));
            let claim = claim.bind(request).bind(WHOLE_REQUEST).bind(fingerprint);
            session.autocommit(claim).await?;
            let query = sql("SELECT fingerprint FROM receipts WHERE request = ? AND item = ?");
            let query = query.bind(request).bind(WHOLE_REQUEST);
            let stored: Option<(Vec<u8>,)> = session.fetch_optional(query).await?;
            Ok(stored.is_some_and(|(stored,)| stored == fingerprint))
        })
    }

    /// Leaves the receipts of links that were there already. `false` if one of the receipts is there: then none is left.
    pub async fn leave_receipts(&self, found: &[(&Receipt, &Link)]) -> Result<bool, StoreError> {
        let now = self.now().await?;
        let receipts = found
            .iter()
            .map(|(receipt, link)| NewReceipt::new(receipt, link, link.rev, now, true));
        let receipts: Vec<NewReceipt<'_>> = receipts.collect();
        let call = self.write("leave_receipts", "leaving receipts");
        run!(call, |session| {
            session.begin().await?;
            let is_first = insert_receipts(session, &receipts).await?;
            if is_first {
                session.commit(receipts.len()).await?;
            } else {
                session.rollback().await?;
            }
            Ok(is_first)
        })
    }

    /// The receipts of these items of a request.
    pub async fn receipts(
        &self,
        request: &[u8; 32],
        items: Range<u32>,
    ) -> Result<Vec<StoredReceipt>, StoreError> {
        run!(self.read("receipts", "finding receipts"), |session| {
            let query = sql(
                "SELECT item, fingerprint, link_id, link_key, rev, created_at, found, link_created_at, link_updated_at \
                 FROM receipts WHERE request = ? AND item >= ? AND item < ?",
            );
            let query = query.bind(request).bind(items.start).bind(items.end);
            let rows: Vec<ReceiptRow> = session.fetch_all(query).await?;
            rows.into_iter().map(ReceiptRow::into_receipt).collect()
        })
    }

    /// Removes receipts that are older than `kept_millis` by the database's clock, `limit` at most; how many they were.
    pub async fn purge_receipts(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self.write("purge_receipts", "purging receipts");
        run!(call, |session| {
            let dialect = session.dialect();
            let old = format!("created_at < CAST({} AS SIGNED) - ?", dialect.now_millis);
            let purge = sql(dialect.delete_some("receipts", "request, item", &old));
            let purge = purge.bind(kept_millis.cast_signed()).bind(limit);
            session.autocommit(purge).await
        })
    }
}

/// What tells a request that comes again from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The hash of who asks, and of the key that they gave their request.
    pub request: [u8; 32],
    /// Which link of the request it is about.
    pub item: u32,
    /// The hash of what was asked for.
    pub fingerprint: [u8; 32],
}

/// A receipt with what came of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReceipt {
    /// Which link of the request it is about.
    pub item: u32,
    /// The hash of what was asked for.
    pub fingerprint: [u8; 32],
    /// The number of the link.
    pub id: u64,
    /// Domain and code of the link.
    pub key: LinkKey,
    /// Its revision at that time.
    pub rev: u64,
    /// When it was created, unix milliseconds.
    pub created_at: u64,
    /// When it was changed last by then, unix milliseconds.
    pub updated_at: u64,
    /// Whether it was there already.
    pub found: bool,
}

/// A receipt on its way into the database.
pub(super) struct NewReceipt<'a> {
    receipt: &'a Receipt,
    link: &'a Link,
    key: String,
    rev: u64,
    created_at: u64,
    found: bool,
}

impl<'a> NewReceipt<'a> {
    /// The receipt of a link with the revision `rev`, at `created_at`; whether the link was found or is created.
    pub(super) fn new(
        receipt: &'a Receipt,
        link: &'a Link,
        rev: u64,
        created_at: u64,
        found: bool,
    ) -> Self {
        Self {
            receipt,
            link,
            key: link.key().to_string(),
            rev,
            created_at,
            found,
        }
    }
}

/// Inserts receipts in a transaction; `false` if one of them is there, in a transaction that is to be undone.
pub(super) async fn insert_receipts(
    session: &mut Session,
    receipts: &[NewReceipt<'_>],
) -> Result<bool, Fault> {
    for receipts in receipts.chunks(LONGEST).flat_map(pieces) {
        let rows = receipts.iter().map(|new| {
            [
                (&new.receipt.request).into(),
                new.receipt.item.into(),
                (&new.receipt.fingerprint).into(),
                new.link.id.into(),
                new.key.as_str().into(),
                new.rev.into(),
                new.created_at.into(),
                new.found.into(),
                new.link.created_at.into(),
                new.link.updated_at.into(),
            ]
        });
        let insert = sql(
            "INSERT INTO receipts (request, item, fingerprint, link_id, link_key, rev, created_at, found, \
             link_created_at, link_updated_at) ",
        );
        match session.execute(insert.rows(rows)).await {
            Ok(_) => {}
            Err(fault) if fault.is_duplicate() => return Ok(false),
            Err(fault) => return Err(fault),
        }
    }
    Ok(true)
}

#[derive(Debug, sqlx_macros::FromRow)]
struct ReceiptRow {
    item: u32,
    fingerprint: Vec<u8>,
    link_id: u64,
    link_key: Vec<u8>,
    rev: u64,
    created_at: u64,
    found: bool,
    link_created_at: Option<u64>,
    link_updated_at: Option<u64>,
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
            id: self.link_id,
            key: key.ok_or_else(|| Fault::Corrupt("key of a receipt".to_owned()))?,
            rev: self.rev,
            created_at: self.link_created_at.unwrap_or(self.created_at),
            updated_at: self.link_updated_at.unwrap_or(self.created_at),
            found: self.found,
        })
    }
}
