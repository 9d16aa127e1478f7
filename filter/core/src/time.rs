//! Points in time, and how long a record may be served.

use edgelink_wire::Record;

/// Unix time in milliseconds, by the worker's coarse clock: read once a tick.
///
/// It is wall-clock time, because workers share records and the validity of links is wall-clock time too. So it may
/// jump, and nothing here may come to rely on it only growing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// How far ahead of this worker's clock a record may have been fetched and still count as new: the others read their
/// clocks at other times, at most a tick earlier or later. In milliseconds.
const SKEW: u64 = 1_000;

impl Moment {
    /// The moment that many milliseconds after the start of 1970.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the start of 1970.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.0
    }

    /// The moment so many milliseconds earlier.
    #[must_use]
    pub fn before(self, millis: u64) -> Self {
        Self(self.0.saturating_sub(millis))
    }

    /// Whole seconds since the start of 1970.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0 / 1_000
    }

    /// The milliseconds from this moment until `now`; nothing where this moment lies in the future, which is so after
    /// the clock was set back.
    #[must_use]
    pub fn age(self, now: Self) -> Option<u64> {
        if self.0 > now.0.saturating_add(SKEW) {
            return None;
        }
        Some(now.0.saturating_sub(self.0))
    }
}

/// A clock that only goes forward, made of one that may jump.
///
/// What has to end at some time (a request, a pause) is measured by it: a wall clock that is set back would keep it
/// waiting, and one that is set ahead would end it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steady {
    millis: u64,
    last: Moment,
}

/// The longest time between two readings that is believed, in milliseconds. Ticks come far more often.
const MAX_STEP: u64 = 5_000;

impl Steady {
    /// Milliseconds since some point, at `now` by the wall clock. A reading that is a little older than the last one is
    /// the coarse clock's after the exact one's; only one that is much older means that the clock was set back.
    pub(crate) fn read(&mut self, now: Moment) -> u64 {
        let step = now.0.saturating_sub(self.last.0).min(MAX_STEP);
        self.millis = self.millis.saturating_add(step);
        if step > 0 || now.age(self.last).is_none_or(|age| age > SKEW) {
            self.last = now;
        }
        self.millis
    }
}

/// The lives of cached records, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// How long a link is served without asking again.
    pub fresh: u64,
    /// The same for an absence.
    pub absent_fresh: u64,
    /// How long a record is served without asking again while a feed tells of changes.
    pub with_feed: u64,
    /// How long after it was fetched a record counts for anything.
    pub stale: u64,
}

/// What a cached record is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is served.
    Fresh,
    /// It is served if nothing better can be had.
    Stale,
    /// It is never served.
    Dead,
}

impl Lives {
    /// What a record is good for that was fetched at `fetched`.
    ///
    /// One from the future, which is what a clock that was set back leaves behind, is of unknown age: it is asked for
    /// again, and is good enough until then.
    #[must_use]
    pub fn standing(&self, kind: Kind, fetched: Moment, now: Moment) -> Standing {
        match fetched.age(now) {
            Some(age) if age < self.fresh(kind) => Standing::Fresh,
            Some(age) if age >= self.stale => Standing::Dead,
            Some(_) | None => Standing::Stale,
        }
    }

    /// Whether a record that was fetched at `fetched` is fresh, be it a link or an absence.
    #[must_use]
    pub fn is_surely_fresh(&self, fetched: Moment, now: Moment) -> bool {
        let shorter = self.fresh.min(self.absent_fresh);
        fetched.age(now).is_some_and(|age| age < shorter)
    }

    /// How long a record of that kind is fresh by its age alone.
    #[must_use]
    pub fn fresh(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Link => self.fresh,
            Kind::Absent => self.absent_fresh,
        }
    }

    /// Whether a record of revision `rev` may take the place of one of revision `held`: not if it is older, unless the
    /// one that is held is dead or of unknown age. Otherwise a database that was set back could never be followed.
    #[must_use]
    pub fn may_replace(&self, rev: u64, held: u64, fetched: Moment, now: Moment) -> bool {
        rev >= held || fetched.age(now).is_none_or(|age| age >= self.stale)
    }
}

/// The two kinds of records, as far as their lives differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A link.
    Link,
    /// The knowledge that there is none.
    Absent,
}

impl Kind {
    /// What a record is.
    pub(crate) fn of<U>(record: &Record<U>) -> Self {
        match record {
            Record::Link(_) => Self::Link,
            Record::Absent { .. } => Self::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES: Lives = Lives {
        fresh: 5_000,
        absent_fresh: 2_000,
        with_feed: 30_000,
        stale: 60_000,
    };

    fn standing_at(kind: Kind, fetched: u64, now: u64) -> Standing {
        LIVES.standing(kind, Moment::from_millis(fetched), Moment::from_millis(now))
    }

    #[test]
    fn the_steady_clock_follows_and_never_jumps() {
        let mut steady = Steady::default();
        let mut read = |millis| steady.read(Moment::from_millis(millis));
        let start = read(1_000_000);
        assert_eq!(read(1_000_100), start + 100);
        assert_eq!(read(1_000_050), start + 100, "the coarse clock");
        assert_eq!(read(1_000_100), start + 100);
        assert_eq!(read(500_000), start + 100, "set back");
        assert_eq!(read(500_050), start + 150);
        assert_eq!(read(900_000_000), start + 150 + MAX_STEP, "set ahead");
    }

    #[test]
    fn a_record_is_fresh_then_stale_then_dead() {
        for (kind, age, standing) in [
            (Kind::Link, 0, Standing::Fresh),
            (Kind::Link, 4_999, Standing::Fresh),
            (Kind::Link, 5_000, Standing::Stale),
            (Kind::Link, 59_999, Standing::Stale),
            (Kind::Link, 60_000, Standing::Dead),
            (Kind::Absent, 1_999, Standing::Fresh),
            (Kind::Absent, 2_000, Standing::Stale),
            (Kind::Absent, 60_000, Standing::Dead),
        ] {
            let [fetched, now] = [100_000, 100_000 + age].map(Moment::from_millis);
            assert_eq!(
                LIVES.standing(kind, fetched, now),
                standing,
                "{kind:?} {age}"
            );
            assert_eq!(LIVES.is_surely_fresh(fetched, now), age < 2_000);
        }
    }

    #[test]
    fn a_record_of_a_worker_whose_clock_ticks_earlier_is_new() {
        assert_eq!(standing_at(Kind::Link, 101_000, 100_000), Standing::Fresh);
    }

    #[test]
    fn a_record_from_the_future_is_asked_for_again_and_may_be_replaced() {
        assert_eq!(standing_at(Kind::Link, 101_001, 100_000), Standing::Stale);
        let [fetched, now] = [900_000, 100_000].map(Moment::from_millis);
        assert!(LIVES.may_replace(1, 9, fetched, now));
    }

    #[test]
    fn a_lower_rev_replaces_only_the_dead() {
        let fetched = Moment::from_millis(100_000);
        for (rev, held, age, may) in [
            (2, 1, 0, true),
            (1, 1, 0, true),
            (1, 2, 59_999, false),
            (1, 2, 60_000, true),
        ] {
            let now = Moment::from_millis(100_000 + age);
            assert_eq!(LIVES.may_replace(rev, held, fetched, now), may);
        }
    }
}
