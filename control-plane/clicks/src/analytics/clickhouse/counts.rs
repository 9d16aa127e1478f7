//! Counts, series and breakdowns, from the tables that [`super::spans`] selects; values among the clicks of links from the clicks
//! themselves on days that are not rolled up.

use super::super::engine::{AnalyticsQuery, Breakdown, EngineError, Numbers, Slot, Visitors};
use super::connection::Connection;
use super::schema::value_of;
use super::spans::{Spans, TableFamily, spans, spans_of_values};
use super::sql::Sql;
use edgelink_model::counts::ClickScope;
use edgelink_model::counts::{Attribute, Bots, OTHER};
use std::collections::HashMap;

const DAY: u64 = 86_400;

/// Links that are read beyond those asked for: among links with equally many clicks, the first by name are chosen.
const TIED_LINKS: usize = 1_000;

/// Expression of the clicks that count, from the columns `clicks` and `bots`.
fn counting(bots: Bots) -> &'static str {
    match bots {
        Bots::Included => "sum(clicks)",
        Bots::Excluded => "toUInt64(sum(clicks) - sum(bots))",
        Bots::Only => "sum(bots)",
    }
}

/// The tables that have sums and visitors of a scope.
fn kind(scope: &ClickScope) -> TableFamily {
    match scope {
        ClickScope::Links(_) => TableFamily::Link,
        ClickScope::Tenant(_) | ClickScope::Domain { .. } => TableFamily::Domain,
    }
}

/// Sums and visitors by the slot, for a query and its spans: columns `slot`, `clicks`, `bots`, `visitors` (a sketch).
fn by_slot(query: &AnalyticsQuery, spans: &Spans) -> Sql {
    let condition = Sql::default().scope(&query.scope);
    spans.rows("clicks, bots, visitors", &condition)
}

/// Counts clicks and visitors.
pub(super) async fn count(
    connection: &Connection,
    query: &AnalyticsQuery,
    visitors: Visitors,
) -> Result<Numbers, EngineError> {
    let count = counting(query.bots);
    let seen = match visitors {
        Visitors::Counted => "uniqCombinedMerge(14)(visitors)",
        Visitors::Ignored => "toUInt64(0)",
    };
    let spans = spans(connection, query, kind(&query.scope), &[]).await?;
    let sql = Sql::new(&format!(
        "SELECT sum(counted), sum(seen) FROM (SELECT intDiv(slot, {DAY}) AS date, {count} AS counted, {seen} AS seen FROM "
    ))
    .sql(by_slot(query, &spans))
    .text(" GROUP BY date)");
    let (clicks, visitors) = connection.one(sql).await?;
    Ok(numbers(query, clicks, visitors))
}

fn numbers(query: &AnalyticsQuery, clicks: u64, visitors: u64) -> Numbers {
    let visitors = if query.bots == Bots::Only {
        0
    } else {
        visitors
    };
    Numbers { clicks, visitors }
}

/// Number of the slot, clicks and visitors.
type OfPart = (u64, u64, u64);

/// Counts the clicks of the interval and of each slot. Visitors are counted by day: if a slot begins within a day, the sketches of
/// that day's parts are merged.
pub(super) async fn series(
    connection: &Connection,
    query: &AnalyticsQuery,
    slots: &[u64],
) -> Result<(Numbers, Vec<Slot>), EngineError> {
    let count = counting(query.bots);
    let spans = spans(connection, query, kind(&query.scope), slots).await?;
    let sql = Sql::new(
        "SELECT groupArray((part, counted, finalizeAggregation(merged))), uniqCombinedMerge(14)(merged) FROM (",
    )
    .text("SELECT toUInt64(arrayCount(begin -> begin <= slot, ")
    .numbers(slots)
    .text(&format!(
        ")) AS part, intDiv(slot, {DAY}) AS date, sum(counts) AS counted, \
         uniqCombinedMergeState(14)(sketch) AS merged FROM ("
    ))
    .text(&format!(
        "SELECT slot, {count} AS counts, uniqCombinedMergeState(14)(visitors) AS sketch FROM "
    ))
    .sql(by_slot(query, &spans))
    .text(" GROUP BY slot) GROUP BY part, date) GROUP BY date");
    let dates: Vec<(Vec<OfPart>, u64)> = connection.all(sql).await?;
    let mut all = Numbers::default();
    let mut series: Vec<Slot> = slots
        .iter()
        .map(|from| Slot {
            from: *from,
            numbers: Numbers::default(),
        })
        .collect();
    for (parts, seen) in dates {
        all.visitors += numbers(query, 0, seen).visitors;
        for (part, clicks, seen) in parts {
            all.clicks += clicks;
            // Rows that begin before the first slot belong to it.
            let place = usize::try_from(part).unwrap_or(0).saturating_sub(1);
            if let Some(slot) = series.get_mut(place) {
                slot.numbers.clicks += clicks;
                slot.numbers.visitors += numbers(query, 0, seen).visitors;
            }
        }
    }
    Ok((all, series))
}

/// Counts clicks, in total and by the values of an attribute.
pub(super) async fn breakdown(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) -> Result<(u64, Breakdown), EngineError> {
    let (clicks, mut found) = values(connection, query, by, limit).await?;
    if by == Attribute::Tag {
        return Ok((clicks, found.first(limit)));
    }
    // Clicks without a value are the remainder. Tags, of which a click may have several, have a row for it.
    let without = clicks.saturating_sub(found.clicks);
    found.clicks += without;
    if by != Attribute::Link && without > 0 {
        found.values.push((String::new(), without));
    }
    Ok((found.clicks, found.first(limit)))
}

/// Counts clicks in total, and by the values of an attribute without those that have none. The total is read first: otherwise
/// clicks that arrive in between would seem to have no value.
async fn values(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) -> Result<(u64, Top), EngineError> {
    let is_of_all = matches!(by, Attribute::Link | Attribute::Domain);
    let rows = match &query.scope {
        ClickScope::Links(links) if is_of_all => {
            // Every click has a value, so these rows give the total as well.
            let rows = of_links(connection, query, links, by).await?;
            let found: OfTop = connection.one(top(query.bots, rows, limit)).await?;
            return Ok((found.1, found.into()));
        }
        ClickScope::Links(links) => of_links(connection, query, links, by).await?,
        _ if by == Attribute::Link => {
            let numbers = count(connection, query, Visitors::Ignored).await?;
            return Ok((numbers.clicks, by_link(connection, query, limit).await?));
        }
        _ => of_domains(connection, query, by).await?,
    };
    let spans = spans(connection, query, kind(&query.scope), &[]).await?;
    let all = spans.rows("clicks, bots", &Sql::default().scope(&query.scope));
    let none = "arraySlice(groupArray(('', toUInt64(0))), 1, 0)";
    let count = counting(query.bots);
    // The server reads both in parallel.
    let sql = Sql::new(&format!(
        "SELECT values, counted FROM (SELECT toUInt8(0) AS place, {none} AS values, {count} AS counted FROM "
    ))
    .sql(all)
    .text(" UNION ALL SELECT toUInt8(1) AS place, values, counted FROM (")
    .sql(top(query.bots, rows, limit))
    .text(")) ORDER BY place");
    let found: Vec<OfTop> = connection.all(sql).await?;
    let [(_, clicks), found] = <[OfTop; 2]>::try_from(found)
        .map_err(|_| EngineError::ClickHouse("other rows than were asked for".to_owned()))?;
    Ok((clicks, found.into()))
}

/// A row of [`top`].
type OfTop = (Breakdown, u64);

/// The values with the most clicks, and the clicks of all values.
#[derive(Debug, Default)]
struct Top {
    values: Breakdown,
    clicks: u64,
}

impl From<OfTop> for Top {
    fn from((values, clicks): OfTop) -> Self {
        Self { values, clicks }
    }
}

impl Top {
    /// The first `limit` values, and the remainder of all others.
    fn first(self, limit: usize) -> Breakdown {
        let Self { mut values, clicks } = self;
        values.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
        values.truncate(limit);
        let shown: u64 = values.iter().map(|(_, clicks)| clicks).sum();
        if clicks > shown {
            values.push((OTHER.to_owned(), clicks - shown));
        }
        values
    }
}

/// Breaks clicks of a tenant or domain down by link; only the links with most clicks are resolved to names.
async fn by_link(
    connection: &Connection,
    query: &AnalyticsQuery,
    limit: usize,
) -> Result<Top, EngineError> {
    let spans = spans(connection, query, TableFamily::Link, &[]).await?;
    let condition = Sql::default().scope(&query.scope);
    let count = counting(query.bots);
    let top = Sql::new(&format!("SELECT link_id, {count} AS counted FROM "))
        .sql(spans.rows("link_id, clicks, bots", &condition))
        .text(" GROUP BY link_id HAVING counted > 0 ORDER BY counted DESC, link_id LIMIT ")
        .number((limit + TIED_LINKS) as u64);
    let mut top: Vec<(u64, u64)> = connection.all(top).await?;
    if let Some((_, least)) = limit.checked_sub(1).and_then(|last| top.get(last).copied()) {
        top.retain(|(_, clicks)| *clicks >= least);
    }
    let ids: Vec<u64> = top.iter().map(|(link, _)| *link).collect();
    let condition = condition.text(" AND ").links(&ids);
    let names = Sql::new("SELECT link_id, argMax(key, slot) FROM ")
        .sql(spans.rows("link_id, key", &condition))
        .text(" GROUP BY link_id");
    let names: Vec<(u64, String)> = connection.all(names).await?;
    let mut names: HashMap<u64, String> = names.into_iter().collect();
    let named = |(link, clicks)| Some((names.remove(&link)?, clicks));
    let values: Breakdown = top.into_iter().filter_map(named).collect();
    let clicks = values.iter().map(|(_, clicks)| clicks).sum();
    Ok(Top { values, clicks })
}

/// Rows by value among the clicks of domains: columns `value`, `clicks` and `bots`.
async fn of_domains(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
) -> Result<Sql, EngineError> {
    let spans = spans(connection, query, TableFamily::Value, &[]).await?;
    let condition = Sql::new("attribute = ")
        .number(by as u8)
        .text(" AND ")
        .scope(&query.scope);
    Ok(spans.rows("value, clicks, bots", &condition))
}

/// Rows by value among the clicks of links: from the rows of links, from rolled-up values, and for the remainder from the clicks
/// themselves.
async fn of_links(
    connection: &Connection,
    query: &AnalyticsQuery,
    links: &[u64],
    by: Attribute,
) -> Result<Sql, EngineError> {
    let condition = Sql::default().known_links(links);
    if matches!(by, Attribute::Link | Attribute::Domain) {
        let spans = spans(connection, query, TableFamily::Link, &[]).await?;
        let columns = format!("toString({}) AS value, clicks, bots", value_of(by));
        return Ok(spans.rows(&columns, &condition));
    }
    let spans = spans_of_values(connection, query).await?;
    let with = match by {
        Attribute::Tag => "",
        _ => " WHERE value != ''",
    };
    let of_attribute = Sql::new("attribute = ")
        .number(by as u8)
        .text(" AND ")
        .sql(condition.clone());
    // Grouping equal values before they become texts halves the time.
    Ok(Sql::new("(")
        .sql(spans.dates("value, clicks, bots", &of_attribute))
        .text(" UNION ALL SELECT toUInt64(0) AS slot, value, clicks, bots FROM (SELECT toString(kept) AS value, clicks, bots FROM (SELECT ")
        .text(value_of(by))
        .text(" AS kept, sum(clicks) AS clicks, sum(bots) AS bots FROM clicks WHERE ")
        .sql(condition)
        .text(" AND ")
        .within_any("at", &spans.hours)
        .text(&format!(" GROUP BY kept)){with})")))
}

/// Selects the values with most clicks from rows with the columns `value`, `clicks` and `bots`, which are read once, and the clicks
/// of all: columns `values` and `counted`.
fn top(bots: Bots, rows: Sql, limit: usize) -> Sql {
    let count = counting(bots);
    let most = "arraySort(one -> (-toInt64(one.2), one.1), groupArray((value, of_value)))";
    Sql::new(&format!("SELECT arraySlice({most}, 1, "))
        .number(limit as u64)
        .text(&format!(
            ") AS values, sum(of_value) AS counted FROM (SELECT value, {count} AS of_value FROM "
        ))
        .sql(rows)
        .text(" GROUP BY value HAVING of_value > 0)")
}
