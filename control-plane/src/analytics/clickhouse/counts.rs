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
    days: Vec<Range<u64>>,
    /// The seconds before, between and behind them, at hours, or at minutes.
    hours: Vec<Range<u64>>,
    /// What the rows of these seconds are of.
    unit: &'static str,
}

impl Spans {
    /// Whole days as such, before the day `until`, but for the days `split` (ascending). What is not known more closely than by the
    /// day any more, before the second `since`, begins and ends with the nearest day.
    fn of(Range { start, end }: Range<u64>, until: u64, since: u64, split: &[u64]) -> Self {
        let [from, to] = [start, end].map(|second| nearest_day(second, since));
        let whole = from.div_ceil(DAY)..(to / DAY).min(until);
        let (mut days, mut hours) = (Vec::new(), Vec::new());
        let (mut hours_from, mut days_from) = (from, whole.start);
        let split = split.iter().copied().filter(|day| whole.contains(day));
        for day in split.chain([whole.end]) {
            if days_from < day {
                hours.push(hours_from..days_from * DAY);
                days.push(days_from..day);
                hours_from = day * DAY;
            }
            days_from = day + 1;
        }
        hours.push(hours_from..to);
        hours.retain(|range| !range.is_empty());
        Self {
            days,
            hours,
            unit: "hour",
        }
    }

    /// All of it by minutes.
    fn of_minutes(interval: Range<u64>) -> Self {
        Self {
            days: Vec::new(),
            hours: vec![interval],
            unit: "minute",
        }
    }

    /// What the tables of a kind (`link`, `domain`, `value`) have in the interval, with these columns behind `slot`,
    /// the second in which day or hour begin.
    fn rows(&self, kind: &str, columns: &str, condition: &Sql) -> Sql {
        let Self { days, hours, unit } = self;
        let of_days = Sql::new("SELECT toUInt64(toUInt32(day)) * 86400 AS slot, ")
            .text(columns)
            .text(&format!(" FROM {kind}_days WHERE "))
            .sql(condition.clone())
            .text(" AND ")
            .on_days("day", days);
        let of_hours = Sql::new(&format!("SELECT toUInt64(toUInt32({unit})) AS slot, "))
            .text(columns)
            .text(&format!(" FROM {kind}_{unit}s WHERE "))
            .sql(condition.clone())
            .text(" AND ")
            .within_any(unit, hours);
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

/// How an interval is read from tables of minutes, of hours and of days. Those days are read by the hour within which one of the
/// `slots` begins.
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
    let until = match dialect {
        Dialect::Modern => u64::MAX,
        Dialect::Classic => connection.built_until().await?,
    };
    let is_within = |slot: &&u64| **slot >= since && !slot.is_multiple_of(DAY);
    let split = slots.iter().skip(1).filter(is_within);
    let mut split: Vec<u64> = split.map(|slot| slot / DAY).collect();
    split.dedup();
    Ok(Spans::of(query.from..query.to, until, since, &split))
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

/// Part of an interval, clicks and visitors.
type OfPart = (u64, u64, u64);

/// The clicks of the interval and of each part of it. Visitors are counted by the day: of a day within which a part begins the
/// sketches of its parts are merged.
pub(super) async fn series(
    connection: &Connection,
    query: &AnalyticsQuery,
    slots: &[u64],
    visitors: Visitors,
) -> Result<(Numbers, Vec<Slot>), EngineError> {
    let count = counting(query.bots);
    let spans = spans(connection, query, slots).await?;
    let [of_slot, of_part, seen, of_date] = match visitors {
        Visitors::Counted => [
            ", uniqCombinedMergeState(14)(visitors) AS sketch",
            ", uniqCombinedMergeState(14)(sketch) AS merged",
            "finalizeAggregation(merged)",
            "uniqCombinedMerge(14)(merged)",
        ],
        Visitors::Ignored => ["", "", "toUInt64(0)", "toUInt64(0)"],
    };
    let sql = Sql::new(&format!(
        "SELECT groupArray((part, counted, {seen})), {of_date} FROM ("
    ))
    .text("SELECT toUInt64(arrayCount(begin -> begin <= slot, ")
    .numbers(slots)
    .text(&format!(
        ")) AS part, intDiv(slot, {DAY}) AS date, sum(counts) AS counted{of_part} FROM ("
    ))
    .text(&format!("SELECT slot, {count} AS counts{of_slot} FROM "))
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
            // What began before the first slot belongs to it.
            let place = usize::try_from(part).unwrap_or(0).saturating_sub(1);
            if let Some(slot) = series.get_mut(place) {
                slot.numbers.clicks += clicks;
                slot.numbers.visitors += numbers(query, 0, seen).visitors;
            }
        }
    }
    Ok((all, series))
}

/// Clicks by the values of an attribute, and how many there were.
pub(super) async fn count_and_breakdown(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) -> Result<(Numbers, Breakdown), EngineError> {
    // The number comes first: clicks that come in meanwhile would seem to have no value.
    let numbers = count(connection, query).await?;
    let mut found = breakdown(connection, query, by, limit).await?;
    // Clicks without a value are as many as the others leave over; but tags, of which a click has several, have a row without.
    let without = numbers.clicks.saturating_sub(found.clicks);
    if by != Attribute::Tag {
        found.clicks += without;
        if by != Attribute::Link && without > 0 {
            found.values.push((String::new(), without));
        }
    }
    Ok((numbers, found.first(limit)))
}

/// Clicks by the values of an attribute; those that have none are left out.
async fn breakdown(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) -> Result<Top, EngineError> {
    let values = match (&query.scope, by) {
        (Scope::Links(links), _) => of_links(connection, query, links, by).await?,
        (_, Attribute::Link) => return by_link(connection, query, limit).await,
        _ => of_domains(connection, query, by).await?,
    };
    top(connection, query.bots, values, limit).await
}

/// The values with the most clicks, and the clicks of all values.
#[derive(Debug, Default)]
struct Top {
    values: Breakdown,
    clicks: u64,
}

impl Top {
    /// The first `limit` of the values, and what all others leave over.
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

/// By the rows of each link of a tenant or domain, of which only those with most clicks are given names.
async fn by_link(
    connection: &Connection,
    query: &AnalyticsQuery,
    limit: usize,
) -> Result<Top, EngineError> {
    let spans = spans(connection, query, &[]).await?;
    let condition = Sql::default().scope(&query.scope);
    let count = counting(query.bots);
    let top = Sql::new(&format!("SELECT link_id, {count} AS counted FROM "))
        .sql(spans.rows("link", "link_id, clicks, bots", &condition))
        .text(" GROUP BY link_id HAVING counted > 0 ORDER BY counted DESC, link_id LIMIT ")
        .number((limit + TIED_LINKS) as u64);
    let top: Vec<(u64, u64)> = connection.all(top).await?;
    let ids: Vec<u64> = top.iter().map(|(link, _)| *link).collect();
    let condition = condition.text(" AND ").links(&ids);
    let names = Sql::new("SELECT link_id, argMax(key, slot) FROM ")
        .sql(spans.rows("link", "link_id, key", &condition))
        .text(" GROUP BY link_id");
    let names: Vec<(u64, String)> = connection.all(names).await?;
    let mut names: HashMap<u64, String> = names.into_iter().collect();
    let named = |(link, clicks)| Some((names.remove(&link)?, clicks));
    let values: Breakdown = top.into_iter().filter_map(named).collect();
    let clicks = values.iter().map(|(_, clicks)| clicks).sum();
    Ok(Top { values, clicks })
}

/// The rows of each value among the clicks of a domain: columns `value`, `clicks` and `bots`.
async fn of_domains(
    connection: &Connection,
    query: &AnalyticsQuery,
    by: Attribute,
) -> Result<Sql, EngineError> {
    let spans = spans(connection, query, &[]).await?;
    let condition = Sql::new("attribute = ")
        .number(by as u8)
        .text(" AND ")
        .scope(&query.scope);
    Ok(spans.rows("value", "value, clicks, bots", &condition))
}

/// The same among the clicks of links: by what the rows of links say, by the values of days, and for what is left by the clicks
/// themselves.
async fn of_links(
    connection: &Connection,
    query: &AnalyticsQuery,
    links: &[u64],
    by: Attribute,
) -> Result<Sql, EngineError> {
    let condition = Sql::default().known_links(links);
    if matches!(by, Attribute::Link | Attribute::Domain) {
        let spans = spans(connection, query, &[]).await?;
        let columns = format!("toString({}) AS value, clicks, bots", value_of(by));
        return Ok(spans.rows("link", &columns, &condition));
    }
    let since = since(connection.settings().raw_days);
    let until = connection.built_until().await?;
    let Spans { days, hours, .. } = Spans::of(query.from..query.to, until, since, &[]);
    let with = match by {
        Attribute::Tag => "",
        _ => " WHERE value != ''",
    };
    let of_days = Sql::new("(SELECT value, clicks, bots FROM link_value_days WHERE attribute = ")
        .number(by as u8)
        .text(" AND ")
        .sql(condition.clone())
        .text(" AND ")
        .on_days("day", &days);
    // Equal values are added up before they become texts, which takes half of the time.
    Ok(of_days
        .text(" UNION ALL SELECT value, clicks, bots FROM (SELECT toString(kept) AS value, clicks, bots FROM (SELECT ")
        .text(value_of(by))
        .text(" AS kept, sum(clicks) AS clicks, sum(bots) AS bots FROM clicks WHERE ")
        .sql(condition)
        .text(" AND ")
        .within_any("at", &hours)
        .text(&format!(" GROUP BY kept)){with})")))
}

/// The values with the most clicks of rows with the columns `value`, `clicks` and `bots`, which are read once.
async fn top(
    connection: &Connection,
    bots: Bots,
    rows: Sql,
    limit: usize,
) -> Result<Top, EngineError> {
    let count = counting(bots);
    let most = "arraySort(one -> (-toInt64(one.2), one.1), groupArray((value, counted)))";
    let sql = Sql::new(&format!("SELECT arraySlice({most}, 1, "))
        .number(limit as u64)
        .text(&format!(
            "), sum(counted) FROM (SELECT value, {count} AS counted FROM "
        ))
        .sql(rows)
        .text(" GROUP BY value HAVING counted > 0)");
    let (values, clicks) = connection.one(sql).await?;
    Ok(Top { values, clicks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::single_range_in_vec_init,
        reason = "a list of ranges that happens to have one"
    )]
    fn days_are_read_as_a_whole_but_for_those_that_are_split() {
        let check = |interval: Range<u64>,
                     until: u64,
                     split: &[u64],
                     days: &[Range<u64>],
                     hours: &[Range<u64>]| {
            let spans = Spans::of(interval.clone(), until, 0, split);
            let of_hours = hours
                .iter()
                .map(|Range { start, end }| start * HOUR..end * HOUR);
            assert_eq!(spans.days, days, "{interval:?}");
            assert_eq!(spans.hours, of_hours.collect::<Vec<_>>(), "{interval:?}");
        };
        let hour = |day: u64, hour: u64| day * DAY + hour * HOUR;
        check(hour(2, 0)..hour(5, 0), 99, &[], &[2..5], &[]);
        check(
            hour(2, 7)..hour(5, 3),
            99,
            &[],
            &[3..5],
            &[55..72, 120..123],
        );
        check(hour(2, 7)..hour(2, 9), 99, &[], &[], &[55..57]);
        check(hour(2, 0)..hour(5, 0), 4, &[], &[2..4], &[96..120]);
        check(hour(2, 0)..hour(5, 0), 1, &[], &[], &[48..120]);
        check(hour(2, 0)..hour(6, 0), 99, &[3], &[2..3, 4..6], &[72..96]);
        let split = [1, 2, 3, 5];
        check(
            hour(2, 0)..hour(6, 0),
            99,
            &split,
            &[4..5],
            &[48..96, 120..144],
        );
        check(hour(2, 1)..hour(4, 1), 99, &[3], &[], &[49..97]);
    }
}
