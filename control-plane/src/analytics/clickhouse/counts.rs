//! Counts, series and breakdowns.
//!
//! Whole days (UTC) are read from the tables of days, and what is left of the interval from those of hours. The
//! clicks of single links are few enough to be broken down one by one, as far back as they are kept.

use super::super::engine::{
    AnalyticsQuery, Breakdown, EngineError, Numbers, Scope, Slot, Visitors,
};
use super::super::model::{Attribute, Bots, OTHER};
use super::connection::Connection;
use super::schema::value_of;
use super::sql::Sql;
use crate::clock;
use std::ops::Range;

const DAY: u64 = 86_400;

/// How an interval is read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spans {
    /// Days that are read as a whole.
    days: Range<u64>,
    /// The seconds before and behind them, at hours.
    hours: [Range<u64>; 2],
}

impl Spans {
    /// All whole days as such.
    fn of(from: u64, to: u64) -> Self {
        Self::with_days(from, to, from.div_ceil(DAY)..to / DAY)
    }

    /// Whole days only where hours are not kept any more.
    fn by_hours(from: u64, to: u64, hours_since: u64) -> Self {
        let until = (to / DAY).min(hours_since / DAY);
        Self::with_days(from, to, from.div_ceil(DAY)..until)
    }

    fn with_days(from: u64, to: u64, days: Range<u64>) -> Self {
        if days.is_empty() {
            return Self {
                days: 0..0,
                hours: [from..to, to..to],
            };
        }
        Self {
            hours: [from..days.start * DAY, days.end * DAY..to],
            days,
        }
    }

    /// What the tables of a kind (`link`, `domain`, `value`) have in the interval, with these columns behind `slot`,
    /// the second in which day or hour begin.
    fn rows(&self, kind: &str, columns: &str, condition: &Sql) -> Sql {
        let [before, behind] = &self.hours;
        let days = Sql::new("SELECT toUInt64(toUInt32(day)) * 86400 AS slot, ")
            .text(columns)
            .text(&format!(" FROM {kind}_days WHERE "))
            .sql(condition.clone())
            .text(" AND day >= toDate(")
            .number(self.days.start)
            .text(") AND day < toDate(")
            .number(self.days.end)
            .text(")");
        let hours = Sql::new("SELECT toUInt64(toUInt32(hour)) AS slot, ")
            .text(columns)
            .text(&format!(" FROM {kind}_hours WHERE "))
            .sql(condition.clone())
            .text(" AND ((")
            .within("hour", before)
            .text(") OR (")
            .within("hour", behind)
            .text("))");
        Sql::new("(")
            .sql(days)
            .text(" UNION ALL ")
            .sql(hours)
            .text(")")
    }
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
    let spans = Spans::of(query.from, query.to);
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
    let at_days = slots.iter().skip(1).all(|slot| slot.is_multiple_of(DAY));
    let kept = connection.settings().hours_days * DAY;
    let hours_since = (clock::unix_millis() / 1000).saturating_sub(kept);
    let spans = match at_days {
        true => Spans::of(query.from, query.to),
        false => Spans::by_hours(query.from, query.to, hours_since),
    };
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
    match &query.scope {
        Scope::Links(links) => of_links(connection, query, links, by, limit).await,
        Scope::Tenant(_) | Scope::Domain { .. } => of_domains(connection, query, by, limit).await,
    }
}

/// By the rows of each value. Those without one are as many as the others leave over.
async fn of_domains(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) -> Result<Breakdown, EngineError> {
    let spans = Spans::of(query.from, query.to);
    let condition = Sql::new("attribute = ")
        .number(by as u8)
        .text(" AND ")
        .scope(&query.scope);
    let values = spans.rows("value", "value, clicks, bots", &condition);
    let count = counting(query.bots);
    let sum = Sql::new(&format!("SELECT {count} FROM ")).sql(values.clone());
    let top = top(query.bots, "value", values, limit);
    if by == Attribute::Tag {
        let (top, all) = tokio::try_join!(connection.all(top), connection.one(sum))?;
        return Ok(complete(top, all, limit));
    }
    let clicks = Sql::new(&format!("SELECT {count} FROM ")).sql(by_slot(query, &spans));
    let (mut top, with, all): (Breakdown, u64, u64) = tokio::try_join!(
        connection.all(top),
        connection.one(sum),
        connection.one(clicks)
    )?;
    let without = all.saturating_sub(with);
    if without > 0 {
        top.push((String::new(), without));
    }
    Ok(complete(top, all.max(with), limit))
}

/// By the clicks themselves.
async fn of_links(
    connection: &Connection,
    query: &AnalyticsQuery,
    links: &[u64],
    by: Attribute,
    limit: usize,
) -> Result<Breakdown, EngineError> {
    let rows = |columns: &str| {
        Sql::new(&format!("(SELECT {columns} FROM clicks WHERE "))
            .known_links(links)
            .text(" AND ")
            .within("at", &(query.from..query.to))
            .text(")")
    };
    let with_value = format!("toString({}) AS value, clicks, bots", value_of(by));
    let top = top(query.bots, "value", rows(&with_value), limit);
    // Each tag of a click counts.
    let summed = match by {
        Attribute::Tag => rows(&with_value),
        _ => rows("clicks, bots"),
    };
    let sum = Sql::new(&format!("SELECT {} FROM ", counting(query.bots))).sql(summed);
    let (top, all) = tokio::try_join!(connection.all(top), connection.one(sum))?;
    Ok(complete(top, all, limit))
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
fn complete(mut values: Breakdown, all: u64, limit: usize) -> Breakdown {
    values.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
    values.truncate(limit);
    let shown: u64 = values.iter().map(|(_, clicks)| clicks).sum();
    if all > shown {
        values.push((OTHER.to_owned(), all - shown));
    }
    values
}
