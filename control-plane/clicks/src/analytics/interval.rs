//! Intervals of queries and their slots in a time zone.
//!
//! Clicks are kept by UTC hour, so every boundary is on such an hour: if a day of a zone begins within one, as in India, the whole
//! hour belongs to that day. Only queries by minute have boundaries on the minute.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Most slots of an interval.
pub const MAX_SLOTS: usize = 1_000;

/// Reach of intervals without a beginning, in days.
const ALL_DAYS: u64 = 730;

/// Latest second of a query: the end of the year 9999.
const LAST: u64 = 253_402_300_800;

/// Longest reach of an interval into the past, in days.
const MAX_DAYS: u64 = 3_660;

/// An interval that has a name and ends now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    /// This hour and the 23 before.
    #[default]
    Day,
    /// Today and the 6 days before.
    Week,
    /// Today and the 29 days before.
    Month,
    /// Today and the 89 days before.
    Quarter,
    /// Today and the 364 days before.
    Year,
    /// This day.
    Today,
    /// This week, which begins with Monday (ISO 8601).
    WeekToDate,
    /// This month.
    MonthToDate,
    /// This quarter.
    QuarterToDate,
    /// This year.
    YearToDate,
    /// All days that may have clicks.
    All,
}

impl Period {
    /// All of them, each with its word.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Day, "24h"),
        (Self::Week, "7d"),
        (Self::Month, "30d"),
        (Self::Quarter, "90d"),
        (Self::Year, "1y"),
        (Self::Today, "today"),
        (Self::WeekToDate, "wtd"),
        (Self::MonthToDate, "mtd"),
        (Self::QuarterToDate, "qtd"),
        (Self::YearToDate, "ytd"),
        (Self::All, "all"),
    ];

    /// The period named by a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, of)| *of == word).map(|(period, _)| period)
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(period, _)| *period == self)
            .map_or("", |(_, word)| word)
    }

    /// The first day of the period that ends `today`; `None` for hours.
    fn first_day(self, today: Date) -> Option<Date> {
        let before = |days: u64| {
            let days = i64::try_from(days).unwrap_or_default();
            today.saturating_sub(days.days())
        };
        let of_month = |month| Date::new(today.year(), month, 1).unwrap_or(today);
        Some(match self {
            Self::Day => return None,
            Self::Week => before(6),
            Self::Month => before(29),
            Self::Quarter => before(89),
            Self::Year => before(364),
            Self::Today => today,
            Self::WeekToDate => before(
                today
                    .weekday()
                    .to_monday_zero_offset()
                    .unsigned_abs()
                    .into(),
            ),
            Self::MonthToDate => today.first_of_month(),
            Self::QuarterToDate => of_month((today.month() - 1) / 3 * 3 + 1),
            Self::YearToDate => of_month(1),
            Self::All => before(ALL_DAYS).first_of_month(),
        })
    }
}

/// An interval between two hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The first second, which begins an hour (unix seconds).
    pub from: u64,
    /// The first second that is no part of it, which begins an hour.
    pub to: u64,
}

impl Interval {
    /// A period until the end of the hour of `now`.
    #[must_use]
    pub fn until_now(period: Period, now: u64, zone: &TimeZone) -> Self {
        let to = end_of_hour(now);
        let first = period.first_day(local_day(now, zone));
        let from = first.map(|day| start_of_day(day, zone));
        Self {
            from: from.unwrap_or_else(|| to.saturating_sub(DAY)).min(to),
            to,
        }
    }

    /// Rounds `from` down and `to` up to hours, or to minutes if that is the granularity.
    #[must_use]
    pub fn between(from: u64, to: u64, granularity: Option<Granularity>) -> Self {
        let unit = match granularity {
            Some(Granularity::Minute) => MINUTE,
            _ => HOUR,
        };
        let (from, to) = (from.min(LAST), to.min(LAST));
        Self {
            from: from / unit * unit,
            to: to.next_multiple_of(unit),
        }
    }

    /// Restricts it to the time that may have clicks at `now`: ten years back, and until tomorrow.
    #[must_use]
    pub fn within_reach(self, now: u64) -> Self {
        let earliest = now.saturating_sub(MAX_DAYS * DAY) / HOUR * HOUR;
        let latest = end_of_hour(now + DAY);
        Self {
            from: self.from.clamp(earliest, latest),
            to: self.to.clamp(earliest, latest),
        }
    }

    /// Rounds to whole UTC days before `hours_from`, the beginning of a day, where hours are not kept any longer. At least one day
    /// remains.
    #[must_use]
    pub fn whole_days_before(self, hours_from: u64) -> Self {
        let [from, to] = [self.from, self.to].map(|bound| nearest_day(bound, hours_from));
        if from < to || self.from >= self.to {
            return Self { from, to };
        }
        let from = self.from.midpoint(self.to) / DAY * DAY;
        Self {
            from,
            to: from + DAY,
        }
    }

    /// Moves the beginnings of slots to whole days where hours are not kept: a day counts in the slot that has most of it. Slots shorter
    /// than a day are left unchanged.
    #[must_use]
    pub fn bounds(self, slots: &[u64], granularity: Granularity, hours_from: u64) -> Vec<u64> {
        let mut bounds = slots.to_vec();
        if granularity.seconds().is_none() {
            bounds = slots
                .iter()
                .map(|slot| nearest_day(*slot, hours_from))
                .collect();
        }
        for bound in &mut bounds {
            *bound = (*bound).min(self.to).max(self.from);
        }
        if let Some(first) = bounds.first_mut() {
            *first = self.from;
        }
        bounds
    }

    /// The preceding interval of equal length, cut off at the epoch.
    #[must_use]
    pub fn before(self) -> Self {
        Self {
            from: self.from.saturating_sub(self.to.saturating_sub(self.from)),
            to: self.from,
        }
    }

    /// Default granularity.
    #[must_use]
    pub fn granularity(self) -> Granularity {
        match self.to.saturating_sub(self.from) / DAY {
            0..=2 => Granularity::Hour,
            3..=93 => Granularity::Day,
            94..=186 => Granularity::Week,
            _ => Granularity::Month,
        }
    }

    /// Beginnings of its slots; `None` if there are more than [`MAX_SLOTS`]. The first one begins with the interval, the others with
    /// a minute, hour, day, week (on Monday) or month of the zone.
    #[must_use]
    pub fn slots(self, granularity: Granularity, zone: &TimeZone) -> Option<Vec<u64>> {
        let mut slots = Vec::new();
        let (mut start, mut day) = (self.from, local_day(self.from, zone));
        while start < self.to {
            if slots.len() >= MAX_SLOTS {
                return None;
            }
            if slots.last().is_none_or(|last| *last < start) {
                slots.push(start);
            }
            if let Some(seconds) = granularity.seconds() {
                start += seconds;
                continue;
            }
            let next = granularity.next_day(day);
            if next <= day {
                break;
            }
            (start, day) = (start_of_day(next, zone), next);
        }
        Some(slots)
    }
}

/// Length of the slots of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day of the zone.
    Day,
    /// A week of the zone, from Monday on.
    Week,
    /// A month of the zone.
    Month,
}

impl Granularity {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Length of equally long slots; `None` if they vary.
    const fn seconds(self) -> Option<u64> {
        match self {
            Self::Minute => Some(MINUTE),
            Self::Hour => Some(HOUR),
            Self::Day | Self::Week | Self::Month => None,
        }
    }

    /// The first day after `day` with which a slot begins.
    fn next_day(self, day: Date) -> Date {
        match self {
            Self::Minute | Self::Hour | Self::Day => day.saturating_add(1.day()),
            Self::Week => {
                let days = 7 - i64::from(day.weekday().since(Weekday::Monday));
                day.saturating_add(days.days())
            }
            Self::Month => day.first_of_month().saturating_add(1.month()),
        }
    }
}

/// The zone of an IANA name, such as `Europe/Berlin`; `None` if there is none.
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

/// Rounds to the nearest beginning of a day before `hours_from`; later times are left unchanged.
pub(super) fn nearest_day(second: u64, hours_from: u64) -> u64 {
    if second < hours_from {
        (second + DAY / 2) / DAY * DAY
    } else {
        second
    }
}

/// The first day of the month of a day (unix time / 86400, UTC).
pub(super) fn first_of_month(day: u64) -> u64 {
    let date = local_day(day.saturating_mul(DAY), &TimeZone::UTC);
    day + 1 - u64::from(date.day().unsigned_abs())
}

fn end_of_hour(second: u64) -> u64 {
    (second.min(LAST) / HOUR + 1) * HOUR
}

fn local_day(second: u64, zone: &TimeZone) -> Date {
    let second = i64::try_from(second.min(LAST)).unwrap_or_default();
    let at = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
    zone.to_datetime(at).date()
}

/// The hour of UTC in which a day begins.
fn start_of_day(day: Date, zone: &TimeZone) -> u64 {
    let start = zone.to_zoned(day.to_datetime(jiff::civil::Time::midnight()));
    let second = start.map_or(0, |start| start.timestamp().as_second());
    u64::try_from(second).unwrap_or_default() / HOUR * HOUR
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_model::timestamp;

    fn at(text: &str) -> u64 {
        timestamp::parse(text).unwrap()
    }

    fn between(from: u64, to: u64) -> Interval {
        Interval::between(from, to, None)
    }

    fn texts(slots: &[u64]) -> Vec<String> {
        slots
            .iter()
            .map(|slot| timestamp::from_seconds(*slot))
            .collect()
    }

    fn period(word: &str, now: &str, name: &str) -> [String; 2] {
        let zone = zone(name).unwrap();
        let interval = Interval::until_now(Period::of_word(word).unwrap(), at(now), &zone);
        [interval.from, interval.to].map(timestamp::from_seconds)
    }

    #[test]
    fn period_when_named_ends_with_the_present_hour() {
        let now = "2026-11-22T12:34:56Z";
        for (word, zone, from) in [
            ("24h", "Europe/Berlin", "2026-11-21T13:00:00Z"),
            ("today", "UTC", "2026-11-22T00:00:00Z"),
            ("today", "Europe/Berlin", "2026-11-21T23:00:00Z"),
            ("wtd", "UTC", "2026-11-16T00:00:00Z"),
            ("7d", "UTC", "2026-11-16T00:00:00Z"),
            ("7d", "Europe/Berlin", "2026-11-15T23:00:00Z"),
            ("30d", "Europe/Berlin", "2026-10-23T22:00:00Z"),
            ("90d", "UTC", "2026-08-25T00:00:00Z"),
            ("1y", "UTC", "2025-11-23T00:00:00Z"),
            ("mtd", "America/New_York", "2026-11-01T04:00:00Z"),
            ("qtd", "UTC", "2026-10-01T00:00:00Z"),
            ("ytd", "Asia/Tokyo", "2025-12-31T15:00:00Z"),
            ("all", "UTC", "2024-11-01T00:00:00Z"),
        ] {
            let expected = [from, "2026-11-22T13:00:00Z"].map(str::to_owned);
            assert_eq!(period(word, now, zone), expected, "{word} {zone}");
        }
        assert_eq!(Period::of_word("2d"), None);
    }

    #[test]
    fn day_when_zone_has_half_hours_begins_with_its_hour() {
        let india = period("mtd", "2026-11-01T10:00:00Z", "Asia/Kolkata");
        assert_eq!(india[0], "2026-10-31T18:00:00Z", "half an hour early");
        let nepal = period("7d", "2026-11-22T00:00:00Z", "Asia/Kathmandu");
        assert_eq!(nepal[0], "2026-11-15T18:00:00Z");
    }

    #[test]
    fn interval_when_between_two_times_covers_touched_hours() {
        let interval = between(at("2026-01-01T10:59:59Z"), at("2026-01-01T12:00:01Z"));
        assert_eq!(
            texts(&[interval.from, interval.to]),
            ["2026-01-01T10:00:00Z", "2026-01-01T13:00:00Z"]
        );
        let before = interval.before();
        assert_eq!(
            (before.to, before.from),
            (interval.from, interval.from - 3 * HOUR)
        );
        let first = Interval {
            from: HOUR,
            to: 3 * HOUR,
        };
        assert_eq!(first.before(), Interval { from: 0, to: HOUR });
        assert!(between(u64::MAX, u64::MAX).to <= LAST);
    }

    #[test]
    fn interval_when_too_long_is_cut_to_ten_years() {
        let now = at("2026-11-22T12:34:56Z");
        let all = between(0, u64::MAX).within_reach(now);
        let expected = ["2016-11-14T12:00:00Z", "2026-11-23T13:00:00Z"];
        assert_eq!(texts(&[all.from, all.to]), expected);
        let past = between(0, HOUR).within_reach(now);
        assert_eq!(past.from, past.to);
    }

    #[test]
    fn interval_when_hours_are_unknown_has_whole_days() {
        let known = at("2026-11-01T00:00:00Z");
        let of = |from, to| {
            let interval = between(at(from), at(to)).whole_days_before(known);
            texts(&[interval.from, interval.to])
        };
        let whole = of("2026-10-01T22:00:00Z", "2026-10-31T05:00:00Z");
        assert_eq!(whole, ["2026-10-02T00:00:00Z", "2026-10-31T00:00:00Z"]);
        let half = of("2026-10-01T11:00:00Z", "2026-11-02T05:00:00Z");
        assert_eq!(half, ["2026-10-01T00:00:00Z", "2026-11-02T05:00:00Z"]);
        let none = of("2026-11-01T22:00:00Z", "2026-11-02T05:00:00Z");
        assert_eq!(none, ["2026-11-01T22:00:00Z", "2026-11-02T05:00:00Z"]);
        let one = of("2026-10-01T22:00:00Z", "2026-10-02T07:00:00Z");
        assert_eq!(one, ["2026-10-02T00:00:00Z", "2026-10-03T00:00:00Z"]);
        assert_eq!(
            of("2026-10-01T22:00:00Z", "2026-10-01T22:00:00Z")[0],
            "2026-10-02T00:00:00Z"
        );
    }

    #[test]
    fn day_when_hours_are_unknown_is_in_the_part_holding_most() {
        let known = at("2026-11-01T00:00:00Z");
        for (name, asked, bounds) in [
            (
                "Europe/Berlin",
                ["2026-10-28T23:00:00Z", "2026-11-02T23:00:00Z"],
                ["2026-10-29", "2026-10-30", "2026-10-31", "2026-11-01"],
            ),
            (
                "America/New_York",
                ["2026-10-28T04:00:00Z", "2026-11-02T05:00:00Z"],
                ["2026-10-28", "2026-10-29", "2026-10-30", "2026-10-31"],
            ),
        ] {
            let asked = between(at(asked[0]), at(asked[1]));
            let slots = asked.slots(Granularity::Day, &zone(name).unwrap()).unwrap();
            let counted = asked.whole_days_before(known);
            let found = texts(&counted.bounds(&slots, Granularity::Day, known));
            let expected = bounds.map(|day| format!("{day}T00:00:00Z"));
            assert_eq!(found[..4], expected, "{name}");
            assert_eq!(found[4..], texts(&slots)[4..], "{name}");
        }
        let asked = between(at("2026-10-30T22:00:00Z"), at("2026-10-31T02:00:00Z"));
        let hours = asked.slots(Granularity::Hour, &TimeZone::UTC).unwrap();
        let counted = asked.whole_days_before(known);
        let found = texts(&counted.bounds(&hours, Granularity::Hour, known));
        assert_eq!(found[..3], ["2026-10-31T00:00:00Z"; 3]);
        assert_eq!(found[3], "2026-10-31T01:00:00Z");
    }

    #[test]
    fn day_when_clocks_change_has_23_or_25_hours() {
        let berlin = zone("Europe/Berlin").unwrap();
        let days = |from, to| {
            let interval = between(at(from), at(to));
            interval.slots(Granularity::Day, &berlin).unwrap()
        };
        let spring = days("2026-03-28T23:00:00Z", "2026-03-30T22:00:00Z");
        assert_eq!(
            texts(&spring),
            ["2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"]
        );
        let autumn = days("2026-10-24T22:00:00Z", "2026-10-26T22:00:00Z");
        assert_eq!(
            texts(&autumn),
            ["2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"]
        );
    }

    #[test]
    fn slot_when_cut_begins_with_its_hour_week_or_month() {
        let interval = between(at("2026-01-29T15:00:00Z"), at("2026-03-03T00:00:00Z"));
        let utc = TimeZone::UTC;
        let weeks = interval.slots(Granularity::Week, &utc).unwrap();
        assert_eq!(
            texts(&weeks[..3]),
            [
                "2026-01-29T15:00:00Z",
                "2026-02-02T00:00:00Z",
                "2026-02-09T00:00:00Z"
            ]
        );
        let months = interval.slots(Granularity::Month, &utc).unwrap();
        assert_eq!(
            texts(&months),
            [
                "2026-01-29T15:00:00Z",
                "2026-02-01T00:00:00Z",
                "2026-03-01T00:00:00Z"
            ]
        );
        let hours = interval.slots(Granularity::Hour, &utc).unwrap();
        assert_eq!(hours.len(), 24 * 32 + 9);
        let empty = Interval {
            from: HOUR,
            to: HOUR,
        };
        assert_eq!(empty.slots(Granularity::Day, &utc), Some(Vec::new()));
    }

    #[test]
    fn slots_when_asked_for_by_the_minute_are_minutes() {
        let (from, to) = (at("2026-01-01T10:59:59Z"), at("2026-01-01T11:01:01Z"));
        let interval = Interval::between(from, to, Some(Granularity::Minute));
        let slots = interval.slots(Granularity::Minute, &TimeZone::UTC);
        let expected = [
            "2026-01-01T10:59:00Z",
            "2026-01-01T11:00:00Z",
            "2026-01-01T11:01:00Z",
        ];
        assert_eq!(texts(&slots.unwrap()), expected);
        assert_eq!(interval.to, at("2026-01-01T11:02:00Z"));
    }

    #[test]
    fn slots_when_too_many_are_refused() {
        let hours = |hours: u64| Interval {
            from: 0,
            to: hours * HOUR,
        };
        let count = |interval: Interval| interval.slots(Granularity::Hour, &TimeZone::UTC);
        assert_eq!(count(hours(1_000)).unwrap().len(), MAX_SLOTS);
        assert_eq!(count(hours(1_001)), None);
        for days in [1, 2, 3, 31, 93, 94, 186, 187, 366, 3_660] {
            let interval = hours(24 * days);
            let slots = interval.slots(interval.granularity(), &TimeZone::UTC);
            assert!(slots.unwrap().len() <= 124, "{days}");
        }
        let last = Interval {
            from: LAST - HOUR,
            to: LAST,
        };
        assert_eq!(
            last.slots(Granularity::Month, &TimeZone::UTC)
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn day_when_its_zone_leaves_it_out_is_no_slot() {
        let samoa = zone("Pacific/Apia").unwrap();
        let interval = between(at("2011-12-29T10:00:00Z"), at("2012-01-01T10:00:00Z"));
        let days = interval.slots(Granularity::Day, &samoa).unwrap();
        assert_eq!(
            texts(&days),
            [
                "2011-12-29T10:00:00Z",
                "2011-12-30T10:00:00Z",
                "2011-12-31T10:00:00Z"
            ]
        );
    }
}
