//! Removes clicks past their retention.

use super::docs::{DAYS, DocKind, Docs, HOURS};
use super::state::ClickState;
use crate::ClickStore;
use crate::clicks::{BATCH_MILLIS, ClickRetention, MAX_ROWS};
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

const DAY_SECONDS: u64 = 86_400;

const DAY_HOURS: u64 = 24;

/// Retention of the counts by the minute that predate rollups.
const MINUTES: u64 = 7 * 24 * 60;

impl ClickStore {
    /// Removes up to `limit` rows of each kind that are past their retention, by the database's clock. Returns their number.
    pub async fn purge_clicks(&self, kept: ClickRetention, limit: u32) -> Result<u64, StoreError> {
        let now = self.db.now().await?;
        let days = kept.days * DAY_MILLIS;
        let forgotten = self.forget_click_workers(now.saturating_sub(days), limit);
        let of_accounts = forgotten.await?
            + self
                .fold_click_accounts(now, kept, (MAX_ROWS, limit))
                .await?;
        let call = self
            .write("purge_clicks", "removing old clicks")
            .of(Class::Background);
        run!(call, |session| {
            let mut purged = of_accounts + purge_reports(session, now, kept, limit).await?;
            let today = now / DAY_MILLIS;
            let built = ClickState::read(session).await?.days_until;
            let hours = today.saturating_sub(kept.hours).min(built.into()) * DAY_HOURS;
            let days = today.saturating_sub(kept.days);
            for (table, before) in [(HOURS, hours), (DAYS, days)] {
                for kind in DocKind::ALL {
                    purged += purge_docs(session, table, kind, before, limit).await?;
                }
            }
            let before = (now / 1000).saturating_sub(kept.raw * DAY_SECONDS);
            let mark = mark(session, today, kept.raw).await?;
            for table in ["click_events", "orphan_visits"] {
                purged += purge_numbered(session, table, before, limit).await?;
                let marked = sql("number < ? ORDER BY number").bind(mark);
                purged += session.purge(table, "number", marked, limit).await?;
            }
            let old = sql("day < ? ORDER BY day").bind(before / DAY_SECONDS);
            let days = session.purge("orphan_days", "tenant_id, day", old, limit);
            Ok(purged + days.await?)
        })
    }
}

async fn purge_reports(
    session: &mut Session,
    now: u64,
    kept: ClickRetention,
    limit: u32,
) -> Result<u64, Fault> {
    let mut purged = 0;
    for (table, key, condition, before) in [
        (
            "click_batches",
            "worker, seq",
            "received_at < ? ORDER BY received_at",
            now.saturating_sub(BATCH_MILLIS),
        ),
        (
            "click_queue",
            "id",
            "aside = 1 AND received_at < ? ORDER BY id",
            now.saturating_sub(kept.raw.max(1) * DAY_MILLIS),
        ),
        (
            "click_minutes",
            "minute, link_key",
            "minute < ? ORDER BY minute",
            (now / 60_000).saturating_sub(MINUTES),
        ),
    ] {
        let old = sql(condition).bind(before);
        purged += session.purge(table, key, old, limit).await?;
    }
    Ok(purged)
}

async fn purge_docs(
    session: &mut Session,
    table: Docs,
    kind: DocKind,
    before: u64,
    limit: u32,
) -> Result<u64, Fault> {
    let Docs { table, time, .. } = table;
    let condition = format!("kind = ? AND {time} < ? ORDER BY kind, {time}, scope_id");
    let key = format!("kind, {time}, scope_id");
    let old = sql(condition).bind(kind.number()).bind(before);
    session.purge(table, &key, old, limit).await
}

/// Records the number of the next click today, and deletes unneeded marks. Returns the number below which single clicks were written
/// more than `kept` days ago. Without it, clicks dated in the future by a wrong clock would keep all clicks after them.
async fn mark(session: &mut Session, today: u64, kept: u64) -> Result<u64, Fault> {
    let insert_ignore = session.dialect().insert_ignore;
    let mark = sql(format!(
        "{insert_ignore} click_marks (day, number) SELECT ?, number FROM click_state WHERE id = 1"
    ));
    session.autocommit(mark.bind(today)).await?;
    let query = sql("SELECT day, number FROM click_marks WHERE day < ? ORDER BY day DESC LIMIT 1");
    let last: Option<(u64, u64)> = session
        .fetch_optional(query.bind(today.saturating_sub(kept)))
        .await?;
    let Some((day, number)) = last else {
        return Ok(0);
    };
    let forget = sql("DELETE FROM click_marks WHERE day < ?");
    session.autocommit(forget.bind(day)).await?;
    Ok(number)
}

/// Removes the first rows of a table whose numbers grow roughly with time, up to one still within its retention.
async fn purge_numbered(
    session: &mut Session,
    table: &str,
    before: u64,
    limit: u32,
) -> Result<u64, Fault> {
    let index = session.dialect().force_index("PRIMARY");
    let query = sql(format!(
        "SELECT number, at FROM {table}{index} ORDER BY number LIMIT ?"
    ));
    let rows: Vec<(u64, u64)> = session.fetch_all(query.bind(limit)).await?;
    let old = rows.iter().take_while(|(_, at)| *at < before);
    let Some((last, _)) = old.last() else {
        return Ok(0);
    };
    let delete = sql(format!("DELETE FROM {table} WHERE number <= ?"));
    session.autocommit(delete.bind(*last)).await
}
