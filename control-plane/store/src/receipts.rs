//! Receipts: the answers to requests with an Idempotency-Key, so that a repeated request creates no link.

use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Value, insert_literally, lookups, pieces, sql};
use edgelink_model::links::model::Link;
use edgelink_wire::LinkKey;
use std::collections::HashMap;

/// Item number of the receipt of a whole request. No request has that many items.
const WHOLE_REQUEST: u32 = u32::MAX;

impl Store {
    /// Stores the fingerprint of a whole request unless one is stored already. Returns true if the stored one equals it.
    pub async fn claim_request(
        &self,
        request: &[u8; 32],
        fingerprint: &[u8; 32],
    ) -> Result<bool, StoreError> {
        let call = self.write("claim_request", "claiming a request");
        let call = call.of(Class::Creations);
        run!(call.locking([RowLine::Request(*request)]), |session| {
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

    /// Reads the stored receipt, if any, for each of these, in their order.
    pub async fn receipts(
        &self,
        receipts: &[&Receipt],
    ) -> Result<Vec<Option<StoredReceipt>>, StoreError> {
        let call = self
            .read("receipts", "finding receipts")
            .of(Class::Creations);
        run!(call, |session| find_receipts(session, receipts).await)
    }

    /// Removes up to `limit` receipts older than `kept_millis` by the database's clock. Returns their number.
    pub async fn purge_receipts(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("purge_receipts", "purging receipts")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let old = format!("created_at < CAST({now} AS SIGNED) - ?");
            let old = sql(old).bind(kept_millis.cast_signed());
            session.purge("receipts", "request, item", old, limit).await
        })
    }
}

/// Identification of a repeated request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The hash of the client and its idempotency key.
    pub request: [u8; 32],
    /// Index of the link in the request.
    pub item: u32,
    /// Hash of the content of the request.
    pub fingerprint: [u8; 32],
}

impl Receipt {
    /// Its unique key.
    pub(super) fn key(&self) -> ([u8; 32], u32) {
        (self.request, self.item)
    }
}

/// A receipt with the outcome of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReceipt {
    /// The receipt of the request.
    pub receipt: Receipt,
    /// The number of the link.
    pub id: u64,
    /// Domain and code of the link.
    pub key: LinkKey,
    /// Its revision at that time.
    pub rev: u64,
    /// Creation time of the link, in unix milliseconds.
    pub created_at: u64,
    /// Its last change by then, in unix milliseconds.
    pub updated_at: u64,
    /// True if it was found rather than created.
    pub found: bool,
}

impl StoredReceipt {
    /// The receipt of a created or found link.
    pub(super) fn new(receipt: &Receipt, link: &Link, found: bool) -> Self {
        Self {
            receipt: receipt.clone(),
            id: link.id,
            key: link.key(),
            rev: link.rev,
            created_at: link.created_at,
            updated_at: link.updated_at,
            found,
        }
    }
}

/// Receipts to be stored, with their link keys as text.
pub(super) struct NewReceipts {
    receipts: Vec<(StoredReceipt, String)>,
    now: u64,
}

const INSERT: &str = "INSERT INTO receipts (request, item, fingerprint, link_id, link_key, rev, created_at, found, \
     link_created_at, link_updated_at) ";

impl NewReceipts {
    /// Receipts to be stored at `now`, in unix milliseconds, sorted by their index, so that transactions with the
    /// same ones do not deadlock.
    pub(super) fn new(receipts: impl Iterator<Item = StoredReceipt>, now: u64) -> Self {
        let mut receipts: Vec<_> = receipts
            .map(|stored| {
                let key = stored.key.to_string();
                (stored, key)
            })
            .collect();
        receipts.sort_unstable_by_key(|(stored, _)| stored.receipt.key());
        Self { receipts, now }
    }

    /// Appends the statement that adds all of them to a text, if there are any.
    pub(super) fn insert_literally(&self, text: &mut String) {
        if !self.receipts.is_empty() {
            let rows = self.receipts.iter().map(|new| values(new, self.now));
            insert_literally(text, INSERT, rows);
            text.push_str("; ");
        }
    }

    /// Adds them as part of a transaction. Fails as a duplicate if one of them exists.
    pub(super) async fn write(&self, session: &mut Session) -> Result<(), Fault> {
        for receipts in pieces(&self.receipts) {
            let rows = receipts.iter().map(|new| values(new, self.now));
            session.execute(sql(INSERT).rows(rows)).await?;
        }
        Ok(())
    }
}

fn values<'v>((stored, key): &'v (StoredReceipt, String), now: u64) -> [Value<'v>; 10] {
    [
        (&stored.receipt.request).into(),
        stored.receipt.item.into(),
        (&stored.receipt.fingerprint).into(),
        stored.id.into(),
        key.as_str().into(),
        stored.rev.into(),
        now.into(),
        stored.found.into(),
        stored.created_at.into(),
        stored.updated_at.into(),
    ]
}

/// Finds the stored receipt, if any, for each of these, in their order.
pub(super) async fn find_receipts(
    session: &mut Session,
    receipts: &[&Receipt],
) -> Result<Vec<Option<StoredReceipt>>, Fault> {
    let mut sorted = receipts.to_vec();
    sorted.sort_unstable_by_key(|receipt| receipt.key());
    let requests: Vec<&[&Receipt]> = sorted.chunk_by(|a, b| a.request == b.request).collect();
    let mut found = HashMap::new();
    for requests in lookups(&requests) {
        let query = sql("").join(" UNION ALL ", requests, |sql, items| {
            let (first, last) = (items[0], items[items.len() - 1]);
            sql.push(SELECT)
                .bind(&first.request)
                .bind(first.item)
                .bind(last.item)
        });
        for row in session.fetch_all::<ReceiptRow>(query).await? {
            let stored = row.into_receipt()?;
            found.insert(stored.receipt.key(), stored);
        }
    }
    let stored = |receipt: &&Receipt| found.get(&receipt.key()).cloned();
    Ok(receipts.iter().map(stored).collect())
}

/// The receipts of a request, from one item to another.
const SELECT: &str = "SELECT request, item, fingerprint, link_id, link_key, rev, created_at, found, link_created_at, \
     link_updated_at FROM receipts WHERE request = ? AND item >= ? AND item <= ?";

#[derive(Debug, sqlx_macros::FromRow)]
struct ReceiptRow {
    request: Vec<u8>,
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
        let key = std::str::from_utf8(&self.link_key).ok();
        let key = key.and_then(|key| key.parse().ok());
        Ok(StoredReceipt {
            receipt: Receipt {
                request: hash(&self.request)?,
                item: self.item,
                fingerprint: hash(&self.fingerprint)?,
            },
            id: self.link_id,
            key: key.ok_or_else(|| Fault::Corrupt("key of a receipt".to_owned()))?,
            rev: self.rev,
            created_at: self.link_created_at.unwrap_or(self.created_at),
            updated_at: self.link_updated_at.unwrap_or(self.created_at),
            found: self.found,
        })
    }
}

fn hash(bytes: &[u8]) -> Result<[u8; 32], Fault> {
    let hash = bytes.try_into();
    hash.map_err(|_| Fault::Corrupt("hash of a receipt".to_owned()))
}
