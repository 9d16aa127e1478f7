//! Reads and deletes the clicks of links: how many, and in which minutes.
//!
//! A total is all that was counted of a link since its clicks were deleted last; minutes are kept for
//! `clicks.keep_minutes`. Clicks are counted by the key, which several links may have one after another: a total says from which
//! minute on they are those of the present link.

use super::audit::{self, Actor, Entry};
use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::link_changes::subject;
use super::revisions::Revisions;
use super::rows::name;
use super::session::Session;
use super::sql::{LONGEST, Sql, lookups, sql};
use edgelink_wire::LinkKey;
use serde_json::json;
use std::collections::HashMap;

/// The most minutes of links that one call of [`Store::click_minutes`] reads.
pub const MAX_MINUTES: u32 = 10_000;

/// The most minutes that one statement deletes.
const MAX_DELETED: u32 = 1000;

const MINUTE_MILLIS: u64 = 60_000;

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
                let query = sql(
                    "SELECT link_key, clicks FROM click_totals WHERE clicks > 0 AND link_key IN ",
                );
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
                Some(_) => ("click_minutes_of_link", "m.minute DESC"),
                None => ("PRIMARY", "m.minute DESC, m.link_key DESC"),
            };
            let index = session.dialect().force_index(index);
            let mut select = select_minutes(&index, query.from, query.to);
            if let Some(key) = &key {
                select = select.push(" AND m.link_key = ?").bind(key.as_str());
            }
            let select = select.push(&format!(" ORDER BY {order} LIMIT ?"));
            read_minutes(session, select.bind(MAX_MINUTES)).await
        })
    }

    /// Deletes the clicks of a link; how many they were. Those that are counted meanwhile may stay, and those from before
    /// it was imported do.
    ///
    /// Once they are gone from the total no minute of before is shown, even if the rest of the call fails: then the next one
    /// removes what is left of them.
    pub async fn delete_clicks(&self, key: &LinkKey, actor: &Actor) -> Result<u64, StoreError> {
        let call = self.write("delete_clicks", "deleting the clicks of a link");
        let (clicks, since) = run!(call, |session| {
            session.begin().await?;
            let now = Revisions::read(session).await?.now_millis();
            let ended = end(session, key, now).await?;
            if ended.0 > 0 {
                let entry = Entry {
                    actor,
                    action: "clicks.delete",
                    subject: subject(key),
                    detail: json!({ "clicks": ended.0 }),
                };
                audit::append(session, &entry).await?;
            }
            session.commit(1).await?;
            Ok(ended)
        })?;
        while self.delete_minutes(key, since).await? >= MAX_DELETED.into() {}
        Ok(clicks)
    }

    /// Deletes some of the minutes of a link before this one.
    async fn delete_minutes(&self, key: &LinkKey, before: u64) -> Result<u64, StoreError> {
        let call = self.write("delete_clicks", "deleting the clicks of a link");
        let key = key.to_string();
        run!(call, |session| {
            let of_link = "link_key = ? AND minute < ? ORDER BY minute";
            let dialect = session.dialect();
            let delete = dialect.delete_some("click_minutes", "minute, link_key", of_link);
            let delete = sql(delete).bind(key.as_str()).bind(before);
            session.autocommit(delete.bind(MAX_DELETED)).await
        })
    }
}

/// Makes an end of the clicks of a key at `now`, unix milliseconds: those that were counted are not those of the link that it
/// has from now on. How many they were, and the minute from which on clicks are shown. Part of a transaction.
pub(super) async fn end(
    session: &mut Session,
    key: &LinkKey,
    now: u64,
) -> Result<(u64, u64), Fault> {
    let (text, since) = (key.to_string(), now / MINUTE_MILLIS);
    // In the order in which clicks are counted.
    let delete = sql("DELETE FROM click_minutes WHERE link_key = ? AND minute >= ?");
    session
        .execute(delete.bind(text.as_str()).bind(since))
        .await?;
    let for_update = session.dialect().for_update;
    let query = sql(format!(
        "SELECT clicks FROM click_totals WHERE link_key = ?{for_update}"
    ));
    let row: Option<(u64,)> = session.fetch_optional(query.bind(text.as_str())).await?;
    let dialect = session.dialect();
    let columns = ["clicks", "since"];
    let columns = columns.map(|column| format!(" {column} = {}", dialect.inserted(column)));
    let update = dialect.on_duplicate("link_key") + &columns.join(",");
    let row_of_none = [text.as_str().into(), 0_u64.into(), since.into()];
    let write = sql("INSERT INTO click_totals (link_key, clicks, since) ").rows([row_of_none]);
    session.execute(write.push(&update)).await?;
    Ok((row.map_or(0, |(clicks,)| clicks), since))
}

/// The query of minutes from `from` to `to`, without those from before a link began; its conditions may go on.
pub(super) fn select_minutes<'v>(index: &str, from: u64, to: u64) -> Sql<'v> {
    let select = sql(format!(
        "SELECT m.minute, m.link_key, m.clicks FROM click_minutes m{index} \
         LEFT JOIN click_totals t ON t.link_key = m.link_key \
         WHERE m.minute >= ? AND m.minute <= ? AND m.minute >= COALESCE(t.since, 0)"
    ));
    select.bind(from).bind(to)
}

/// What a query of minutes finds.
pub(super) async fn read_minutes(
    session: &mut Session,
    select: Sql<'_>,
) -> Result<Vec<ClickMinute>, Fault> {
    let rows: Vec<(u64, Vec<u8>, u64)> = session.fetch_all(select).await?;
    let minute = |(minute, key, clicks): (u64, Vec<u8>, u64)| {
        name(&key).map(|key| ClickMinute {
            minute,
            key,
            clicks,
        })
    };
    rows.into_iter().map(minute).collect()
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

/// Removes the clicks of links, deleted ones among them. `false`, and only some are removed, if there are more than one statement
/// deletes. Part of a transaction.
pub(super) async fn remove(session: &mut Session, ids: &[u64]) -> Result<bool, Fault> {
    for ids in ids.chunks(LONGEST) {
        let query = sql(
            "SELECT CAST(CONCAT(d.name, '/', l.code) AS CHAR) AS link_key FROM links l \
             JOIN domains d ON d.id = l.domain_id WHERE l.id IN ",
        );
        let rows: Vec<(String,)> = session.fetch_all(query.list(ids)).await?;
        let keys: Vec<&str> = rows.iter().map(|(key,)| key.as_str()).collect();
        if keys.is_empty() {
            continue;
        }
        let of_links = sql("link_key IN ").list(&keys);
        let delete = session.dialect().delete_some(
            "click_minutes",
            "minute, link_key",
            &format!("{} ORDER BY link_key, minute", of_links.text),
        );
        let mut delete = sql(delete);
        delete.values = of_links.values;
        if session.execute(delete.bind(MAX_DELETED)).await? >= MAX_DELETED.into() {
            return Ok(false);
        }
        let delete = sql("DELETE FROM click_totals WHERE link_key IN ").list(&keys);
        session.execute(delete).await?;
    }
    Ok(true)
}
