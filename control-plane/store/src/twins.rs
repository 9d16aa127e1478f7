//! Finds twins: links with the same domain and content.

use super::rows::{content_hash, links_by_id, url_hash};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::numbers;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, lookups, pieces, sql};
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_model::tenancy::Scope;
use edgelink_wire::{Code, Domain};
use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

/// The most links to one target compared among links whose content has no hash yet.
const MAX_UNHASHED: u32 = 100;

/// Rows older than version 36 of the schema, whose content has no hash yet.
const UNHASHED: &str = "WHERE content_hash IS NULL AND deleted_at IS NULL";

impl Store {
    /// The oldest link like each of `wanted`, in their order. Of links older than version 36 of the schema, until
    /// [`Store::hash_contents`] has reached them, only the first 100 to each target are compared.
    pub async fn find_like(&self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Link>>, StoreError> {
        let candidates: Vec<_> = wanted.iter().map(TwinCandidate::new).collect();
        let call = self.read("find_like", "finding twins of links");
        let call = call.of(Class::Creations);
        run!(call, |session| find_like(session, &candidates).await)
    }

    /// Hashes up to `limit` links older than version 36 of the schema. Returns their number.
    pub async fn hash_contents(&self, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("hash_contents", "hashing older links")
            .of(Class::Background);
        run!(call, |session| {
            session.begin().await?;
            let index = session.dialect().force_index("links_content");
            let for_update = session.dialect().for_update;
            let query = sql(format!(
                "SELECT id FROM links{index} {UNHASHED} LIMIT ?{for_update}"
            ));
            let ids = numbers(session, query.bind(limit)).await?;
            for ids in pieces(&ids) {
                let links = links_by_id(session, ids).await?;
                set_hashes(session, &links).await?;
            }
            session.commit(ids.len()).await?;
            Ok(ids.len() as u64)
        })
    }
}

/// Rule for creating a link beside another one with the same domain and content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Twin {
    /// It may be created.
    Allowed,
    /// Not beside one with the same code.
    NotWithThisCode,
    /// Not beside one with any code.
    NotWithAnyCode,
    /// This twin was found before. No link is created; the receipt is stored.
    Known(Box<Link>),
}

impl Twin {
    /// True if other creations for the same target wait until the transaction ends.
    pub fn takes_locks(&self) -> bool {
        matches!(self, Self::NotWithThisCode | Self::NotWithAnyCode)
    }
}

/// Description of a wanted link.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The searcher's scope: links outside it do not count.
    pub scope: &'a Scope,
    /// Its domain.
    pub domain: &'a Domain,
    /// Its code; `None` for any.
    pub code: Option<&'a Code>,
    /// Its content.
    pub content: &'a LinkContent,
}

impl Wanted<'_> {
    fn is_met_by(&self, link: &Link) -> bool {
        let is_code = self.code.is_none_or(|code| *code == link.code);
        let is_like = link.domain == *self.domain && link.content == *self.content;
        is_code && is_like && link.is_in(self.scope)
    }
}

/// A wanted link with the hashes by which it is found.
pub(super) struct TwinCandidate<'a> {
    wanted: Wanted<'a>,
    hash: ContentHash,
}

/// The hashes by which a twin is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ContentHash {
    /// Of domain and content.
    content: i64,
    /// Of the target.
    target: i64,
    /// The only owner whose links count.
    owner_id: Option<u64>,
}

impl<'a> TwinCandidate<'a> {
    pub(super) fn new(wanted: &Wanted<'a>) -> Self {
        Self {
            wanted: *wanted,
            hash: ContentHash {
                content: content_hash(wanted.scope.tenant_id, wanted.domain, wanted.content),
                target: url_hash(&wanted.content.target),
                owner_id: wanted.scope.owner_id,
            },
        }
    }
}

/// The oldest link like each candidate.
pub(super) async fn find_like(
    session: &mut Session,
    candidates: &[TwinCandidate<'_>],
) -> Result<Vec<Option<Link>>, Fault> {
    let mut ids = BTreeSet::new();
    let (coded, any): (Vec<&TwinCandidate<'_>>, Vec<_>) = candidates
        .iter()
        .partition(|candidate| candidate.wanted.code.is_some());
    for coded in lookups(&coded) {
        ids.extend(ids_by_code(session, coded).await?);
    }
    let hashes = distinct(any.iter().map(|candidate| candidate.hash));
    for hashes in lookups(&hashes) {
        ids.extend(ids_by_content(session, hashes).await?);
    }
    if !hashes.is_empty() && has_unhashed(session).await? {
        let targets = distinct(hashes.iter().map(|hash| hash.target));
        for targets in lookups(&targets) {
            ids.extend(unhashed_ids(session, targets).await?);
        }
    }
    let ids: Vec<u64> = ids.into_iter().collect();
    let mut found = links_by_id(session, &ids).await?;
    found.sort_unstable_by_key(|link| link.id);
    let like = |candidate: &TwinCandidate<'_>| {
        let mut found = found.iter();
        found.find(|link| candidate.wanted.is_met_by(link)).cloned()
    };
    Ok(candidates.iter().map(like).collect())
}

/// Keeps other transactions from creating links like the candidates until this one ends.
pub(super) async fn lock_targets(
    session: &mut Session,
    candidates: &[TwinCandidate<'_>],
) -> Result<(), Fault> {
    /// Number of rows that serve as locks of targets, shared by hash.
    const TARGET_BUCKETS: u64 = 64;
    if candidates.is_empty() || !session.dialect().has_row_locks() {
        return Ok(());
    }
    let bucket =
        |candidate: &TwinCandidate<'_>| candidate.hash.target.cast_unsigned() % TARGET_BUCKETS;
    let buckets: BTreeSet<u64> = candidates.iter().map(bucket).collect();
    let buckets: Vec<u64> = buckets.into_iter().collect();
    // In the order of their index, like in every transaction.
    let lock = sql("SELECT bucket FROM target_locks WHERE bucket IN ")
        .list(&buckets)
        .push(" ORDER BY bucket FOR UPDATE");
    numbers(session, lock).await.map(drop)
}

fn distinct<T: Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let items: HashSet<T> = items.collect();
    items.into_iter().collect()
}

/// The numbers of the links with these domains and codes, without tombstones.
async fn ids_by_code(
    session: &mut Session,
    candidates: &[&TwinCandidate<'_>],
) -> Result<Vec<u64>, Fault> {
    let query = sql("").join(" UNION ALL ", candidates, |sql, candidate| {
        sql.push(
            "SELECT id FROM links WHERE domain_id = (SELECT id FROM domains WHERE name = ?) AND code = ? \
             AND deleted_at IS NULL",
        )
        .bind(candidate.wanted.domain)
        .bind(candidate.wanted.code)
    });
    numbers(session, query).await
}

/// The number of the first link with each of these hashes, without tombstones.
async fn ids_by_content(session: &mut Session, hashes: &[ContentHash]) -> Result<Vec<u64>, Fault> {
    let open = session.dialect().part;
    let index = session.dialect().force_index("links_content");
    let part = format!(
        "{open}SELECT id FROM links{index} WHERE content_hash = ? AND deleted_at IS NULL AND url_hash = ? \
         AND (? IS NULL OR owner_id = ?) ORDER BY id LIMIT 1)"
    );
    let query = sql("").join(" UNION ALL ", hashes, |sql: Sql<'_>, hash| {
        sql.push(&part)
            .bind(hash.content)
            .bind(hash.target)
            .bind(hash.owner_id)
            .bind(hash.owner_id)
    });
    numbers(session, query).await
}

/// True if there are links whose content has no hash yet.
async fn has_unhashed(session: &mut Session) -> Result<bool, Fault> {
    let index = session.dialect().force_index("links_content");
    let query = sql(format!(
        "SELECT EXISTS (SELECT 1 FROM links{index} {UNHASHED})"
    ));
    let (has_any,) = session.fetch_one(query).await?;
    Ok(has_any)
}

/// The numbers of links whose content has no hash yet, the first ones for each hash of a target.
async fn unhashed_ids(session: &mut Session, targets: &[i64]) -> Result<Vec<u64>, Fault> {
    let open = session.dialect().part;
    let index = session.dialect().force_index("links_content");
    let part = format!(
        "{open}SELECT id FROM links{index} {UNHASHED} AND url_hash = ? ORDER BY id LIMIT {MAX_UNHASHED})"
    );
    let query = sql("").join(" UNION ALL ", targets, |sql: Sql<'_>, target| {
        sql.push(&part).bind(*target)
    });
    numbers(session, query).await
}

/// Sets the hashes of the contents of links.
async fn set_hashes(session: &mut Session, links: &[Link]) -> Result<(), Fault> {
    if links.is_empty() {
        return Ok(());
    }
    let ids: Vec<u64> = links.iter().map(|link| link.id).collect();
    let update = sql("UPDATE links SET content_hash = CASE id")
        .join("", links, |sql, link| {
            sql.push(" WHEN ? THEN ?").bind(link.id).bind(content_hash(
                link.tenant_id,
                &link.domain,
                &link.content,
            ))
        })
        .push(" END WHERE id IN ")
        .list(&ids);
    session.execute(update).await.map(drop)
}
