//! Looks up, changes and deletes links.

use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::outbox::OutboxBatches;
use super::revisions::Revisions;
use super::rows::{CONTENT_COLUMNS, LINK_COLUMNS, LinkRow, StoredContent};
use super::session::Session;
use super::sql::{Sql, sql};
use super::terms;
use crate::links::model::{Link, LinkContent};
use edgelink_wire::{LinkKey, Record};
use sqlx::mysql::MySqlRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

impl Store {
    /// The link of that key, if there is one.
    pub async fn find_link(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        run!(self.read("find_link", "finding a link"), |session| {
            let query = sql(format!(
                "SELECT {LINK_COLUMNS} FROM links l JOIN domains d ON d.id = l.domain_id \
                 WHERE d.name = ? AND l.code = ?"
            ));
            let query = query.bind(&key.domain).bind(&key.code);
            let row: Option<LinkRow> = session.fetch_optional(query).await?;
            let live = row.filter(|row| !row.is_tombstone());
            live.map(LinkRow::into_link).transpose()
        })
    }

    /// The record of that key: the link, or `Absent` with the revision of its deletion.
    pub async fn resolve(&self, key: &LinkKey) -> Result<Record<String>, StoreError> {
        run!(self.read("resolve", "resolving a link"), |session| {
            record(look_up(session, key).await?)
        })
    }

    /// Replaces the content of a link by `change` of it, with the row locked meanwhile. `None` if there is no such
    /// link. An error of `change` changes nothing and is the inner error.
    pub async fn update_link(
        &self,
        key: &LinkKey,
        change: ChangeFn,
    ) -> Result<Option<Result<Link, ChangeError>>, StoreError> {
        let updated = run!(self.write("update_link", "changing a link"), |session| {
            session.begin().await?;
            let answer = update_locked(session, key, &change).await?;
            match answer {
                Some(Ok(_)) => session.commit(1).await?,
                _ => session.rollback().await?,
            }
            Ok(answer)
        });
        self.notify_listener(std::slice::from_ref(key));
        updated
    }

    /// Deletes a link if `check` allows it, with the row locked meanwhile. `None` if there is no such link. An error of
    /// `check` deletes nothing and is the inner error.
    pub async fn delete_link(
        &self,
        key: &LinkKey,
        check: CheckFn,
    ) -> Result<Option<Result<(), ChangeError>>, StoreError> {
        let deleted = run!(self.write("delete_link", "deleting a link"), |session| {
            session.begin().await?;
            let answer = delete_locked(session, key, &check).await?;
            match answer {
                Some(Ok(())) => session.commit(1).await?,
                _ => session.rollback().await?,
            }
            Ok(answer)
        });
        self.notify_listener(std::slice::from_ref(key));
        deleted
    }

    /// A page of the keys of all links, deleted ones included, in the order of their numbers, after `after`.
    pub async fn scan_keys(
        &self,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedKey>, StoreError> {
        run!(self.read("scan_keys", "scanning the keys"), |session| {
            let dialect = session.dialect();
            let (index, join) = (dialect.force_index("PRIMARY"), dialect.join_in_order);
            let query = sql(format!(
                "SELECT l.id, CAST(CONCAT(d.name, '/', l.code) AS CHAR) AS link_key \
                 FROM links l{index} {join} domains d ON d.id = l.domain_id WHERE l.id >= ? ORDER BY l.id LIMIT ?"
            ));
            let from = after.map_or(0, |after| after.saturating_add(1));
            session.fetch_all(query.bind(from).bind(limit)).await
        })
    }
}

/// Makes the new content of the link, or refuses. It is called again after a deadlock, then with the link as it is by
/// then.
pub type ChangeFn = Box<dyn Fn(&Link) -> Result<LinkContent, ChangeError> + Send + Sync>;

/// Whether a link may be deleted; called again like a [`ChangeFn`].
pub type CheckFn = Box<dyn Fn(&Link) -> Result<(), ChangeError> + Send + Sync>;

/// Why a link is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A property does not fit the present link.
    #[error("{field} {reason}")]
    Invalid {
        /// The field in the API's spelling.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The link has another revision than the caller has seen.
    #[error("the link has changed meanwhile")]
    Changed,
    /// The link is none of those that the caller may see.
    #[error("there is no such link")]
    Hidden,
}

impl ChangeError {
    /// A property, in the API's spelling, that does not fit the link, and what is wrong with it.
    pub fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Invalid { field, reason }
    }
}

/// A key with the number of its link.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ScannedKey {
    /// The number of the link.
    pub id: u64,
    /// `{domain}/{code}`.
    #[sqlx(rename = "link_key")]
    pub key: String,
}

/// The row of a key, and what the next revisions follow from.
#[derive(Debug)]
struct FoundRow {
    revisions: Revisions,
    /// The link or its tombstone.
    link: Option<LinkRow>,
}

macro_rules! found_row_from {
    ($($row:ty),+) => {$(
        impl<'r> FromRow<'r, $row> for FoundRow {
            fn from_row(row: &'r $row) -> Result<Self, sqlx::Error> {
                let id: Option<u64> = row.try_get("id")?;
                let link = id.map(|_| LinkRow::from_row(row)).transpose()?;
                let revisions = Revisions::from_row(row)?;
                Ok(Self { revisions, link })
            }
        }
    )+};
}
found_row_from!(MySqlRow, SqliteRow);

/// The link of that key, or its tombstone, and what the next revisions follow from, as of one moment.
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

/// The record for caches. Of a link without a row, they may have any revision up to the floor.
fn record(found: FoundRow) -> Result<Record<String>, Fault> {
    let FoundRow { revisions, link } = found;
    let Some(row) = link else {
        return Ok(Record::Absent {
            rev: revisions.effective(0),
        });
    };
    let rev = revisions.effective(row.rev());
    if row.is_tombstone() {
        return Ok(Record::Absent { rev });
    }
    let link = Link {
        rev,
        ..row.into_link()?
    };
    Ok(link.record().to_owned_record())
}

/// A live link, with its row locked, and what its next revision follows from.
async fn lock(session: &mut Session, key: &LinkKey) -> Result<Option<(Link, Revisions)>, Fault> {
    let for_update = session.dialect().for_update;
    let query = sql(format!(
        "SELECT id FROM links WHERE domain_id = (SELECT id FROM domains WHERE name = ?) AND code = ? \
         AND deleted_at IS NULL{for_update}"
    ));
    let query = query.bind(&key.domain).bind(&key.code);
    let id: Option<(u64,)> = session.fetch_optional(query).await?;
    if id.is_none() {
        return Ok(None);
    }
    let FoundRow { revisions, link } = look_up(session, key).await?;
    link.map(|row| Ok((row.into_link()?, revisions)))
        .transpose()
}

async fn update_locked(
    session: &mut Session,
    key: &LinkKey,
    change: &ChangeFn,
) -> Result<Option<Result<Link, ChangeError>>, Fault> {
    let Some((before, revisions)) = lock(session, key).await? else {
        return Ok(None);
    };
    let mut link = before.clone();
    link.content = match change(&before) {
        Ok(content) => content,
        Err(error) => return Ok(Some(Err(error))),
    };
    let now = revisions.now_millis();
    link.updated_at = now;
    link.rev = revisions.after(link.rev);
    let stored = StoredContent::new(link.tenant_id, &link.domain, &link.content);
    let update = sql("UPDATE links SET ");
    let update =
        set_content(update, &stored, &link.content).push(", updated_at = ?, rev = ? WHERE id = ?");
    let update = update.bind_all([link.updated_at, link.rev, link.id]);
    session.execute(update).await?;
    if terms::differ(&before, &link) {
        terms::replace(session, std::slice::from_ref(&link)).await?;
    }
    let change = OutboxBatches::one(key, &link.record().as_deref());
    change.append_outbox(session, now).await?;
    Ok(Some(Ok(link)))
}

/// Appends the assignments of an UPDATE that replaces the content of a link.
pub(super) fn set_content<'v>(
    sql: Sql<'v>,
    stored: &'v StoredContent,
    content: &'v LinkContent,
) -> Sql<'v> {
    let columns = CONTENT_COLUMNS.into_iter().zip(stored.values(content));
    sql.join(", ", columns, |sql, (column, value)| {
        sql.push(column).push(" = ?").bind(value)
    })
}

async fn delete_locked(
    session: &mut Session,
    key: &LinkKey,
    check: &CheckFn,
) -> Result<Option<Result<(), ChangeError>>, Fault> {
    let Some((link, revisions)) = lock(session, key).await? else {
        return Ok(None);
    };
    if let Err(error) = check(&link) {
        return Ok(Some(Err(error)));
    }
    let (rev, now) = (revisions.after(link.rev), revisions.now_millis());
    // Without `valid_until`, the row leaves the index of links to purge.
    let delete = sql(
        "UPDATE links SET deleted_at = ?, updated_at = ?, valid_until = NULL, external_id = NULL, rev = ? WHERE id = ?",
    );
    let delete = delete.bind_all([now, now, rev, link.id]);
    session.execute(delete).await?;
    terms::remove(session, [&link]).await?;
    let change = OutboxBatches::one(key, &Record::Absent { rev });
    change.append_outbox(session, now).await?;
    Ok(Some(Ok(())))
}
