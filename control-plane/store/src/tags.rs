//! The tags of all links: listing, renaming and removing them.
//!
//! Tags are for people: edges do not get them. So a change of tags raises the revision of a link, and thus its ETag,
//! but has no row in the outbox: cached records stay correct.

use super::audit::{self, Actor, AuditQuery, Entry};
use super::events::LinkEvent;
use super::rows::{StoredContent, links_by_id};
use super::terms::{self, Terms};
use crate::Store;
use edgelink_database::columns::numbers;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::revisions::RevisionBasis;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Value, lookups, pieces, sql};
use edgelink_model::links::model::Link;
use edgelink_model::links::words::TextRange;
use serde_json::json;

/// Most links of a tag that are counted.
pub const MAX_COUNTED: u64 = 1000;

/// The most links that one call of [`Store::replace_tag`] changes.
pub const MAX_RETAGGED: usize = LONGEST;

/// The name of the action that replaces a tag by another one.
const RENAME: &str = "tag.rename";

/// Query for a list of tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagQuery {
    /// The tenant of the links.
    pub tenant_id: u32,
    /// Only tags with this prefix.
    pub prefix: String,
    /// Only tags after this one.
    pub after: Option<String>,
    /// Most tags returned.
    pub limit: u32,
}

/// A tag with the number of its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// Number of its links, counted up to [`MAX_COUNTED`].
    pub links: u64,
}

impl Store {
    /// Tags of links, ordered by their bytes, each with its number of links.
    pub async fn list_tags(&self, query: &TagQuery) -> Result<Vec<TagCount>, StoreError> {
        let call = self.read("list_tags", "listing tags");
        run!(call, |session| {
            let tags = tags(session, query).await?;
            count(session, query.tenant_id, tags).await
        })
    }

    /// Tags of links, ordered by their bytes, without the numbers of links, which have to be counted one by one.
    pub async fn tag_names(&self, query: &TagQuery) -> Result<Vec<String>, StoreError> {
        let call = self.read("tag_names", "listing tags");
        run!(call, |session| tags(session, query).await)
    }

    /// Number of links of each of the tags; tags without links are left out.
    pub async fn count_tags(
        &self,
        tenant_id: u32,
        tags: &[String],
    ) -> Result<Vec<TagCount>, StoreError> {
        let call = self.read("count_tags", "counting links of tags");
        run!(call, |session| {
            count(session, tenant_id, tags.to_vec()).await
        })
    }

    /// True if a link of the tenant has the tag.
    pub async fn has_tag(&self, tenant_id: u32, tag: &str) -> Result<bool, StoreError> {
        run!(self.read("has_tag", "looking for a tag"), |session| {
            let query = sql(
                "SELECT EXISTS (SELECT 1 FROM link_tags WHERE tenant_id = ? AND tag = ?) AS found",
            );
            let (found,): (bool,) = session.fetch_one(query.bind(tenant_id).bind(tag)).await?;
            Ok(found)
        })
    }

    /// True if the last change of the tag was a renaming to `by` that may have left some links: a call of
    /// [`Store::replace_tag`] without a successor.
    pub async fn is_half_renamed(
        &self,
        tenant_id: u32,
        tag: &str,
        by: &str,
    ) -> Result<bool, StoreError> {
        let query = AuditQuery {
            subject: Some(subject(tag)),
            ..AuditQuery::of_tenant(tenant_id, 1)
        };
        let last = self.audit_entries(&query).await?.pop();
        let left_some = json!({ "tag": by, "links": MAX_RETAGGED });
        Ok(last.is_some_and(|last| last.action == RENAME && last.detail == left_some))
    }

    /// Replaces a tag of the actor's tenant by another one, or removes it, on up to [`MAX_RETAGGED`] links in one
    /// transaction. Returns the number of the tag's rows processed; 0 if no link has the tag any more.
    pub async fn replace_tag(
        &self,
        actor: &Actor,
        tag: &str,
        by: Option<&str>,
    ) -> Result<usize, StoreError> {
        let call = self.write("replace_tag", "replacing a tag");
        let call = call.locking([RowLine::Tag(actor.tenant_id, tag.to_owned())]);
        run!(call, |session| {
            session.begin().await?;
            let max_bytes = self.db.max_bytes();
            let tenant_id = actor.tenant_id;
            let (done, links) = replace(session, tenant_id, (tag, by), max_bytes).await?;
            if done == 0 {
                session.rollback().await?;
                return Ok(0);
            }
            if let Some(events) = &self.events {
                let now = links.first().map_or(0, |link| link.updated_at);
                let changed = links.iter().map(|link| (LinkEvent::Changed, link));
                events.append(session, now, changed).await?;
            }
            audit::append(session, &entry(actor, tag, by, done)).await?;
            session.commit(done).await?;
            Ok(done)
        })
    }
}

fn entry<'a>(actor: &'a Actor, tag: &str, by: Option<&str>, links: usize) -> Entry<'a> {
    let (action, detail) = match by {
        Some(by) => (RENAME, json!({ "tag": by, "links": links })),
        None => ("tag.delete", json!({ "links": links })),
    };
    Entry {
        actor,
        action,
        subject: subject(tag),
        detail,
    }
}

fn subject(tag: &str) -> String {
    format!("tag:{tag}")
}

/// The tags of a page. The server skips from one tag to the next; MariaDB does so only if grouped by all columns of the index up to the tag.
async fn tags(session: &mut Session, query: &TagQuery) -> Result<Vec<String>, Fault> {
    let index = session.dialect().force_index("PRIMARY");
    let range = TextRange::beginning(&query.prefix);
    // The first text after the tag.
    let from = match &query.after {
        Some(after) => format!("{after}\0").max(range.from),
        None => range.from,
    };
    let select = sql(format!(
        "SELECT tag FROM link_tags{index} WHERE tenant_id = ? AND tag >= ? AND tag < ? \
         GROUP BY tenant_id, tag ORDER BY tag LIMIT ?"
    ));
    let select = select.bind(query.tenant_id).bind(from.as_str());
    let select = select.bind(range.to.as_str()).bind(query.limit);
    let rows: Vec<(Vec<u8>,)> = session.fetch_all(select).await?;
    rows.into_iter().map(|(tag,)| text(tag)).collect()
}

/// Counts the links of tags, which are sorted. A tag that has lost its last link meanwhile is left out.
async fn count(
    session: &mut Session,
    tenant_id: u32,
    tags: Vec<String>,
) -> Result<Vec<TagCount>, Fault> {
    let index = session.dialect().force_index("PRIMARY");
    let part = format!(
        "SELECT MIN(tag) AS tag, COUNT(*) AS links FROM (SELECT tag FROM link_tags{index} WHERE tenant_id = ? \
         AND tag = ? LIMIT ?) AS counted"
    );
    let mut counts = Vec::with_capacity(tags.len());
    for tags in lookups(&tags) {
        let query = sql("").join(" UNION ALL ", tags, |sql, tag| {
            let sql = sql.push(&part).bind(tenant_id);
            sql.bind(tag.as_str()).bind(MAX_COUNTED)
        });
        let rows: Vec<(Option<Vec<u8>>, i64)> = session.fetch_all(query).await?;
        for (tag, links) in rows {
            let links = links.cast_unsigned();
            let tag = tag.map(text).transpose()?;
            counts.extend(tag.map(|tag| TagCount { tag, links }));
        }
    }
    counts.sort_unstable_by(|one, other| one.tag.cmp(&other.tag));
    Ok(counts)
}

fn text(tag: Vec<u8>) -> Result<String, Fault> {
    String::from_utf8(tag).map_err(|error| Fault::corrupt("tag", &error))
}

async fn replace(
    session: &mut Session,
    tenant_id: u32,
    (tag, by): (&str, Option<&str>),
    max_bytes: usize,
) -> Result<(usize, Vec<Link>), Fault> {
    let query = sql("SELECT link_id FROM link_tags WHERE tenant_id = ? AND tag = ? LIMIT ?");
    let query = query.bind(tenant_id).bind(tag).bind(MAX_RETAGGED as u64);
    let tagged = numbers(session, query).await?;
    if tagged.is_empty() {
        return Ok((0, Vec::new()));
    }
    let for_update = session.dialect().for_update;
    let query = sql("SELECT id FROM links WHERE id IN ").list(&tagged);
    let query = query
        .push(" AND deleted_at IS NULL ORDER BY id")
        .push(for_update);
    let ids = numbers(session, query).await?;
    let mut links = links_by_id(session, &ids).await?;
    let revisions = RevisionBasis::read(session).await?;
    for link in &mut links {
        replace_in(&mut link.content.tags, tag, by);
        link.updated_at = revisions.now_millis();
    }
    let stored: Vec<(u64, StoredContent)> = links.iter().map(stored).collect();
    for stored in stored.chunks(at_once(&stored, max_bytes)).flat_map(pieces) {
        update(session, revisions, stored).await?;
    }
    // Including terms of links deleted by an older version.
    terms::remove_by_id(session, &tagged).await?;
    Terms::of(&links).add(session).await?;
    Ok((tagged.len(), links))
}

fn replace_in(tags: &mut Vec<String>, tag: &str, by: Option<&str>) {
    let before = tags.len();
    tags.retain(|each| each != tag);
    if tags.len() < before {
        tags.extend(by.map(str::to_owned));
        tags.sort_unstable();
        tags.dedup();
    }
}

fn stored(link: &Link) -> (u64, StoredContent) {
    let stored = StoredContent::new(link.tenant_id, &link.domain, &link.content);
    (link.id, stored)
}

/// Number of links changed by one statement: as many as fit into `max_bytes` if all were as large as the largest, and at least one.
fn at_once(stored: &[(u64, StoredContent)], max_bytes: usize) -> usize {
    const NUMBERS: usize = 128;
    let sizes = stored
        .iter()
        .map(|(_, stored)| NUMBERS + stored.tags().len());
    (max_bytes / sizes.max().unwrap_or(1)).clamp(1, LONGEST)
}

/// Writes the tags of links with revisions greater than their last ones. Their number is one of the few lengths.
async fn update(
    session: &mut Session,
    revisions: RevisionBasis,
    stored: &[(u64, StoredContent)],
) -> Result<(), Fault> {
    let greatest = session.dialect().greatest;
    let ids: Vec<u64> = stored.iter().map(|(id, _)| *id).collect();
    let update = sql("UPDATE links SET tags = CASE id")
        .join("", stored, |sql, (id, stored)| {
            sql.push(" WHEN ? THEN ?")
                .bind(*id)
                .bind(Value::Text(stored.tags()))
        })
        .push(" END, content_hash = CASE id")
        .join("", stored, |sql, (id, stored)| {
            sql.push(" WHEN ? THEN ?")
                .bind(*id)
                .bind(stored.content_hash)
        })
        .push(" END, updated_at = ?")
        .bind(revisions.now_millis())
        .push(&format!(", rev = {greatest}(rev + 1, ?) WHERE id IN "))
        .bind(revisions.first())
        .list(&ids);
    session.execute(update).await.map(drop)
}
