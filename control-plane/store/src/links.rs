//! Looks up links.

use super::domains::DomainNames;
use super::rows::{LINK_COLUMNS, LinkRow, check_known};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::numbers;
use edgelink_database::dialect::Dialect;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::revisions::RevisionBasis;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, lookups, sql};
use edgelink_model::links::model::Link;
use edgelink_wire::{Code, Domain, LinkKey, Record};
use sqlx::mysql::MySqlRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};
use std::collections::{BTreeMap, HashMap};

impl Store {
    /// The owners of links, by number; missing links are left out.
    pub async fn link_owners(&self, ids: &[u64]) -> Result<HashMap<u64, Option<u64>>, StoreError> {
        let call = self
            .read("link_owners", "finding the owners of links")
            .of(Class::Background);
        run!(call, |session| {
            let mut owners = HashMap::with_capacity(ids.len());
            for ids in ids.chunks(LONGEST) {
                let query = sql("SELECT id, owner_id FROM links WHERE id IN ").list(ids);
                let rows: Vec<(u64, Option<u64>)> = session.fetch_all(query).await?;
                owners.extend(rows);
            }
            Ok(owners)
        })
    }

    /// The link with this key, if there is one.
    pub async fn find_link(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        run!(
            self.read("find_link", "finding a link").of(Class::Lookups),
            |session| Ok(find(session, &key.domain, &[&key.code]).await?.pop())
        )
    }

    /// The links with these keys, in no order; missing ones are left out.
    pub async fn find_links(&self, keys: &[LinkKey]) -> Result<Vec<Link>, StoreError> {
        let mut by_domain: BTreeMap<&Domain, Vec<&Code>> = BTreeMap::new();
        for key in keys {
            by_domain.entry(&key.domain).or_default().push(&key.code);
        }
        run!(self.read("find_links", "finding links"), |session| {
            let mut links = Vec::with_capacity(keys.len());
            for (domain, codes) in &by_domain {
                for codes in codes.chunks(LONGEST) {
                    links.extend(find(session, domain, codes).await?);
                }
            }
            Ok(links)
        })
    }

    /// The record of a key: the link, or `Absent` with the revision of its deletion.
    pub async fn resolve(&self, key: &LinkKey) -> Result<Record<String>, StoreError> {
        run!(
            self.read("resolve", "resolving a link").of(Class::Lookups),
            |session| record(look_up(session, key).await?)
        )
    }

    /// The records of the links with these keys, read together, in no order; missing ones are left out.
    pub async fn resolve_links(
        &self,
        keys: &[LinkKey],
    ) -> Result<Vec<(LinkKey, Record<String>)>, StoreError> {
        let call = self.read("resolve_links", "resolving links");
        run!(call.of(Class::Lookups), |session| {
            let mut ids = Vec::with_capacity(keys.len());
            for keys in lookups(keys) {
                // Each part finds one row by unique keys: no other plan can be chosen.
                let of_key = "SELECT l.id FROM domains d JOIN links l ON l.domain_id = d.id AND l.code = ? WHERE d.name = ?";
                let query = sql("").join(" UNION ALL ", keys, |sql, key| {
                    sql.push(of_key).bind(&key.code).bind(&key.domain)
                });
                ids.extend(numbers(session, query).await?);
            }
            let mut records = Vec::with_capacity(ids.len());
            for ids in ids.chunks(LONGEST) {
                for FoundRow { revisions, link } in found_rows(session, ids).await? {
                    if let Some(row) = link.filter(|row| !row.is_tombstone()) {
                        let link = published(&revisions, row)?;
                        records.push((link.key(), link.record().to_owned_record()));
                    }
                }
            }
            Ok(records)
        })
    }

    /// A page of the keys of all links after `after`, deleted ones included, ordered by number. It joins nothing: the
    /// names of domains come from `names`, which is filled with the first page, and again when a page has a domain missing in
    /// it.
    pub async fn scan_keys(
        &self,
        names: &mut DomainNames,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedKey>, StoreError> {
        let call = self.read("scan_keys", "scanning the keys");
        run!(call.of(Class::Background), |session| {
            let index = session.dialect().force_index("PRIMARY");
            let query = sql(format!(
                "SELECT id, domain_id, code FROM links{index} WHERE id >= ? ORDER BY id LIMIT ?"
            ));
            let from = after.map_or(0, |after| after.saturating_add(1));
            let rows: Vec<(u64, u32, Vec<u8>)> =
                session.fetch_all(query.bind(from).bind(limit)).await?;
            if !names.have_all(rows.iter().map(|(_, domain, _)| *domain)) {
                names.read(session).await?;
            }
            let scanned = rows.iter().map(|(id, domain, code)| {
                let key = names.key(*domain, code)?;
                Ok(ScannedKey { id: *id, key })
            });
            scanned.collect()
        })
    }

    /// Number of links, deleted ones included: in MySQL by its statistics, which may be far off.
    pub async fn estimated_links(&self) -> Result<u64, StoreError> {
        let call = self.read("estimated_links", "estimating the number of links");
        run!(call.of(Class::Background), |session| {
            let query = sql(session.dialect().estimated_links);
            let (links,): (i64,) = session.fetch_one(query).await?;
            Ok(links.max(0).cast_unsigned())
        })
    }
}

/// The links on a domain with these codes.
async fn find(session: &mut Session, domain: &Domain, codes: &[&Code]) -> Result<Vec<Link>, Fault> {
    let query = sql(format!(
        "SELECT {LINK_COLUMNS} FROM links l JOIN domains d ON d.id = l.domain_id \
         WHERE d.name = ? AND l.code IN "
    ));
    let rows: Vec<LinkRow> = session.fetch_all(query.bind(domain).list(codes)).await?;
    let live = rows.into_iter().filter(|row| !row.is_tombstone());
    LinkRow::into_links(live.collect())
}

/// A key with the number of its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedKey {
    /// The number of the link.
    pub id: u64,
    /// `{domain}/{code}`.
    pub key: String,
}

/// The row of a key, and the basis of the next revisions.
#[derive(Debug)]
pub(super) struct FoundRow {
    pub(super) revisions: RevisionBasis,
    /// The link or its tombstone.
    pub(super) link: Option<LinkRow>,
}

macro_rules! found_row_from {
    ($($row:ty),+) => {$(
        impl<'r> FromRow<'r, $row> for FoundRow {
            fn from_row(row: &'r $row) -> Result<Self, sqlx::Error> {
                let id: Option<u64> = row.try_get("id")?;
                let link = id.map(|_| LinkRow::from_row(row)).transpose()?;
                let revisions = RevisionBasis::from_row(row)?;
                Ok(Self { revisions, link })
            }
        }
    )+};
}
found_row_from!(MySqlRow, SqliteRow);

/// The rows with these numbers, including tombstones, and the basis of the next revisions, read at one moment.
pub(super) async fn found_rows(session: &mut Session, ids: &[u64]) -> Result<Vec<FoundRow>, Fault> {
    let now = session.dialect().now_micros;
    let query = sql(format!(
        "SELECT p.rev_floor, {now} AS now_micros, {LINK_COLUMNS} FROM publisher p, links l \
         JOIN domains d ON d.id = l.domain_id WHERE p.id = 1 AND l.id IN "
    ));
    session.fetch_all(query.list(ids)).await
}

/// The query for the rows with these codes on a domain, including tombstones, and the basis of the next revisions.
pub(super) fn select_by_code<'v>(dialect: &Dialect, domain: &'v str, codes: &[&'v str]) -> Sql<'v> {
    let (now, join) = (dialect.now_micros, dialect.join_in_order);
    let index = dialect.force_index("links_domain_code");
    let query = sql(format!(
        "SELECT p.rev_floor, {now} AS now_micros, {LINK_COLUMNS} FROM publisher p {join} links l{index} \
         {join} domains d ON d.id = l.domain_id WHERE p.id = 1 \
         AND l.domain_id = (SELECT id FROM domains WHERE name = ?) AND l.code IN "
    ));
    query.bind(domain).list(codes)
}

/// The link with this key, or its tombstone, and the basis of the next revisions, read at one moment.
async fn look_up(session: &mut Session, key: &LinkKey) -> Result<FoundRow, Fault> {
    let now = session.dialect().now_micros;
    let query = sql(format!(
        "SELECT p.rev_floor, {now} AS now_micros, {LINK_COLUMNS} \
         FROM publisher p LEFT JOIN domains d ON d.name = ? \
         LEFT JOIN links l ON l.domain_id = d.id AND l.code = ? WHERE p.id = 1"
    ));
    let query = query.bind(&key.domain).bind(&key.code);
    session.fetch_one(query).await
}

/// The record for caches. For a link without a row, they may have any revision up to the floor.
fn record(found: FoundRow) -> Result<Record<String>, Fault> {
    let FoundRow { revisions, link } = found;
    let Some(row) = link else {
        return Ok(Record::Absent {
            rev: revisions.effective(0),
        });
    };
    if row.is_tombstone() {
        let rev = revisions.effective(row.rev());
        return Ok(Record::Absent { rev });
    }
    Ok(published(&revisions, row)?.record().to_owned_record())
}

/// The link of a row that is not a tombstone, with its published revision.
fn published(revisions: &RevisionBasis, row: LinkRow) -> Result<Link, Fault> {
    let rev = revisions.effective(row.rev());
    let link = Link {
        rev,
        ..row.into_link()?
    };
    check_known(&link)?;
    Ok(link)
}
