//! Selection of the rollups that answer a query about an interval.

use edgelink_click_store::DocSpan;
use edgelink_model::counts::rollup::{MAX_SLOTS, Tally};
use std::ops::Range;

const HOUR_SECONDS: u64 = 3600;

const DAY_HOURS: u64 = 24;

/// Rollups of a part of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The range of rollups.
    pub(super) span: DocSpan,
    /// The hours (unix time / 3600) of the interval; rollups of days may extend beyond them.
    hours: Range<u64>,
}

/// Selects the rollups of an interval, which begins and ends on the hour (unix seconds).
///
/// Days before `days_until` have rollups of their own. These are read for whole days without any of `bounds` within them; otherwise the
/// hours are, which are kept from the day `kept` on.
pub(super) fn plan(interval: Range<u64>, bounds: &[u64], days_until: u32, kept: u64) -> Vec<Part> {
    let hours = interval.start / HOUR_SECONDS..interval.end.div_ceil(HOUR_SECONDS);
    let mut parts: Vec<Part> = Vec::new();
    let mut hour = hours.start;
    while hour < hours.end {
        let day = hour / DAY_HOURS;
        let (begin, end) = (day * DAY_HOURS, (day + 1) * DAY_HOURS);
        let is_whole = begin >= hours.start && end <= hours.end;
        let is_within = |bound: &&u64| {
            let bound = **bound / HOUR_SECONDS;
            bound > begin && bound < end
        };
        let is_summed_up = day < u64::from(days_until);
        let is_cut = !is_whole || bounds.iter().any(|bound| is_within(&bound));
        let until = end.min(hours.end);
        if is_summed_up && (!is_cut || day < kept) {
            push(
                &mut parts,
                &hours,
                DocSpan::Days(number(day)..number(day + 1)),
            );
        } else {
            push(
                &mut parts,
                &hours,
                DocSpan::Hours(number(hour)..number(until)),
            );
        }
        hour = until;
    }
    parts
}

fn number(time: u64) -> u32 {
    u32::try_from(time).unwrap_or(u32::MAX)
}

/// Adds rollups, extending the last part if they follow it.
fn push(parts: &mut Vec<Part>, hours: &Range<u64>, span: DocSpan) {
    match (parts.last_mut().map(|part| &mut part.span), &span) {
        (Some(DocSpan::Hours(last)), DocSpan::Hours(next))
        | (Some(DocSpan::Days(last)), DocSpan::Days(next))
            if last.end == next.start =>
        {
            last.end = next.end;
        }
        _ => parts.push(Part {
            span,
            hours: hours.clone(),
        }),
    }
}

impl Part {
    /// Splits it into parts of at most `most` hours or days.
    pub(super) fn pieces(&self, most: usize) -> impl Iterator<Item = Self> {
        let (Range { start, end }, step) = (self.times(), most.max(1));
        (start..end).step_by(step).map(move |first| {
            let step = u32::try_from(step).unwrap_or(u32::MAX);
            let piece = first..first.saturating_add(step).min(end);
            Self {
                span: match self.span {
                    DocSpan::Hours(_) => DocSpan::Hours(piece),
                    DocSpan::Days(_) => DocSpan::Days(piece),
                },
                hours: self.hours.clone(),
            }
        })
    }

    /// The hours or days.
    pub(super) fn times(&self) -> Range<u32> {
        match &self.span {
            DocSpan::Hours(times) | DocSpan::Days(times) => times.clone(),
        }
    }

    /// True if all hours of all its rollups are in the interval.
    pub(super) fn is_whole(&self) -> bool {
        let Range { start, end } = self.times();
        let is_in = |time: u32| {
            let hours = self.hours_of(time);
            hours.start >= self.hours.start && hours.end <= self.hours.end
        };
        start >= end || is_in(start) && is_in(end - 1)
    }

    /// The hours of a rollup.
    fn hours_of(&self, time: u32) -> Range<u64> {
        let time = u64::from(time);
        match self.span {
            DocSpan::Hours(_) => time..time + 1,
            DocSpan::Days(_) => time * DAY_HOURS..(time + 1) * DAY_HOURS,
        }
    }

    /// The first second of a rollup that is in the interval.
    pub(super) fn begin(&self, time: u32) -> u64 {
        self.hours_of(time).start.max(self.hours.start) * HOUR_SECONDS
    }

    /// Clicks of a rollup within the interval, by the first second of their hour.
    pub(super) fn tallies(&self, time: u32, slots: &[Tally]) -> impl Iterator<Item = (u64, Tally)> {
        let hours = self.hours_of(time).take(MAX_SLOTS);
        let of_hours = hours.zip(slots.iter().copied());
        let within = self.hours.clone();
        of_hours
            .filter(move |(hour, _)| within.contains(hour))
            .map(|(hour, tally)| (hour * HOUR_SECONDS, tally))
    }

    /// Clicks of a rollup within the interval.
    pub(super) fn tally(&self, time: u32, slots: &[Tally]) -> Tally {
        let mut sum = Tally::default();
        for (_, tally) in self.tallies(time, slots) {
            sum.add(tally);
        }
        sum
    }

    /// True if at least half of the hours of a rollup are in the interval: then all its values and visitors count. Only the rollup of an
    /// old day, whose hours are not kept, can be partly outside.
    pub(super) fn is_mostly_in(&self, time: u32) -> bool {
        let hours = self.hours_of(time);
        let length = hours.end - hours.start;
        let inside = hours.end.min(self.hours.end) - hours.start.max(self.hours.start);
        2 * inside >= length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn spans(interval: Range<u64>, bounds: &[u64], days_until: u32, kept: u64) -> Vec<DocSpan> {
        let parts = plan(interval, bounds, days_until, kept);
        parts.into_iter().map(|part| part.span).collect()
    }

    #[test]
    fn span_when_it_covers_whole_days_reads_by_the_day() {
        let interval = 10 * DAY + 6 * HOUR_SECONDS..14 * DAY + HOUR_SECONDS;
        let (head, tail) = (DocSpan::Hours(246..264), DocSpan::Hours(312..337));
        let expected = [head.clone(), DocSpan::Days(11..13), tail];
        assert_eq!(spans(interval.clone(), &[], 13, 0), expected);
        assert_eq!(
            spans(interval.clone(), &[], 5, 0),
            [DocSpan::Hours(246..337)]
        );
        let bounds = [11 * DAY, 12 * DAY + HOUR_SECONDS];
        let expected = [head, DocSpan::Days(11..12), DocSpan::Hours(288..337)];
        assert_eq!(spans(interval.clone(), &bounds, 13, 0), expected);
        let expected = [DocSpan::Days(10..13), DocSpan::Hours(312..337)];
        assert_eq!(spans(interval, &bounds, 13, 13), expected);
        assert_eq!(spans(DAY..DAY, &[], 13, 0), []);
    }

    #[test]
    fn part_when_large_is_cut_into_pieces() {
        let interval = 10 * DAY + 6 * HOUR_SECONDS..14 * DAY;
        let parts = plan(interval, &[], 20, 20);
        let [part] = &parts[..] else {
            panic!("one part: {parts:?}");
        };
        assert!(!part.is_whole());
        let pieces: Vec<Part> = part.pieces(3).collect();
        let spans: Vec<DocSpan> = pieces.iter().map(|part| part.span.clone()).collect();
        assert_eq!(spans, [DocSpan::Days(10..13), DocSpan::Days(13..14)]);
        assert_eq!([pieces[0].is_whole(), pieces[1].is_whole()], [false, true]);
    }

    #[test]
    fn day_when_partly_in_the_interval_counts_its_hours() {
        let slots: Vec<Tally> = (0..24)
            .map(|hour| Tally {
                clicks: 1 << hour,
                bots: 0,
            })
            .collect();
        for (from, clicks, is_mostly_in) in [(12, 0xfff000, true), (13, 0xffe000, false)] {
            let interval = DAY + from * HOUR_SECONDS..2 * DAY;
            let [part] = &plan(interval, &[], 10, 10)[..] else {
                panic!("one part");
            };
            assert_eq!(part.tally(1, &slots).clicks, clicks);
            assert_eq!(part.is_mostly_in(1), is_mostly_in);
            assert_eq!(part.begin(1), DAY + from * HOUR_SECONDS);
        }
    }
}
