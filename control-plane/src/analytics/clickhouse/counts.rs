//! Counts, series and breakdowns.
//!
//! Whole days (UTC) that are added up are read from the tables of days, and what is left of the interval from those of hours; series
//! by the minute from those of minutes; by the values among the clicks of single links, from the clicks themselves.

use super::super::engine::{
    AnalyticsQuery, Breakdown, EngineError, Numbers, Scope, Slot, Visitors,
};
use super::super::interval::nearest_day;
use super::super::model::{Attribute, Bots, OTHER};
use super::connection::Connection;
use super::schema::{Dialect, value_of};
use super::sql::Sql;
use crate::clock;
use std::collections::HashMap;
use std::ops::Range;

const HOUR: u64 = 3_600;

const DAY: u64 = 86_400;

/// How an interval is read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spans {
    /// Days that are read as a whole.
    days: Range<u64>,
    /// The seconds before and behind them, at hours, or at minutes.
    hours: [Range<u64>; 2],
    /// What the rows of these seconds are of.
    unit: &'static str,
}

impl Spans {
    /// Whole days as such, before the day `until`. What is not known more closely than by the day any more, before the second
    /// `since`, begins and ends with the nearest day.
    fn of(Range { start, end }: Range<u64>, until: u64, since: u64) -> Self {
        let [from, to] = [start, end].map(|second| nearest_day(second, since));
        Self::with_days(from, to, from.div_ceil(DAY)..(to / DAY).min(until))
    }

    fn with_days(from: u64, to: u64, days: Range<u64>) -> Self {
        if days.is_empty() {
            return Self {
                days: 0..0,
                hours: [from..to, to..to],
                unit: "hour",
            };
        }
        Self {
            hours: [from..days.start * DAY, days.end * DAY..to],
            days,
            unit: "hour",
        }
    }

    /// All of it by minutes.
    fn of_minutes(interval: Range<u64>) -> Self {
        Self {
            unit: "minute",
            ..Self::with_days(interval.start, interval.end, 0..0)
        }
    }

    /// What the tables of a kind (`link`, `domain`, `value`) have in the interval, with these columns behind `slot`,
    /// the second in which day or hour begin.
    fn rows(&self, kind: &str, columns: &str, condition: &Sql) -> Sql {
        let Self {
            days,
            hours: [before, behind],
            unit,
        } = self;
        let of_days = Sql::new("SELECT toUInt64(toUInt32(day)) * 86400 AS slot, ")
            .text(columns)
            .text(&format!(" FROM {kind}_days WHERE "))
            .sql(condition.clone())
            .text(" AND day >= toDate(")
            .number(days.start)
            .text(") AND day < toDate(")
            .number(days.end)
            .text(")");
        let of_hours = Sql::new(&format!("SELECT toUInt64(toUInt32({unit})) AS slot, "))
            .text(columns)
            .text(&format!(" FROM {kind}_{unit}s WHERE "))
            .sql(condition.clone())
            .text(" AND ((")
            .within(unit, before)
            .text(") OR (")
            .within(unit, behind)
            .text("))");
        Sql::new("(")
            .sql(of_days)
            .text(" UNION ALL ")
            .sql(of_hours)
            .text(")")
    }
}

/// Links beyond those asked for that are looked at: of as many with equally many clicks, the first by name are chosen.
const TIED_LINKS: usize = 1_000;

/// From when on something is known that is kept for so many days.
fn since(days: u64) -> u64 {
    let today = clock::unix_seconds() / DAY;
    (today + 1).saturating_sub(days) * DAY
}

/// How an interval is read from tables of minutes, of hours and of days. With `slots` days are read by the hour where one of them begins
/// within.
async fn spans(
    connection: &Connection,
    query: &AnalyticsQuery,
    slots: &[u64],
) -> Result<Spans, EngineError> {
    let (_, dialect) = connection.ready().await?;
    let mut bounds = slots.iter().chain([&query.from, &query.to]);
    if !bounds.all(|bound| bound.is_multiple_of(HOUR)) {
        return Ok(Spans::of_minutes(query.from..query.to));
    }
    let since = since(connection.settings().hours_days);
    let mut until = match dialect {
        Dialect::Modern => u64::MAX,
        Dialect::Classic => connection.built_until().await?,
    };
    if slots.iter().skip(1).any(|slot| !slot.is_multiple_of(DAY)) {
        until = until.min(since / DAY);
    }
    Ok(Spans::of(query.from..query.to, until, since))
}

/// The clicks that count, of columns `clicks` and `bots`.
fn counting(bots: Bots) -> &'static str {
    match bots {
        Bots::Included => "sum(clicks)",
        Bots::Excluded => "toUInt64(sum(clicks) - sum(bots))",
        Bots::Only => "sum(bots)",
    }
}

/// Sums and visitors by the slot, for a query and its spans: columns `slot`, `clicks`, `bots`, `visitors` (a sketch).
fn by_slot(query: &AnalyticsQuery, spans: &Spans) -> Sql {
    let kind = match &query.scope {
        Scope::Links(_) => "link",
        Scope::Tenant(_) | Scope::Domain { .. } => "domain",
    };
    let condition = Sql::default().scope(&query.scope);
    spans.rows(kind, "clicks, bots, visitors", &condition)
}

/// How many clicks there were.
pub(super) async fn count(
    connection: &Connection,
    query: &AnalyticsQuery,
) -> Result<Numbers, EngineError> {
    let count = counting(query.bots);
    let spans = spans(connection, query, &[]).await?;
    let sql = Sql::new("SELECT sum(counted), sum(seen) FROM (")
        .text(&format!(
            "SELECT intDiv(slot, {DAY}) AS date, {count} AS counted, "
        ))
        .text("uniqCombinedMerge(14)(visitors) AS seen FROM ")
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

/// The clicks of each part of the interval.
pub(super) async fn series(
    connection: &Connection,
    query: &AnalyticsQuery,
    slots: &[u64],
    visitors: Visitors,
) -> Result<Vec<Slot>, EngineError> {
    let count = counting(query.bots);
    let spans = spans(connection, query, slots).await?;
    let sketches = match visitors {
        Visitors::Counted => ", uniqCombinedMergeState(14)(visitors) AS sketch",
        Visitors::Ignored => "",
    };
    let seen = match visitors {
        Visitors::Counted => "uniqCombinedMerge(14)(sketch)",
        Visitors::Ignored => "toUInt64(0)",
    };
    let sql = Sql::new("SELECT part, sum(counted), sum(seen) FROM (")
        .text("SELECT toUInt64(arrayCount(begin -> begin <= slot, ")
        .numbers(slots)
        .text(&format!(
            ")) AS part, intDiv(slot, {DAY}) AS date, sum(counts) AS counted, {seen} AS seen FROM ("
        ))
        .text(&format!("SELECT slot, {count} AS counts{sketches} FROM "))
        .sql(by_slot(query, &spans))
        .text(" GROUP BY slot) GROUP BY part, date) GROUP BY part");
    let found: Vec<(u64, u64, u64)> = connection.all(sql).await?;
    let mut series: Vec<Slot> = slots
        .iter()
        .map(|from| Slot {
            from: *from,
            numbers: Numbers::default(),
        })
        .collect();
    for (part, clicks, visitors) in found {
        // What began before the first slot belongs to it.
        let place = usize::try_from(part).unwrap_or(0).saturating_sub(1);
        if let Some(slot) = series.get_mut(place) {
            slot.numbers.clicks += clicks;
            slot.numbers.visitors += numbers(query, 0, visitors).visitors;
        }
    }
    Ok(series)
}

/// Clicks by the values of an attribute.
pub(super) async fn breakdown(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) -> Result<Breakdown, EngineError> {
    match (&query.scope, by) {
        (Scope::Links(links), _) => of_links(connection, query, links, by, limit).await,
        (_, Attribute::Link) => by_link(connection, query, limit).await,
        _ => of_domains(connection, query, by, limit).await,
    }
}

/// By the rows of each link of a tenant or domain, of which only those with most clicks are given names.
async fn by_link(
    connection: &Connection,
    query: &AnalyticsQuery,
    limit: usize,
) -> Result<Breakdown, EngineError> {
    let spans = spans(connection, query, &[]).await?;
    let condition = Sql::default().scope(&query.scope);
    let rows = spans.rows("link", "link_id, clicks, bots", &condition);
    let top = top(query.bots, "link_id", rows, limit + TIED_LINKS);
    let all = sum(query.bots, by_slot(query, &spans));
    let (top, all): (Vec<(u64, u64)>, u64) =
        tokio::try_join!(connection.all(top), connection.one(all))?;
    let ids: Vec<u64> = top.iter().map(|(link, _)| *link).collect();
    let condition = condition.text(" AND ").links(&ids);
    let names = Sql::new("SELECT link_id, argMax(key, slot) FROM ")
        .sql(spans.rows("link", "link_id, key", &condition))
        .text(" GROUP BY link_id");
    let names: Vec<(u64, String)> = connection.all(names).await?;
    let mut names: HashMap<u64, String> = names.into_iter().collect();
    let named = |(link, clicks)| Some((names.remove(&link)?, clicks));
    let top: Breakdown = top.into_iter().filter_map(named).collect();
    let with: u64 = top.iter().map(|(_, clicks)| clicks).sum();
    Ok(first(top, all.max(with), limit))
}

/// By the rows of each value.
async fn of_domains(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) -> Result<Breakdown, EngineError> {
    let spans = spans(connection, query, &[]).await?;
    let condition = Sql::new("attribute = ")
        .number(by as u8)
        .text(" AND ")
        .scope(&query.scope);
    let values = spans.rows("value", "value, clicks, bots", &condition);
    let clicks = by_slot(query, &spans);
    complete(connection, (query.bots, by, limit), values, clicks).await
}

/// By what the rows of links say, by the values of days, and for what is left by the clicks themselves.
async fn of_links(
    connection: &Connection,
    query: &AnalyticsQuery,
    links: &[u64],
    by: Attribute,
    limit: usize,
) -> Result<Breakdown, EngineError> {
    let all = spans(connection, query, &[]).await?;
    let clicks = by_slot(query, &all);
    let condition = Sql::default().known_links(links);
    let value = format!("toString({}) AS value", value_of(by));
    let values = if matches!(by, Attribute::Link | Attribute::Domain) {
        all.rows("link", &format!("{value}, clicks, bots"), &condition)
    } else {
        let since = since(connection.settings().raw_days);
        let until = connection.built_until().await?;
        let Spans { days, hours, .. } = Spans::of(query.from..query.to, until, since);
        let of_days =
            Sql::new("(SELECT value, clicks, bots FROM link_value_days WHERE attribute = ")
                .number(by as u8)
                .text(" AND ")
                .sql(condition.clone())
                .text(" AND day >= toDate(")
                .number(days.start)
                .text(") AND day < toDate(")
                .number(days.end)
                .text(") UNION ALL ");
        let [before, behind] = &hours;
        let with = match by {
            Attribute::Tag => "",
            _ => " WHERE value != ''",
        };
        of_days
            .text(&format!(
                "SELECT value, clicks, bots FROM (SELECT {value}, clicks, bots FROM clicks WHERE "
            ))
            .sql(condition)
            .text(" AND ((")
            .within("at", before)
            .text(") OR (")
            .within("at", behind)
            .text(&format!("))){with})"))
    };
    complete(connection, (query.bots, by, limit), values, clicks).await
}

/// The values with most clicks. Those without a value are as many as the others leave over of all clicks; but tags, of which a click has
/// several, have them all.
async fn complete(
    connection: &Connection,
    (bots, by, limit): (Bots, Attribute, usize),
    values: Sql,
    clicks: Sql,
) -> Result<Breakdown, EngineError> {
    let top = top(bots, "value", values.clone(), limit);
    let sums = sum(bots, values);
    if by == Attribute::Tag {
        let (top, all) = tokio::try_join!(connection.all(top), connection.one(sums))?;
        return Ok(first(top, all, limit));
    }
    let (mut top, with, all): (Breakdown, u64, u64) = tokio::try_join!(
        connection.all(top),
        connection.one(sums),
        connection.one(sum(bots, clicks))
    )?;
    let without = all.saturating_sub(with);
    if without > 0 {
        top.push((String::new(), without));
    }
    Ok(first(top, all.max(with), limit))
}

/// All clicks of the rows.
fn sum(bots: Bots, rows: Sql) -> Sql {
    Sql::new(&format!("SELECT {} FROM ", counting(bots))).sql(rows)
}

/// The values with the most clicks.
fn top(bots: Bots, value: &str, rows: Sql, limit: usize) -> Sql {
    Sql::new(&format!(
        "SELECT {value}, {} AS counted FROM ",
        counting(bots)
    ))
    .sql(rows)
    .text(&format!(
        " GROUP BY {value} HAVING counted > 0 ORDER BY counted DESC, {value} LIMIT "
    ))
    .number(limit as u64)
}

/// The first `limit` of the values, and what all others leave over.
fn first(mut values: Breakdown, all: u64, limit: usize) -> Breakdown {
    values.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
    values.truncate(limit);
    let shown: u64 = values.iter().map(|(_, clicks)| clicks).sum();
    if all > shown {
        values.push((OTHER.to_owned(), all - shown));
    }
    values
}
