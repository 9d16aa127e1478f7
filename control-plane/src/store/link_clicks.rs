//! Reads and deletes the clicks of links: how many, and in which minutes.
//!
//! A total is all that was counted of a link since its clicks were deleted last; minutes are kept for
//! `clicks.keep_minutes`.

use super::audit::{self, Actor, Entry};
use super::calls::{Store, run};
use super::changing::subject;
use super::error::{Fault, StoreError};
use super::rows::name;
use super::session::Session;
use super::sql::{LONGEST, lookups, sql};
use edgelink_wire::LinkKey;
use serde_json::json;
use std::collections::HashMap;

/// The most minutes of links that one call of [`Store::click_minutes`] reads.
pub const MAX_MINUTES: u32 = 10_000;

/// The most minutes that one statement deletes.
const MAX_DELETED: u32 = 1000;

/// Joins the total of each link `l` on domain `d`.
pub(super) const JOIN_TOTALS: &str =
    "LEFT JOIN click_totals c ON c.link_key = CONCAT(d.name, '/', l.code)";

/// The visits of such a link, with those before it was imported.
pub(super) const VISITS: &str = "(l.imported_visits + COALESCE(c.clicks, 0))";

/// Which minutes of links to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteQuery {
    /// Those of this link only; `None` for all links of the installation.
    pub key: Option<LinkKey>,
    /// The first minute (unix time / 60).
    pub from: u64,
    /// The last minute.
    pub to: u64,
}

/// The clicks of a link in a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickMinute {
    /// Unix time / 60.
    pub minute: u64,
    /// `{domain}/{code}`, as an edge has sent it.
    pub key: String,
    /// How many, at least one.
    pub clicks: u64,
}

/// How often the links of a tag were followed, before they were imported as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagClicks {
    /// The tag.
    pub tag: String,
    /// How many of its links were looked at.
    pub links: u64,
    /// How often those were followed.
    pub clicks: u64,
}

impl Store {
    /// How often each of the links was followed; one that never was is left out.
    pub async fn click_totals(&self, keys: &[LinkKey]) -> Result<HashMap<String, u64>, StoreError> {
        let call = self.read("click_totals", "reading clicks of links");
        let keys: Vec<String> = keys.iter().map(LinkKey::to_string).collect();
        run!(call, |session| {
            let mut totals = HashMap::with_capacity(keys.len());
            for keys in keys.chunks(LONGEST) {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                let query = sql("SELECT link_key, clicks FROM click_totals WHERE link_key IN ");
                let rows: Vec<(Vec<u8>, u64)> = session.fetch_all(query.list(&keys)).await?;
                for (key, clicks) in rows {
                    totals.insert(name(&key)?, clicks);
                }
            }
            Ok(totals)
        })
    }

    /// How often the newest `most` links of each tag were followed.
    pub async fn tag_clicks(
        &self,
        tenant_id: u32,
        tags: &[String],
        most: u64,
    ) -> Result<Vec<TagClicks>, StoreError> {
        let call = self.read("tag_clicks", "summing up clicks of tags");
        run!(call, |session| {
            let mut sums = Vec::with_capacity(tags.len());
            for tags in lookups(tags) {
                sums.extend(tag_clicks(session, tenant_id, tags, most).await?);
            }
            Ok(sums)
        })
    }

    /// Minutes with clicks, the newest first, [`MAX_MINUTES`] at most.
    pub async fn click_minutes(&self, query: &MinuteQuery) -> Result<Vec<ClickMinute>, StoreError> {
        let call = self.read("click_minutes", "reading clicks by the minute");
        let key = query.key.as_ref().map(LinkKey::to_string);
        run!(call, |session| {
            let (index, order) = match key {
                Some(_) => ("click_minutes_of_link", "minute DESC"),
                None => ("PRIMARY", "minute DESC, link_key DESC"),
            };
            let index = session.dialect().force_index(index);
            let mut select = sql(format!(
                "SELECT minute, link_key, clicks FROM click_minutes{index} WHERE minute >= ? AND minute <= ?"
            ))
            .bind(query.from)
            .bind(query.to);
            if let Some(key) = &key {
                select = select.push(" AND link_key = ?").bind(key.as_str());
            }
            let select = select.push(&format!(" ORDER BY {order} LIMIT ?"));
            let rows: Vec<(u64, Vec<u8>, u64)> =
                session.fetch_all(select.bind(MAX_MINUTES)).await?;
            let minute = |(minute, key, clicks): (u64, Vec<u8>, u64)| {
                name(&key).map(|key| ClickMinute {
                    minute,
                    key,
                    clicks,
                })
            };
            rows.into_iter().map(minute).collect()
        })
    }

    /// Deletes the clicks of a link; how many they were. Those that are counted meanwhile may stay, and those from before
    /// it was imported do.
    pub async fn delete_clicks(&self, key: &LinkKey, actor: &Actor) -> Result<u64, StoreError> {
        let text = key.to_string();
        while self.delete_minutes(&text).await? >= MAX_DELETED.into() {}
        let call = self.write("delete_clicks", "deleting the clicks of a link");
        run!(call, |session| {
            session.begin().await?;
            let for_update = session.dialect().for_update;
            let query = sql(format!(
                "SELECT clicks FROM click_totals WHERE link_key = ?{for_update}"
            ));
            let row: Option<(u64,)> = session.fetch_optional(query.bind(text.as_str())).await?;
            let Some((clicks,)) = row else {
                session.rollback().await?;
                return Ok(0);
            };
            let delete = sql("DELETE FROM click_totals WHERE link_key = ?");
            session.execute(delete.bind(text.as_str())).await?;
            let entry = Entry {
                actor,
                action: "clicks.delete",
                subject: subject(key),
                detail: json!({ "clicks": clicks }),
            };
            audit::append(session, &entry).await?;
            session.commit(1).await?;
            Ok(clicks)
        })
    }

    async fn delete_minutes(&self, key: &str) -> Result<u64, StoreError> {
        let call = self.write("delete_clicks", "deleting the clicks of a link");
        run!(call, |session| {
            let of_link = "link_key = ? ORDER BY minute";
            let dialect = session.dialect();
            let delete = dialect.delete_some("click_minutes", "minute, link_key", of_link);
            session
                .autocommit(sql(delete).bind(key).bind(MAX_DELETED))
                .await
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
        "SELECT MIN(t.tag) AS tag, COUNT(*) AS links, CAST(COALESCE(SUM({VISITS}), 0) AS UNSIGNED) AS clicks \
         FROM (SELECT tag, link_id FROM link_tags{index} WHERE tenant_id = ? AND tag = ? \
         ORDER BY created_at DESC, link_id DESC LIMIT ?) AS t \
         {join} links l ON l.id = t.link_id {join} domains d ON d.id = l.domain_id {JOIN_TOTALS}"
    );
    let query = sql("").join(" UNION ALL ", tags, |sql, tag| {
        let sql = sql.push(&part).bind(tenant_id);
        sql.bind(tag.as_str()).bind(most)
    });
    let rows: Vec<(Option<Vec<u8>>, i64, u64)> = session.fetch_all(query).await?;
    let sum = |(tag, links, clicks): (Option<Vec<u8>>, i64, u64)| {
        let tag = tag.map(|tag| name(&tag))?;
        Some(tag.map(|tag| TagClicks {
            tag,
            links: links.cast_unsigned(),
            clicks,
        }))
    };
    rows.into_iter().filter_map(sum).collect()
}

/// How often links were followed in all, before they were imported as well. `ids` are at most [`LONGEST`].
pub(super) async fn sum(session: &mut Session, ids: &[u64]) -> Result<u64, Fault> {
    let dialect = session.dialect();
    let (index, join) = (dialect.force_index("PRIMARY"), dialect.join_in_order);
    let query = sql(format!(
        "SELECT CAST(COALESCE(SUM({VISITS}), 0) AS UNSIGNED) AS clicks FROM links l{index} \
         {join} domains d ON d.id = l.domain_id {JOIN_TOTALS} WHERE l.id IN "
    ));
    let (clicks,): (u64,) = session.fetch_one(query.list(ids)).await?;
    Ok(clicks)
}

/// Removes the totals of links, deleted ones among them.
pub(super) async fn remove_totals(session: &mut Session, ids: &[u64]) -> Result<(), Fault> {
    for ids in ids.chunks(LONGEST) {
        let query = sql(
            "SELECT CAST(CONCAT(d.name, '/', l.code) AS CHAR) AS link_key FROM links l \
             JOIN domains d ON d.id = l.domain_id WHERE l.id IN ",
        );
        let rows: Vec<(String,)> = session.fetch_all(query.list(ids)).await?;
        let keys: Vec<&str> = rows.iter().map(|(key,)| key.as_str()).collect();
        if !keys.is_empty() {
            let delete = sql("DELETE FROM click_totals WHERE link_key IN ").list(&keys);
            session.execute(delete).await?;
        }
    }
    Ok(())
}
