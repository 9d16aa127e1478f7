//! Removes the clicks of links.

use super::docs::{DAYS, DocKind, Docs, HOURS};
use super::state::ClickState;
use crate::conversions;
use crate::{ClickStore, MAX_DELETED};
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, sql};

impl ClickStore {
    /// Deletes the clicks of links. Returns their number. Domains and tenants keep them in their sums.
    ///
    /// They are gone from totals and rollups at once, even if the rest of the call fails: the next call removes the remaining ones.
    pub async fn delete_link_clicks(&self, links: &[u64]) -> Result<u64, StoreError> {
        let mut clicks: u64 = 0;
        for links in links.chunks(LONGEST) {
            let call = self.write("delete_clicks", "deleting the clicks of links");
            let (deleted, before) = run!(call, |session| {
                session.begin().await?;
                let state = ClickState::lock(session).await?;
                let query = sql(
                    "SELECT CAST(COALESCE(SUM(clicks), 0) AS UNSIGNED) AS clicks FROM link_totals WHERE link_id IN ",
                );
                let (clicks,): (u64,) = session.fetch_one(query.list(&distinct(links))).await?;
                remove_sums(session, links).await?;
                session.commit(links.len()).await?;
                Ok((clicks, state.number))
            })?;
            clicks = clicks.saturating_add(deleted);
            // Clicks written from now on stay.
            loop {
                let call = self.write("delete_clicks", "deleting the clicks of links");
                let deleted = run!(call, |session| {
                    let delete = delete_raw(session, links, before);
                    session.autocommit(delete).await
                })?;
                if deleted < MAX_DELETED.into() {
                    break;
                }
            }
        }
        Ok(clicks)
    }
}

fn distinct(links: &[u64]) -> Vec<u64> {
    let mut links = links.to_vec();
    links.sort_unstable();
    links.dedup();
    links
}

/// The statement that deletes some raw clicks of links, with numbers below `before`.
fn delete_raw<'v>(session: &Session, links: &[u64], before: u64) -> Sql<'v> {
    let of_links = sql("tenant_id > 0 AND link_id IN ").list(links);
    let of_links = of_links.push(" AND number < ? ORDER BY link_id, at, number");
    let delete = session
        .dialect()
        .delete_some("click_events", "number", of_links.bind(before));
    delete.bind(MAX_DELETED)
}

/// Removes rollups and totals.
async fn remove_sums(session: &mut Session, links: &[u64]) -> Result<(), Fault> {
    for table in [HOURS, DAYS] {
        let delete = format!(
            "DELETE FROM {} WHERE kind = ? AND scope_id IN ",
            table.table
        );
        let delete = sql(delete).bind(DocKind::Link.number()).list(links);
        session.execute(delete).await?;
    }
    delete_totals(session, links).await
}

async fn delete_totals(session: &mut Session, links: &[u64]) -> Result<(), Fault> {
    let delete = sql("DELETE FROM link_totals WHERE link_id IN ").list(links);
    session.execute(delete).await.map(drop)
}

/// The statement that deletes some rollups of links.
fn delete_docs<'v>(session: &Session, docs: Docs, links: &[u64]) -> Sql<'v> {
    let Docs { table, time, .. } = docs;
    let of_links = sql("kind = ? AND scope_id IN ");
    let of_links = of_links.bind(DocKind::Link.number()).list(links);
    let key = format!("kind, {time}, scope_id");
    let delete = session.dialect().delete_some(table, &key, of_links);
    delete.bind(MAX_DELETED)
}

/// Removes the clicks of links. Returns `false`, with only some removed, if there are more than one statement deletes. Part of a
/// transaction.
pub async fn remove(session: &mut Session, links: &[u64]) -> Result<bool, Fault> {
    let before = ClickState::lock(session).await?.number;
    for links in links.chunks(LONGEST) {
        let deletes = [
            delete_raw(session, links, before),
            delete_docs(session, HOURS, links),
            delete_docs(session, DAYS, links),
        ];
        for delete in deletes {
            if session.execute(delete).await? >= MAX_DELETED.into() {
                return Ok(false);
            }
        }
        delete_totals(session, links).await?;
    }
    conversions::remove(session, links).await
}
