//! Sums of clicks of links, by tag and by list, and the deletion of clicks.

use super::audit::{self, Actor, Entry};
use super::link_changes::subject;
use crate::Store;
use edgelink_click_store::{JOIN_TOTALS, VISITS};
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{lookups, sql};
use edgelink_wire::LinkKey;
use serde_json::json;

/// Clicks of the links of a tag, including imported visits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagClicks {
    /// The tag.
    pub tag: String,
    /// Number of its links examined.
    pub links: u64,
    /// Clicks of these links.
    pub clicks: u64,
    /// Clicks of bots among them.
    pub bots: u64,
}

impl Store {
    /// Clicks of the newest `most` links of each tag.
    pub async fn tag_clicks(
        &self,
        tenant_id: u32,
        tags: &[String],
        most: u64,
    ) -> Result<Vec<TagClicks>, StoreError> {
        let call = self.read("tag_clicks", "summing clicks of tags");
        run!(call, |session| {
            let mut sums = Vec::with_capacity(tags.len());
            for tags in lookups(tags) {
                sums.extend(tag_clicks(session, tenant_id, tags, most).await?);
            }
            Ok(sums)
        })
    }

    /// Records the deletion of the clicks of a link in the audit log.
    pub async fn note_deleted_clicks(
        &self,
        key: &LinkKey,
        clicks: u64,
        actor: &Actor,
    ) -> Result<(), StoreError> {
        let call = self.write("note_deleted_clicks", "recording the deletion of clicks");
        run!(call, |session| {
            session.begin().await?;
            let entry = Entry {
                actor,
                action: "clicks.delete",
                subject: subject(key),
                detail: json!({ "clicks": clicks }),
            };
            audit::append(session, &entry).await?;
            session.commit(1).await
        })
    }
}

async fn tag_clicks(
    session: &mut Session,
    tenant_id: u32,
    tags: &[String],
    most: u64,
) -> Result<Vec<TagClicks>, Fault> {
    let dialect = session.dialect();
    let (index, join) = (dialect.force_index("PRIMARY"), dialect.join_in_order);
    let part = format!(
        "SELECT MIN(t.tag) AS tag, COUNT(*) AS links, CAST(COALESCE(SUM({VISITS}), 0) AS UNSIGNED) AS clicks, \
         CAST(COALESCE(SUM(c.bots), 0) AS UNSIGNED) AS bots FROM (SELECT tag, link_id FROM link_tags{index} WHERE tenant_id = ? AND tag = ? \
         ORDER BY created_at DESC, link_id DESC LIMIT ?) AS t \
         {join} links l ON l.id = t.link_id {JOIN_TOTALS}"
    );
    let query = sql("").join(" UNION ALL ", tags, |sql, tag| {
        let sql = sql.push(&part).bind(tenant_id);
        sql.bind(tag.as_str()).bind(most)
    });
    let rows: Vec<(Option<Vec<u8>>, i64, u64, u64)> = session.fetch_all(query).await?;
    let sum = |(tag, links, clicks, bots): (Option<Vec<u8>>, i64, u64, u64)| {
        let tag = tag.map(|tag| name(&tag))?;
        Some(tag.map(|tag| TagClicks {
            tag,
            links: links.cast_unsigned(),
            clicks,
            bots,
        }))
    };
    rows.into_iter().filter_map(sum).collect()
}

/// Total clicks of links, including imported visits, and clicks of bots among them. `ids` has at most [`LONGEST`].
pub(super) async fn sum(session: &mut Session, ids: &[u64]) -> Result<(u64, u64), Fault> {
    let index = session.dialect().force_index("PRIMARY");
    let query = sql(format!(
        "SELECT CAST(COALESCE(SUM({VISITS}), 0) AS UNSIGNED) AS clicks, \
         CAST(COALESCE(SUM(c.bots), 0) AS UNSIGNED) AS bots FROM links l{index} {JOIN_TOTALS} WHERE l.id IN "
    ));
    session.fetch_one(query.list(ids)).await
}
