//! Selection of the tables that answer a query about an interval.
//!
//! Rolled-up whole months (UTC) are read from the tables of months, which exist for links, other whole days from the tables of days, and
//! the remainder from those of hours; an interval that does not begin and end on the hour is read from those of minutes.

use super::super::engine::{AnalyticsQuery, EngineError};
use super::super::interval::{first_of_month, nearest_day};
use super::connection::{Built, Connection};
use super::sql::Sql;
use edgelink_model::clock;
use std::ops::Range;

const HOUR: u64 = 3_600;

const DAY: u64 = 86_400;

/// Family of tables, by the prefix of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableFamily {
    /// Clicks and visitors of links.
    Link,
    /// Clicks by link and attribute value.
    LinkValue,
    /// Clicks and visitors of domains.
    Domain,
    /// Clicks by domain and attribute value.
    Value,
}

impl TableFamily {
    fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::LinkValue => "link_value",
            Self::Domain => "domain",
            Self::Value => "value",
        }
    }

    /// False for domains, which have few rows a day.
    fn has_months(self) -> bool {
        matches!(self, Self::Link | Self::LinkValue)
    }
}

/// Partition of an interval by the tables that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spans {
    kind: TableFamily,
    /// Whole months that are read as such, in days (unix time / 86400).
    months: Vec<Range<u64>>,
    /// Other whole days that are read as such.
    days: Vec<Range<u64>>,
    /// Seconds before, between and after them, aligned to hours or minutes.
    pub(super) hours: Vec<Range<u64>>,
    /// Unit of the rows of these seconds.
    unit: &'static str,
}

impl Spans {
    /// Takes whole days as such, before the day `until`, except the days `split` (ascending). Before the second `since`, where only days
    /// are kept, the bounds are rounded to the nearest day.
    fn of(
        kind: TableFamily,
        Range { start, end }: Range<u64>,
        until: u64,
        since: u64,
        split: &[u64],
    ) -> Self {
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
            kind,
            months: Vec::new(),
            days,
            hours,
            unit: "hour",
        }
    }

    /// Reads all of it by minute.
    fn of_minutes(kind: TableFamily, interval: Range<u64>) -> Self {
        Self {
            kind,
            months: Vec::new(),
            days: Vec::new(),
            hours: vec![interval],
            unit: "minute",
        }
    }

    /// Takes whole months as such, if the kind has them and they are rolled up, except those within which one of the days `begins`
    /// falls.
    fn by_months(mut self, built: &Built, begins: &[u64]) -> Self {
        if !self.kind.has_months() {
            return self;
        }
        let mut days = Vec::new();
        for Range { start, end } in self.days {
            let first_whole = match first_of_month(start) {
                first if first == start => start,
                first => next_month(first),
            };
            let mut days_from = start;
            let mut month = first_whole;
            while next_month(month) <= end.min(built.until) {
                let next = next_month(month);
                let is_split = begins.iter().any(|day| *day > month && *day < next);
                if built.months.contains(&month) && !is_split {
                    days.push(days_from..month);
                    self.months.push(month..next);
                    days_from = next;
                }
                month = next;
            }
            days.push(days_from..end);
        }
        days.retain(|range| !range.is_empty());
        Self { days, ..self }
    }

    /// Query for the rows of months and days in the interval, with these columns after `slot`, the first second of month or day.
    pub(super) fn dates(&self, columns: &str, condition: &Sql) -> Sql {
        let of = |unit: &str, days: &[Range<u64>]| {
            let from = format!("{}_{unit}s", self.kind.name());
            Sql::new(&format!(
                "SELECT toUInt64(toUInt32({unit})) * {DAY} AS slot, {columns} FROM {from} WHERE "
            ))
            .sql(condition.clone())
            .text(" AND ")
            .on_days(unit, days)
        };
        let of_days = of("day", &self.days);
        if self.months.is_empty() {
            of_days
        } else {
            of("month", &self.months).text(" UNION ALL ").sql(of_days)
        }
    }

    /// Query for all rows in the interval, with these columns after `slot`, the first second of month, day, hour or minute.
    pub(super) fn rows(&self, columns: &str, condition: &Sql) -> Sql {
        let (name, unit) = (self.kind.name(), self.unit);
        let of_hours = format!(
            " UNION ALL SELECT toUInt64(toUInt32({unit})) AS slot, {columns} FROM {name}_{unit}s WHERE "
        );
        Sql::new("(")
            .sql(self.dates(columns, condition))
            .text(&of_hours)
            .sql(condition.clone())
            .text(" AND ")
            .within_any(unit, &self.hours)
            .text(")")
    }
}

/// The first day of the next month, by that of the current one.
fn next_month(first: u64) -> u64 {
    const LONGEST: u64 = 31;
    first_of_month(first + LONGEST)
}

/// The first second that is still kept under a retention of so many days.
pub(super) fn since(days: u64) -> u64 {
    let today = clock::unix_seconds() / DAY;
    (today + 1).saturating_sub(days) * DAY
}

/// Partitions an interval into minutes, hours, days and months. Days and months within which one of the `slots` begins are read from
/// the next finer table.
pub(super) async fn spans(
    connection: &Connection,
    query: &AnalyticsQuery,
    kind: TableFamily,
    slots: &[u64],
) -> Result<Spans, EngineError> {
    let mut bounds = slots.iter().chain([&query.from, &query.to]);
    if !bounds.all(|bound| bound.is_multiple_of(HOUR)) {
        return Ok(Spans::of_minutes(kind, query.from..query.to));
    }
    let built = connection.built().await?;
    let since = since(connection.settings().hours_days);
    let is_within = |slot: &&u64| **slot >= since && !slot.is_multiple_of(DAY);
    let mut split: Vec<u64> = slots
        .iter()
        .skip(1)
        .filter(is_within)
        .map(|slot| slot / DAY)
        .collect();
    split.dedup();
    let begins = slots.iter().skip(1).map(|slot| slot.div_ceil(DAY));
    let begins: Vec<u64> = begins.collect();
    let spans = Spans::of(kind, query.from..query.to, u64::MAX, since, &split);
    Ok(spans.by_months(&built, &begins))
}

/// Partitions an interval for values by link: rolled-up days and months; [`Spans::hours`] are left to the raw clicks.
pub(super) async fn spans_of_values(
    connection: &Connection,
    query: &AnalyticsQuery,
) -> Result<Spans, EngineError> {
    let built = connection.built().await?;
    let since = since(connection.settings().raw_days);
    let interval = query.from..query.to;
    let spans = Spans::of(TableFamily::LinkValue, interval, built.until, since, &[]);
    Ok(spans.by_months(&built, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::single_range_in_vec_init,
        reason = "a list of ranges that happens to have one"
    )]
    fn days_when_not_split_are_read_as_a_whole() {
        let check = |interval: Range<u64>,
                     until: u64,
                     split: &[u64],
                     days: &[Range<u64>],
                     hours: &[Range<u64>]| {
            let spans = Spans::of(TableFamily::Domain, interval.clone(), until, 0, split);
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

    #[test]
    #[expect(
        clippy::single_range_in_vec_init,
        reason = "a list of ranges that happens to have one"
    )]
    fn months_when_rolled_up_are_read_as_a_whole() {
        // 1970: January has the days 0..31, February 31..59, March 59..90, April 90..120.
        let check = |days: Range<u64>,
                     (months, until): (&[u64], u64),
                     begins: &[u64],
                     expected: (&[Range<u64>], &[Range<u64>])| {
            let interval = days.start * DAY..days.end * DAY;
            let months = months.into();
            let built = Built { until, months };
            let of = |kind| Spans::of(kind, interval.clone(), u64::MAX, 0, &[]);
            let spans = of(TableFamily::Link).by_months(&built, begins);
            let found = (&spans.months[..], &spans.days[..]);
            assert_eq!(found, expected, "{days:?} {built:?}");
            let spans = of(TableFamily::Value).by_months(&built, begins);
            assert_eq!(spans, of(TableFamily::Value));
        };
        let all = (&[0, 31, 59, 90][..], 120);
        check(10..100, all, &[], (&[31..59, 59..90], &[10..31, 90..100]));
        check(31..90, all, &[59], (&[31..59, 59..90], &[]));
        check(31..90, all, &[60], (&[31..59], &[59..90]));
        check(31..90, all, &[58], (&[59..90], &[31..59]));
        check(0..90, (&[31, 59], 89), &[], (&[31..59], &[0..31, 59..90]));
        check(0..90, (&[0, 59], 90), &[], (&[0..31, 59..90], &[31..59]));
        check(0..90, (&[], 90), &[], (&[], &[0..90]));
        check(40..50, all, &[], (&[], &[40..50]));
    }
}
