//! Single clicks, and orphan visits.

use super::super::engine::{AnalyticsQuery, EngineError, RawClick, RawPlace, RawQuery, Visitors};
use super::connection::Connection;
use super::counts;
use super::rows::ClickHouseRow;
use super::spans::since;
use super::sql::Sql;
use clickhouse::Row as _;
use edgelink_model::clock;
use edgelink_model::counts::Bots;
use edgelink_model::counts::ClickScope;
use std::ops::Range;

const HOUR: u64 = 3_600;

const DAY: u64 = 86_400;

/// Growth factor of the part of the interval that is read next if the one before had too few clicks.
const GROWTH: u64 = 64;

/// Returns single clicks. Only their positions are read at first.
pub(super) async fn raw(
    connection: &Connection,
    query: &RawQuery,
) -> Result<Vec<RawClick>, EngineError> {
    let query = &kept(connection, query);
    let wanted = query.skip.saturating_add(query.limit.into());
    let end = query
        .after
        .map_or(query.to, |after| query.to.min(after.at + 1));
    let mut found = Vec::new();
    for part in parts(query.from..end) {
        found = places(connection, query, part, wanted).await?;
        let numbers = found.iter().map(|row| numbers(row, query));
        let clicks = numbers.map(|numbers| numbers.end - numbers.start);
        if clicks.sum::<u64>() >= wanted {
            break;
        }
    }
    match page(&found, query) {
        Some((newest, oldest)) => clicks(connection, query, newest, oldest).await,
        None => Ok(Vec::new()),
    }
}

/// Restricts the query to clicks within retention: they are dropped by whole days, a day late.
fn kept(connection: &Connection, query: &RawQuery) -> RawQuery {
    RawQuery {
        from: query.from.max(since(connection.settings().raw_days)),
        ..query.clone()
    }
}

/// The newest hour of an interval, then ever longer parts that include it, and finally all of it: the next one is read if one has too
/// few clicks.
fn parts(Range { start, end }: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let newest = end.min(clock::unix_seconds());
    let lengths = std::iter::successors(Some(HOUR), |length| length.checked_mul(GROWTH));
    let begins = lengths.map(move |length| newest.saturating_sub(length));
    let inner = begins.take_while(move |begin| *begin > start);
    inner.chain([start]).map(move |begin| begin..end)
}

/// Numbers of the clicks of a row, without those that are on earlier pages.
fn numbers(&(at, number, clicks): &(u32, u64, u64), query: &RawQuery) -> Range<u64> {
    let end = number + clicks;
    match query.after {
        Some(after) if after.at == u64::from(at) => number..end.min(after.number).max(number),
        _ => number..end,
    }
}

/// Positions of the newest and the oldest click of the page, both inclusive.
fn page(places: &[(u32, u64, u64)], query: &RawQuery) -> Option<(RawPlace, RawPlace)> {
    let mut numbers = places.iter().flat_map(|row| {
        let at = u64::from(row.0);
        let numbers = numbers(row, query).rev();
        numbers.map(move |number| RawPlace { at, number })
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
    part: Range<u64>,
    most: u64,
) -> Result<Vec<(u32, u64, u64)>, EngineError> {
    let mut sql = rows(query, "toUInt32(at), number, clicks", part);
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

/// Reads the clicks from `newest` to `oldest`.
async fn clicks(
    connection: &Connection,
    query: &RawQuery,
    newest: RawPlace,
    oldest: RawPlace,
) -> Result<Vec<RawClick>, EngineError> {
    let columns = ClickHouseRow::COLUMN_NAMES.join(", ");
    let sql = rows(query, &columns, oldest.at..newest.at + 1)
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
    let client = connection.ready().await?;
    let read = async {
        let mut cursor = sql.query(&client).fetch::<ClickHouseRow<'_>>()?;
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

/// Counts clicks, up to `most`: those of links from rollups, if all hours of the interval are kept.
pub(super) async fn count(
    connection: &Connection,
    query: &RawQuery,
    most: u64,
) -> Result<u64, EngineError> {
    let query = &kept(connection, query);
    // No click is from the day after tomorrow.
    let end = query.to.min((clock::unix_seconds() / DAY + 2) * DAY);
    if query.from >= end {
        return Ok(0);
    }
    let has_hours = query.from >= since(connection.settings().hours_days)
        && [query.from, end]
            .iter()
            .all(|bound| bound.is_multiple_of(HOUR));
    // Rollups of domains still count clicks that were deleted by link.
    if matches!(query.scope, ClickScope::Links(_)) && !query.orphans && has_hours {
        let summed = AnalyticsQuery {
            scope: query.scope.clone(),
            from: query.from,
            to: end,
            bots: query.bots,
        };
        let sum = counts::count(connection, &summed, Visitors::Ignored).await?;
        return Ok(sum.clicks.min(most));
    }
    let mut clicks: u64 = 0;
    for part in parts(query.from..end) {
        let sql = Sql::new("SELECT sum(clicks) FROM (")
            .sql(rows(query, "clicks", part))
            .text(" LIMIT ")
            .number(most)
            .text(")");
        clicks = connection.one(sql).await?;
        if clicks >= most {
            break;
        }
    }
    Ok(clicks.min(most))
}

fn rows(query: &RawQuery, columns: &str, part: Range<u64>) -> Sql {
    let table = if query.orphans { "orphans" } else { "clicks" };
    let bots = match query.bots {
        Bots::Included => "",
        Bots::Excluded => " AND is_bot = 0",
        Bots::Only => " AND is_bot = 1",
    };
    Sql::new(&format!("SELECT {columns} FROM {table} WHERE "))
        .scope(&query.scope)
        .text(" AND ")
        .within("at", &part)
        .text(bots)
}
