//! Single clicks, and orphan visits.

use super::super::engine::{AnalyticsQuery, EngineError, RawClick, RawPlace, RawQuery, Visitors};
use super::super::model::Bots;
use super::connection::Connection;
use super::counts;
use super::rows::RawRow;
use super::spans::since;
use super::sql::Sql;
use crate::clock;
use clickhouse::Row as _;

const HOUR: u64 = 3_600;

const DAY: u64 = 86_400;

/// How much longer the part of the interval is that is looked at next, where one before had too few clicks.
const GROWTH: u64 = 64;

/// Single clicks. The newest hour of the interval is looked at first, and longer parts where it has too few of them.
/// First only their places are read.
pub(super) async fn raw(
    connection: &Connection,
    query: &RawQuery,
) -> Result<Vec<RawClick>, EngineError> {
    let wanted = query.skip.saturating_add(query.limit.into());
    let end = query
        .after
        .map_or(query.to, |after| query.to.min(after.at + 1));
    let mut length = HOUR;
    let places = loop {
        let from = query.from.max(end.saturating_sub(length));
        let places = places(connection, query, from, end, wanted).await?;
        let clicks: u64 = places.iter().map(|(_, _, clicks)| clicks).sum();
        if clicks >= wanted || from == query.from {
            break places;
        }
        length *= GROWTH;
    };
    match page(&places, query) {
        Some((newest, oldest)) => clicks(connection, query, newest, oldest).await,
        None => Ok(Vec::new()),
    }
}

/// The first and the last place of the page: `newest` is itself a click, `oldest` too.
fn page(places: &[(u32, u64, u64)], query: &RawQuery) -> Option<(RawPlace, RawPlace)> {
    let before = |at: u64| match query.after {
        Some(after) if after.at == at => after.number,
        _ => u64::MAX,
    };
    let mut numbers = places.iter().flat_map(|&(at, number, clicks)| {
        let at = u64::from(at);
        let range = number..(number + clicks).min(before(at));
        range.rev().map(move |number| RawPlace { at, number })
    });
    let newest = numbers.nth(usize::try_from(query.skip).ok()?)?;
    let limit = usize::try_from(query.limit).ok()?;
    let oldest = match limit {
        0 => return None,
        1 => newest,
        more => numbers.take(more - 1).last().unwrap_or(newest),
    };
    Some((newest, oldest))
}

/// Time, first number and clicks of rows, newest first.
async fn places(
    connection: &Connection,
    query: &RawQuery,
    from: u64,
    to: u64,
    most: u64,
) -> Result<Vec<(u32, u64, u64)>, EngineError> {
    let mut sql = rows(query, "toUInt32(at), number, clicks", from, to);
    if let Some(after) = query.after {
        sql = sql
            .text(" AND (at < toDateTime(")
            .number(after.at)
            .text(") OR number < ")
            .number(after.number)
            .text(")");
    }
    let sql = sql
        .text(" ORDER BY at DESC, number DESC LIMIT ")
        .number(most);
    connection.all(sql).await
}

/// The clicks from the newest to the oldest one.
async fn clicks(
    connection: &Connection,
    query: &RawQuery,
    newest: RawPlace,
    oldest: RawPlace,
) -> Result<Vec<RawClick>, EngineError> {
    let columns = RawRow::COLUMN_NAMES.join(", ");
    let sql = rows(query, &columns, oldest.at, newest.at + 1)
        .text(" AND (at < toDateTime(")
        .number(newest.at)
        .text(") OR number <= ")
        .number(newest.number)
        .text(") AND (at > toDateTime(")
        .number(oldest.at)
        .text(") OR number + clicks > ")
        .number(oldest.number)
        .text(") ORDER BY at DESC, number DESC LIMIT ")
        .number(query.limit);
    let (client, dialect) = connection.ready().await?;
    let read = async {
        let mut cursor = sql.query(&client, dialect).fetch::<RawRow<'_>>()?;
        let mut found = Vec::new();
        while let Some(row) = cursor.next().await? {
            let at = u64::from(row.at);
            let first = if at == oldest.at { oldest.number } else { 0 };
            let before = if at == newest.at {
                newest.number + 1
            } else {
                u64::MAX
            };
            found.extend(row.raw_clicks(first, before));
        }
        Ok(found)
    };
    connection.call(read).await
}

/// How many clicks there are, up to `most`: by what is added up if the interval has whole hours.
pub(super) async fn count(
    connection: &Connection,
    query: &RawQuery,
    most: u64,
) -> Result<u64, EngineError> {
    // No click is of the day after tomorrow.
    let end = (clock::unix_seconds() / DAY + 2) * DAY;
    let summed = AnalyticsQuery {
        scope: query.scope.clone(),
        from: query.from.max(since(connection.settings().raw_days)),
        to: query.to.min(end),
        bots: query.bots,
    };
    let has_hours = [summed.from, summed.to].map(|bound| bound.is_multiple_of(HOUR));
    if !query.orphans && has_hours == [true, true] {
        if summed.from >= summed.to {
            return Ok(0);
        }
        let slots = [summed.from];
        let (sum, _) = counts::series(connection, &summed, &slots, Visitors::Ignored).await?;
        return Ok(sum.clicks.min(most));
    }
    let rows = rows(query, "clicks", query.from, query.to);
    let sql = Sql::new("SELECT sum(clicks) FROM (")
        .sql(rows)
        .text(" LIMIT ")
        .number(most)
        .text(")");
    let clicks: u64 = connection.one(sql).await?;
    Ok(clicks.min(most))
}

fn rows(query: &RawQuery, columns: &str, from: u64, to: u64) -> Sql {
    let table = if query.orphans { "orphans" } else { "clicks" };
    let bots = match query.bots {
        Bots::Included => "",
        Bots::Excluded => " AND is_bot = 0",
        Bots::Only => " AND is_bot = 1",
    };
    Sql::new(&format!("SELECT {columns} FROM {table} WHERE "))
        .scope(&query.scope)
        .text(" AND ")
        .within("at", &(from..to))
        .text(bots)
}
