//! Points in time, and how long a record may be served.

use edgelink_wire::Record;

/// A moment on the machine's monotonic clock, in milliseconds since some point in the past.
///
/// All ages are measured by it, and it is read in every callback: it goes on while the process is stopped, it never
/// jumps, and it is the same in all workers of a proxy, so that they can share what they have fetched. Only the validity
/// of links, and the minutes that clicks are counted in, are wall-clock time ([`WallClock`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The moment that many milliseconds after the point in the past.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the point in the past.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The moment so many milliseconds earlier.
    #[must_use]
    pub const fn before(self, millis: u64) -> Self {
        Self(self.0.saturating_sub(millis))
    }

    /// The moment so many milliseconds later.
    #[must_use]
    pub const fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Whole seconds since the point in the past.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000
    }

    /// The milliseconds from this moment until `now`; 0 if it comes later.
    #[must_use]
    pub const fn age(self, now: Self) -> u64 {
        now.0.saturating_sub(self.0)
    }
}

/// What the wall clock showed when it was read last. It is read once a tick; in between the monotonic clock carries it on.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    read: Moment,
    unix_millis: u64,
}

impl WallClock {
    /// A wall clock that shows `unix_millis` at the moment `read`.
    #[must_use]
    pub const fn new(read: Moment, unix_millis: u64) -> Self {
        Self { read, unix_millis }
    }

    /// When it was read.
    #[must_use]
    pub const fn read_at(&self) -> Moment {
        self.read
    }

    /// Unix time in seconds at `now`.
    #[must_use]
    pub const fn seconds(&self, now: Moment) -> u64 {
        self.unix_millis.saturating_add(self.read.age(now)) / 1_000
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
    #[must_use]
    pub fn standing(&self, kind: Kind, fetched: Moment, now: Moment) -> Standing {
        match fetched.age(now) {
            age if age < self.fresh(kind) => Standing::Fresh,
            age if age >= self.stale => Standing::Dead,
            _ => Standing::Stale,
        }
    }

    /// Whether a record that was fetched at `fetched` is fresh, be it a link or an absence.
    #[must_use]
    pub fn is_surely_fresh(&self, fetched: Moment, now: Moment) -> bool {
        let shorter = self.fresh.min(self.absent_fresh);
        fetched.age(now) < shorter
    }

    /// How long a record of that kind is fresh by its age alone.
    #[must_use]
    pub fn fresh(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Link => self.fresh,
            Kind::Absent => self.absent_fresh,
        }
    }

    /// How long any record may be fresh, by its age or by a feed.
    #[must_use]
    pub fn longest_fresh(&self) -> u64 {
        self.fresh.max(self.absent_fresh).max(self.with_feed)
    }

    /// Whether a record of revision `rev` may take the place of one of revision `held`: not if it is older, unless the
    /// one that is held is dead. Otherwise a database that was set back could never be followed.
    #[must_use]
    pub fn may_replace(&self, rev: u64, held: u64, fetched: Moment, now: Moment) -> bool {
        rev >= held || fetched.age(now) >= self.stale
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

    #[test]
    fn the_wall_clock_goes_on_between_two_readings() {
        let wall = WallClock::new(Moment::from_millis(5_000), 1_767_225_600_900);
        assert_eq!(wall.seconds(Moment::from_millis(5_099)), 1_767_225_600);
        assert_eq!(wall.seconds(Moment::from_millis(5_100)), 1_767_225_601);
        assert_eq!(wall.seconds(Moment::from_millis(4_000)), 1_767_225_600);
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
    fn a_moment_that_is_still_to_come_has_no_age() {
        assert_eq!(Moment::from_millis(8).age(Moment::from_millis(5)), 0);
        assert_eq!(Moment::from_millis(5).after(3).before(1).millis(), 7);
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
