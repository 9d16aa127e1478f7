//! The interval that a request is about.

use super::fields::{Fields, Reason};
use super::values;
use edgelink_clicks::analytics::{Granularity, Interval, Period, zone};
use edgelink_model::clock;
use edgelink_model::timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A day in seconds.
pub const DAY: u64 = 24 * 60 * 60;

/// An interval, and how it is divided.
#[derive(Clone, Debug)]
pub struct Times {
    asked: Interval,
    /// The counted interval.
    pub interval: Interval,
    /// The name by which the interval was requested.
    pub(crate) period: Option<Period>,
    pub(crate) zone: TimeZone,
    pub(crate) granularity: Granularity,
    /// Starts of the parts of the interval, in unix seconds.
    pub(crate) slots: Vec<u64>,
    /// Starts of the counting in each part, in unix seconds.
    pub(crate) bounds: Vec<u64>,
}

/// An interval as the API shows it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Interval)]
pub(crate) struct IntervalView {
    /// The word that it was asked for with; null for other intervals.
    name: Option<&'static str>,
    from: String,
    to: String,
    timezone: String,
    /// How long the parts of a series are.
    granularity: &'static str,
}

impl Times {
    /// Reads the parameters `interval`, `from`, `to`, `timezone` and `granularity`. `minutes` is the number of days for which
    /// minutes are known, or the reason why they are refused.
    pub fn read(fields: &mut Fields, minutes: Result<u64, &'static str>) -> Self {
        let zone = fields.optional("timezone", parse_zone);
        let zone = zone.unwrap_or(TimeZone::UTC);
        let period = fields.optional("interval", parse_period);
        let from = fields.optional("from", values::time);
        let to = fields.optional("to", values::time);
        let granularity = fields.optional("granularity", parse_granularity);
        let now = clock::unix_seconds();
        let interval = match from {
            Some(from) => Interval::between(from, to.unwrap_or(now), granularity),
            None => Interval::until_now(period.unwrap_or_default(), now, &zone),
        };
        let is_empty = from.is_some_and(|from| to.unwrap_or(now) <= from);
        if from.is_some() && period.is_some() {
            fields.refuse("interval", "cannot be combined with from and to");
        } else if from.is_none() && to.is_some() {
            fields.refuse("to", "needs from");
        } else if is_empty {
            fields.refuse("to", "must be after from");
        }
        let interval = interval.within_reach(now);
        let granularity = granularity.unwrap_or_else(|| interval.granularity());
        let slots = interval.slots(granularity, &zone).unwrap_or_else(|| {
            fields.refuse(
                "granularity",
                "would divide the interval into more than 1,000 parts",
            );
            Vec::new()
        });
        let times = Self {
            asked: interval,
            interval,
            period: period.or_else(|| from.is_none().then(Period::default)),
            zone,
            granularity,
            bounds: slots.clone(),
            slots,
        };
        times.check_minutes(fields, "granularity", minutes);
        times
    }

    /// Refuses a field that asks for a series of minutes that are not known.
    pub(crate) fn check_minutes(
        &self,
        fields: &mut Fields,
        field: &'static str,
        minutes: Result<u64, &'static str>,
    ) {
        if self.granularity != Granularity::Minute {
            return;
        }
        let today = clock::unix_seconds() / DAY;
        match minutes {
            Err(reason) => fields.refuse(field, reason),
            Ok(days) if self.interval.from < (today + 1).saturating_sub(days) * DAY => {
                let reason =
                    format!("minutes are known of {days} days of UTC, that of today included");
                fields.refuse(field, Reason::Owned(reason));
            }
            Ok(_) => {}
        }
    }

    /// Extends the interval to whole days of UTC where hours are not kept any more, and shifts it back so that it ends at `end` at
    /// the latest.
    pub(crate) fn counted(self, hours_days: u64, end: u64) -> Self {
        if self.granularity == Granularity::Minute {
            return self;
        }
        let today = clock::unix_seconds() / DAY;
        let hours_from = (today + 1).saturating_sub(hours_days) * DAY;
        let Interval { from, to } = self.asked.whole_days_before(hours_from);
        let beyond = to.saturating_sub(end);
        let interval = Interval {
            from: from.saturating_sub(beyond),
            to: to - beyond,
        };
        let bounds = interval.bounds(&self.slots, self.granularity, hours_from);
        Self {
            interval,
            bounds,
            ..self
        }
    }

    /// The previous interval, of equal length and granularity. No day counts in both.
    pub(crate) fn before(&self, hours_days: u64) -> Self {
        let asked = self.asked.before();
        let slots = asked
            .slots(self.granularity, &self.zone)
            .unwrap_or_default();
        let times = Self {
            asked,
            interval: asked,
            period: None,
            zone: self.zone.clone(),
            granularity: self.granularity,
            bounds: slots.clone(),
            slots,
        };
        times.counted(hours_days, self.interval.from)
    }

    /// The interval as the API shows it.
    pub(crate) fn view(&self) -> IntervalView {
        IntervalView {
            name: self.period.map(Period::word),
            from: timestamp::from_seconds(self.interval.from),
            to: timestamp::from_seconds(self.interval.to),
            timezone: self.zone.iana_name().unwrap_or("UTC").to_owned(),
            granularity: self.granularity.word(),
        }
    }
}

fn parse_zone(value: &Value) -> Result<TimeZone, Reason> {
    let refusal = "must be the name of a time zone, such as Europe/Berlin";
    zone(values::text(value)?).ok_or(Reason::Borrowed(refusal))
}

fn parse_period(value: &Value) -> Result<Period, Reason> {
    let period = Period::of_word(values::text(value)?);
    period.ok_or_else(|| one_of(Period::ALL.map(|(_, word)| word)))
}

fn parse_granularity(value: &Value) -> Result<Granularity, Reason> {
    let word = values::text(value)?;
    let mut all = Granularity::ALL.into_iter();
    let found = all.find(|granularity| granularity.word() == word);
    found.ok_or_else(|| one_of(Granularity::ALL.map(Granularity::word)))
}

/// The reason to refuse a word that is none of `words`.
pub fn one_of<const N: usize>(words: [&'static str; N]) -> Reason {
    Reason::Owned(format!("must be one of {}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> (Times, Result<(), String>) {
        let mut fields = Fields::of_query(Some(query)).ok().unwrap();
        let times = Times::read(&mut fields, Ok(3));
        let finished = fields.finish().map_err(|problem| {
            let document = serde_json::to_value(problem.document()).unwrap();
            document["errors"][0]["field"].as_str().unwrap().to_owned()
        });
        (times, finished)
    }

    #[test]
    fn parameters_when_contradictory_are_refused() {
        for (query, field) in [
            ("interval=2d", "interval"),
            ("interval=7d&from=2026-01-01T00:00:00Z", "interval"),
            ("to=2026-01-01T00:00:00Z", "to"),
            ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to"),
            ("timezone=Mars/Olympus", "timezone"),
            ("interval=1y&granularity=hour", "granularity"),
            ("granularity=minute", "granularity"),
            ("granularity=second", "granularity"),
            (
                "granularity=minute&from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z",
                "granularity",
            ),
        ] {
            assert_eq!(read(query).1, Err(field.to_owned()), "{query}");
        }
    }

    #[test]
    fn interval_when_shown_has_its_bounds_and_granularity() {
        let (times, finished) =
            read("from=2026-01-01T00:30:00Z&to=2026-01-08T00:00:00Z&timezone=Asia/Tokyo");
        assert_eq!(finished, Ok(()));
        let view = serde_json::to_value(times.view()).unwrap();
        let expected = serde_json::json!({
            "name": null, "from": "2026-01-01T00:00:00Z", "to": "2026-01-08T00:00:00Z",
            "timezone": "Asia/Tokyo", "granularity": "day",
        });
        assert_eq!(view, expected);
        assert_eq!(times.slots.len(), 8, "the first day is a part of one");
        let before = times.before(35);
        assert_eq!(before.interval.to, times.interval.from);
        assert_eq!(before.slots.len(), 8);
        assert_eq!(read("").0.view().name, Some("24h"));
    }

    #[test]
    fn interval_when_of_old_days_counts_no_day_twice() {
        for hours in 0..24 {
            for length in [1, 2, 12, 13, 24, 50] {
                let from = (20_000 * 24 + hours) * 3_600;
                let asked = Interval {
                    from,
                    to: from + length * 3_600,
                };
                let (mut times, _) = read("granularity=day");
                times.asked = asked;
                times.slots = asked.slots(Granularity::Day, &times.zone).unwrap();
                let times = times.counted(35, u64::MAX);
                let before = times.before(35);
                for Times {
                    interval,
                    bounds,
                    slots,
                    ..
                } in [&times, &before]
                {
                    assert!(interval.from < interval.to);
                    assert_eq!((interval.from % DAY, interval.to % DAY), (0, 0));
                    assert_eq!(bounds.len(), slots.len());
                    assert!(bounds.is_sorted() && bounds[0] == interval.from);
                }
                assert_eq!(before.interval.to, times.interval.from, "{asked:?}");
            }
        }
    }
}
