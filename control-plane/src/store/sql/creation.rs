//! Finding links like others, and creating links once.

use super::create::{self, ChunkLimits, Outcome};
use super::fault::{Fault, Remedy};
use super::revisions::LastRevisions;
use super::rows::{NewRow, Unsigned, content_hash, url_hash};
use super::session::Session;
use super::sizes::pieces;
use super::statements::Statements;
use super::store::{SqlStore, answer, links};
use crate::model::Link;
use crate::store::{
    CreateError, CreationStore, NewLink, OnceLink, Receipt, StoreError, StoredReceipt, Twin, Wanted,
};
use async_trait::async_trait;
use edgelink_wire::Code;
use sqlx::Database;
use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::ops::Range;

/// A receipt on its way into the database.
#[derive(Debug)]
pub(in crate::store) struct NewReceipt<'a> {
    pub(in crate::store) receipt: &'a Receipt,
    pub(in crate::store) link: &'a Link,
    pub(in crate::store) rev: u64,
    pub(in crate::store) created_at: u64,
    pub(in crate::store) found: bool,
}

/// The item of the receipt that stands for a request as a whole. No request has as many.
pub(in crate::store) const WHOLE_REQUEST: u32 = u32::MAX;

/// By what a link like another one is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::store) struct ContentHash {
    /// That of domain and content.
    pub(in crate::store) content: i64,
    /// That of the target.
    pub(in crate::store) target: i64,
}

/// How many lookups one statement combines. SQLite allows 500.
const LOOKUPS: usize = 64;

/// How many links to one target are looked at, at most, of those whose content has no hash yet.
const MAX_UNHASHED: u32 = 100;

/// A receipt as a query answers it.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct ReceiptRow {
    item: u32,
    fingerprint: Vec<u8>,
    link_id: Unsigned,
    link_key: Vec<u8>,
    rev: Unsigned,
    created_at: Unsigned,
    found: bool,
    link_created_at: Option<Unsigned>,
    link_updated_at: Option<Unsigned>,
}

/// The statements that a database has to bring.
pub(in crate::store) trait CreationStatements: Send {
    /// The number of the first link with each of these hashes, without tombstones.
    fn ids_by_content(
        &mut self,
        hashes: &[ContentHash],
    ) -> impl Future<Output = Result<Vec<u64>, Fault>> + Send;

    /// The number of the link with each of these codes on these domains, without tombstones.
    fn ids_by_code(
        &mut self,
        keys: &[(u32, &Code)],
    ) -> impl Future<Output = Result<Vec<u64>, Fault>> + Send;

    /// Whether there are links whose content has no hash yet.
    fn has_unhashed(&mut self) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// The numbers of links whose content has no hash yet, by the hashes of their targets: the first `limit` of each.
    fn unhashed_ids(
        &mut self,
        targets: &[i64],
        limit: u32,
    ) -> impl Future<Output = Result<Vec<u64>, Fault>> + Send;

    /// Locks links whose content has no hash yet, and answers their numbers.
    fn lock_unhashed(&mut self, limit: u32)
    -> impl Future<Output = Result<Vec<u64>, Fault>> + Send;

    /// Sets the hashes of links by their numbers. Part of a transaction.
    fn set_hashes(
        &mut self,
        hashes: &[(u64, i64)],
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Leaves the receipt of a request as a whole unless it is there; whether it has this fingerprint. Lasts.
    fn claim_request(
        &mut self,
        request: &[u8; 32],
        fingerprint: &[u8; 32],
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

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
    async fn find_like(&self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Link>>, StoreError> {
        let mut candidates = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let domain_id = self.domain_key(wanted.domain).await?;
            candidates.push(Candidate::new(wanted, domain_id));
        }
        let candidates = candidates.as_slice();
        self.connections()
            .read("finding links like others", |mut session| async move {
                (find_like(&mut session, candidates).await, session)
            })
            .await
    }

    async fn hash_contents(&self, limit: u32) -> Result<u64, StoreError> {
        self.connections()
            .write("hashing links from before", |mut session| async move {
                (hash_contents(&mut session, limit).await, session)
            })
            .await
    }

    async fn claim_request(
        &self,
        request: &[u8; 32],
        fingerprint: &[u8; 32],
    ) -> Result<bool, StoreError> {
        self.connections()
            .write("noting a request", |mut session| async move {
                let claimed = session.claim_request(request, fingerprint).await;
                (claimed, session)
            })
            .await
    }

    async fn leave_receipts(&self, found: &[(&Receipt, &Link)]) -> Result<bool, StoreError> {
        let now = self.now().await?;
        let mut receipts = Vec::with_capacity(found.len());
        for (receipt, link) in found {
            receipts.push(NewReceipt {
                receipt,
                link,
                rev: link.rev,
                created_at: now,
                found: true,
            });
        }
        let (receipts, limits) = (receipts.as_slice(), self.limits());
        self.connections()
            .write("leaving receipts", |mut session| async move {
                (leave_found(&mut session, receipts, limits).await, session)
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
    let outcomes = if new.iter().all(|new| new.twin == Twin::Allowed) {
        create::begin_and_create(session, rows, limits, last, now).await?
    } else {
        session.begin().await?;
        if meet_twins(session, rows, new).await? {
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

/// Whether one of these links has a twin that is not allowed. Others create none until the transaction ends.
async fn meet_twins<S: Statements>(
    session: &mut S,
    rows: &[NewRow],
    new: &[OnceLink],
) -> Result<bool, Fault> {
    let mut candidates = Vec::new();
    for (row, new) in rows.iter().zip(new) {
        if let Some(wanted) = new.unwanted() {
            candidates.push(Candidate::new(&wanted, row.domain_id));
        }
    }
    let targets = distinct(candidates.iter().map(|candidate| candidate.hash.target));
    session.lock_targets(&targets).await?;
    let twins = find_like(session, &candidates).await?;
    Ok(twins.iter().any(Option::is_some))
}

/// What a link is to be like, and how it is found.
struct Candidate<'a> {
    domain_id: u32,
    wanted: Wanted<'a>,
    hash: ContentHash,
}

impl<'a> Candidate<'a> {
    fn new(wanted: &Wanted<'a>, domain_id: u32) -> Self {
        Self {
            domain_id,
            wanted: *wanted,
            hash: ContentHash {
                content: content_hash(wanted.domain, wanted.content),
                target: url_hash(&wanted.content.target),
            },
        }
    }
}

/// The oldest link like each candidate.
async fn find_like<S: Statements>(
    session: &mut S,
    candidates: &[Candidate<'_>],
) -> Result<Vec<Option<Link>>, Fault> {
    let mut ids = BTreeSet::new();
    let (coded, any): (Vec<&Candidate<'_>>, Vec<_>) = candidates
        .iter()
        .partition(|candidate| candidate.wanted.code.is_some());
    let key =
        |candidate: &Candidate<'_>| Some((candidate.domain_id, candidate.wanted.code?.clone()));
    let keys: Vec<(u32, Code)> = coded.into_iter().filter_map(key).collect();
    for keys in lookups(&keys) {
        let keys: Vec<(u32, &Code)> = keys.iter().map(|(id, code)| (*id, code)).collect();
        ids.extend(session.ids_by_code(&keys).await?);
    }
    let hashes = distinct(any.iter().map(|candidate| candidate.hash));
    for hashes in lookups(&hashes) {
        ids.extend(session.ids_by_content(hashes).await?);
    }
    if !hashes.is_empty() && session.has_unhashed().await? {
        let targets = distinct(hashes.iter().map(|hash| hash.target));
        for targets in lookups(&targets) {
            ids.extend(session.unhashed_ids(targets, MAX_UNHASHED).await?);
        }
    }
    let ids: Vec<u64> = ids.into_iter().collect();
    let mut found = Vec::with_capacity(ids.len());
    for ids in pieces(&ids) {
        found.extend(links(session.links_by_id(ids).await?)?);
    }
    found.sort_unstable_by_key(|link| link.id);
    let like = |candidate: &Candidate<'_>| {
        let mut found = found.iter();
        found.find(|link| candidate.wanted.is_met_by(link)).cloned()
    };
    Ok(candidates.iter().map(like).collect())
}

fn lookups<T>(items: &[T]) -> impl Iterator<Item = &[T]> {
    items.chunks(LOOKUPS).flat_map(pieces)
}

fn distinct<T: Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let items: HashSet<T> = items.collect();
    items.into_iter().collect()
}

/// Hashes the content of links from before there were hashes.
async fn hash_contents<S: Statements>(session: &mut S, limit: u32) -> Result<u64, Fault> {
    session.begin().await?;
    let ids = session.lock_unhashed(limit).await?;
    for ids in pieces(&ids) {
        let links = links(session.links_by_id(ids).await?)?;
        let hash = |link: &Link| (link.id, content_hash(&link.domain, &link.content));
        let hashes: Vec<(u64, i64)> = links.iter().map(hash).collect();
        session.set_hashes(&hashes).await?;
    }
    session.commit(ids.len()).await?;
    Ok(ids.len() as u64)
}

/// Leaves receipts of links that were there; `false` if one of the receipts is there already.
async fn leave_found<S: Statements>(
    session: &mut S,
    receipts: &[NewReceipt<'_>],
    limits: ChunkLimits,
) -> Result<bool, Fault> {
    session.begin().await?;
    match insert_receipts(session, receipts, limits).await {
        Ok(()) => session.commit(receipts.len()).await.map(|()| true),
        Err(fault) if S::remedy(&fault) == Remedy::Duplicate => {
            session.rollback().await?;
            Ok(false)
        }
        Err(fault) => Err(fault),
    }
}

async fn insert_receipts<S: Statements>(
    session: &mut S,
    receipts: &[NewReceipt<'_>],
    limits: ChunkLimits,
) -> Result<(), Fault> {
    for chunk in receipts.chunks(limits.rows).flat_map(pieces) {
        session.insert_receipts(chunk).await?;
    }
    Ok(())
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
                created_at: row.link.created_at,
                found: false,
            })
        })
        .collect();
    insert_receipts(session, &receipts, limits).await
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
            created_at: self.link_created_at.unwrap_or(self.created_at).0,
            updated_at: self.link_updated_at.unwrap_or(self.created_at).0,
            found: self.found,
        })
    }
}
