//! Freshness of records: by age, by a feed that covers them, and by events that make them stale or invalid.

use crate::time::Moment;
use edgelink_wire::record::RecordKind;

/// The lifetimes of cached records, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Period for which a link is served without another lookup.
    pub fresh_millis: u64,
    /// Period for which an absence is served without another lookup.
    pub absent_fresh_millis: u64,
    /// Period for which a record is served without another lookup while a feed covers it.
    pub with_feed_millis: u64,
    /// Maximum age of a record that is served because the lookup fails.
    pub stale_millis: u64,
}

/// Permitted use of a cached record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usability {
    /// It is served.
    Fresh,
    /// It is served if another lookup fails.
    Stale,
    /// It is never served.
    Unusable,
}

/// Coverage of a feed: every change between `since` and `read_until` to a record fetched after `since` came by the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// Moment since which nothing was missed.
    pub(crate) since: Moment,
    /// Moment up to which every change is known.
    pub(crate) read_until: Moment,
}

/// Feed coverage, and the moments before which records are stale or invalid.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Freshness {
    /// `None` before a feed was read.
    coverage: Option<Coverage>,
    /// Records fetched before are stale.
    stale_before: Moment,
    /// Records fetched then or before are never served.
    invalid_until: Moment,
    /// Until then no record counts as fresh: the feed is about to begin.
    starting_until: Moment,
}

impl Lifetimes {
    /// Period for which a record of that kind is fresh by its age alone.
    #[must_use]
    pub(crate) fn fresh_millis_of(&self, kind: RecordKind) -> u64 {
        match kind {
            RecordKind::Link => self.fresh_millis,
            RecordKind::Absent => self.absent_fresh_millis,
        }
    }

    /// Longest period for which a record may be fresh, by its age or by a feed.
    #[must_use]
    pub fn longest_fresh_millis(&self) -> u64 {
        self.fresh_millis
            .max(self.absent_fresh_millis)
            .max(self.with_feed_millis)
    }
}

impl Freshness {
    /// The feed is about to begin, and should have by `until`. It does not report changes before its start to records fetched
    /// earlier; hence no record counts as fresh until then, unless the feed takes too long.
    pub(crate) fn await_feed(&mut self, until: Moment) {
        self.starting_until = until;
    }

    /// Time has passed: the feed has missed nothing since `begun`, and covers this now.
    pub(crate) fn on_time(&mut self, begun: Option<Moment>, coverage: Option<Coverage>) {
        self.coverage = coverage;
        if let Some(begun) = begun {
            // A record fetched before the feed began may have changed before it began.
            self.stale_before = self.stale_before.max(begun);
            self.starting_until = Moment::default();
        }
    }

    /// Changes may have been missed: every record is looked up again, and served only if that fails.
    pub(crate) fn mark_all_stale(&mut self, now: Moment) {
        self.stale_before = self.stale_before.max(now);
        self.coverage = None;
    }

    /// Makes every record unusable.
    pub(crate) fn invalidate_all(&mut self, now: Moment) {
        self.invalid_until = now;
    }

    /// True if a record fetched then was invalidated.
    pub(crate) fn is_invalid(&self, fetched: Moment) -> bool {
        fetched <= self.invalid_until
    }

    /// Permitted use of a record.
    pub(crate) fn usability(
        &self,
        lifetimes: &Lifetimes,
        kind: RecordKind,
        fetched: Moment,
        now: Moment,
    ) -> Usability {
        let (age, fresh) = (fetched.age(now), lifetimes.fresh_millis_of(kind));
        let is_covered = || self.is_covered(lifetimes, fresh, fetched, now);
        if self.is_invalid(fetched) || (age >= fresh && age >= lifetimes.stale_millis) {
            Usability::Unusable
        } else if !self.is_stale(fetched, now) && (age < fresh || is_covered()) {
            Usability::Fresh
        } else {
            Usability::Stale
        }
    }

    /// True if a record is fresh, be it a link or an absence.
    pub(crate) fn is_surely_fresh(
        &self,
        lifetimes: &Lifetimes,
        fetched: Moment,
        now: Moment,
    ) -> bool {
        let shorter = lifetimes.fresh_millis.min(lifetimes.absent_fresh_millis);
        !self.is_invalid(fetched)
            && !self.is_stale(fetched, now)
            && (fetched.age(now) < shorter
                || (self.is_covered(lifetimes, shorter, fetched, now)
                    && fetched.age(now) < lifetimes.stale_millis))
    }

    fn is_stale(&self, fetched: Moment, now: Moment) -> bool {
        fetched < self.stale_before || now < self.starting_until
    }

    /// True if the feed covers the record: it would have reported a change, and was read so recently that
    /// the record is as good as one fetched then.
    ///
    /// Records fetched soon after the feed began are not covered, in case the source was further behind than it
    /// reported. A record fetched exactly at its start comes from the snapshot that the feed began from.
    fn is_covered(&self, lifetimes: &Lifetimes, fresh: u64, fetched: Moment, now: Moment) -> bool {
        self.coverage.is_some_and(|Coverage { since, read_until }| {
            (fetched >= since.after(lifetimes.fresh_millis) || fetched == since)
                && fetched.age(now) < lifetimes.with_feed_millis
                && read_until.age(now) < fresh
        })
    }
}

/// The rule by which one record replaces another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precedence {
    pub(crate) freshness: Freshness,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) now: Moment,
    /// Time at which the new record was requested from the control plane; `None` if it is from another source.
    pub(crate) asked: Option<Moment>,
}

/// Revision and fetch time of a held record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldRevision {
    pub(crate) rev: u64,
    pub(crate) fetched: Moment,
}

impl Precedence {
    /// True if a record of that revision may replace the held one: not if it is older, unless the held one is past `stale`.
    /// Otherwise the caches could never follow a database that was restored from a backup.
    ///
    /// An invalidated record is replaced by any revision requested from the control plane since: the database may have been
    /// restored to a state without the held one. It is replaced by nothing else, because a change applied since may count as
    /// invalidated: it is as old as the feed.
    pub(crate) fn may_replace(&self, rev: u64, held: HeldRevision) -> bool {
        let is_asked_since = |asked| !self.freshness.is_invalid(asked);
        (self.freshness.is_invalid(held.fetched) && self.asked.is_some_and(is_asked_since))
            || rev >= held.rev
            || held.fetched.age(self.now) >= self.lifetimes.stale_millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIMES: Lifetimes = Lifetimes {
        fresh_millis: 5_000,
        absent_fresh_millis: 2_000,
        with_feed_millis: 60_000,
        stale_millis: 90_000,
    };
    /// The usability of records that no feed covers.
    const AGES: Lifetimes = Lifetimes {
        fresh_millis: 5_000,
        absent_fresh_millis: 2_000,
        with_feed_millis: 30_000,
        stale_millis: 60_000,
    };

    const BEGIN: u64 = 1_000_000;

    fn at(millis: u64) -> Moment {
        Moment::from_millis(BEGIN + millis)
    }

    fn usability(freshness: Freshness, fetched: u64, now: u64) -> Usability {
        let [fetched, now] = [fetched, now].map(at);
        let of = |kind| freshness.usability(&LIFETIMES, kind, fetched, now);
        let [link, absent] = [RecordKind::Link, RecordKind::Absent].map(of);
        let is_surely_fresh = freshness.is_surely_fresh(&LIFETIMES, fetched, now);
        assert_eq!(is_surely_fresh, [link, absent] == [Usability::Fresh; 2]);
        link
    }

    /// The coverage of a feed that began at 1,000 and was last read then.
    fn read_until(read_until: u64) -> Freshness {
        let mut freshness = Freshness::default();
        let since = at(1_000);
        let read_until = at(read_until);
        freshness.on_time(Some(since), Some(Coverage { since, read_until }));
        freshness
    }

    /// `held`: revision and time.
    fn may_replace(freshness: &Freshness, rev: u64, [held, fetched]: [u64; 2]) -> bool {
        let precedence = Precedence {
            freshness: *freshness,
            lifetimes: LIFETIMES,
            now: at(40_001),
            asked: Some(at(40_001)),
        };
        let held = HeldRevision {
            rev: held,
            fetched: at(fetched),
        };
        precedence.may_replace(rev, held)
    }

    #[test]
    fn record_when_it_ages_is_fresh_then_stale_then_unusable() {
        let freshness = Freshness::default();
        for (kind, age, usability) in [
            (RecordKind::Link, 0, Usability::Fresh),
            (RecordKind::Link, 4_999, Usability::Fresh),
            (RecordKind::Link, 5_000, Usability::Stale),
            (RecordKind::Link, 59_999, Usability::Stale),
            (RecordKind::Link, 60_000, Usability::Unusable),
            (RecordKind::Absent, 1_999, Usability::Fresh),
            (RecordKind::Absent, 2_000, Usability::Stale),
            (RecordKind::Absent, 60_000, Usability::Unusable),
        ] {
            let [fetched, now] = [100_000, 100_000 + age].map(Moment::from_millis);
            assert_eq!(
                freshness.usability(&AGES, kind, fetched, now),
                usability,
                "{kind:?} {age}"
            );
            assert_eq!(freshness.is_surely_fresh(&AGES, fetched, now), age < 2_000);
        }
    }

    #[test]
    fn record_when_of_lower_rev_replaces_only_the_unusable() {
        let fetched = Moment::from_millis(100_000);
        for (rev, held, age, may) in [
            (2, 1, 0, true),
            (1, 1, 0, true),
            (1, 2, 59_999, false),
            (1, 2, 60_000, true),
        ] {
            let now = Moment::from_millis(100_000 + age);
            let precedence = Precedence {
                freshness: Freshness::default(),
                lifetimes: AGES,
                now,
                asked: None,
            };
            let held = HeldRevision { rev: held, fetched };
            assert_eq!(precedence.may_replace(rev, held), may);
        }
    }

    #[test]
    fn record_when_the_feed_lives_stays_fresh_up_to_a_bound() {
        assert_eq!(
            usability(read_until(40_000), 6_000, 41_000),
            Usability::Fresh
        );
        assert_eq!(
            usability(read_until(65_900), 6_000, 65_999),
            Usability::Fresh
        );
        assert_eq!(
            usability(read_until(65_900), 6_000, 66_000),
            Usability::Stale
        );
        assert_eq!(
            usability(read_until(95_900), 6_000, 96_000),
            Usability::Unusable
        );
    }

    #[test]
    fn record_when_the_feed_died_lives_as_if_fetched_then() {
        let freshness = read_until(40_000);
        assert_eq!(usability(freshness, 6_000, 44_999), Usability::Fresh);
        assert_eq!(usability(freshness, 6_000, 45_000), Usability::Stale);
        assert_eq!(
            usability(freshness, 44_000, 48_999),
            Usability::Fresh,
            "by its age"
        );
        let absent = freshness.usability(&LIFETIMES, RecordKind::Absent, at(6_000), at(42_000));
        assert_eq!(absent, Usability::Stale);
    }

    #[test]
    fn record_when_fetched_before_the_feed_began_is_stale() {
        let freshness = read_until(1_500);
        assert_eq!(usability(freshness, 999, 1_500), Usability::Stale);
        assert_eq!(usability(freshness, 1_000, 1_500), Usability::Fresh);
    }

    #[test]
    fn record_when_fetched_soon_after_the_begin_is_not_covered() {
        let freshness = read_until(40_000);
        assert_eq!(usability(freshness, 5_999, 40_000), Usability::Stale);
        assert_eq!(
            usability(freshness, 5_999, 10_998),
            Usability::Fresh,
            "by its age"
        );
        let from_its_snapshot = usability(freshness, 1_000, 40_000);
        assert_eq!(from_its_snapshot, Usability::Fresh);
    }

    #[test]
    fn record_when_the_feed_is_about_to_begin_is_stale() {
        let mut freshness = Freshness::default();
        freshness.await_feed(at(2_000));
        assert_eq!(usability(freshness, 1_900, 1_999), Usability::Stale);
        assert_eq!(
            usability(freshness, 1_900, 2_000),
            Usability::Fresh,
            "it takes too long"
        );
        freshness.on_time(Some(at(500)), None);
        assert_eq!(usability(freshness, 500, 600), Usability::Fresh);
        assert_eq!(usability(freshness, 499, 600), Usability::Stale);
    }

    #[test]
    fn record_when_marked_stale_keeps_its_precedence() {
        let mut freshness = read_until(40_000);
        freshness.mark_all_stale(at(40_000));
        assert_eq!(usability(freshness, 39_999, 40_001), Usability::Stale);
        assert_eq!(usability(freshness, 40_000, 40_001), Usability::Fresh);
        assert!(!may_replace(&freshness, 1, [2, 39_999]));
    }

    #[test]
    fn record_when_invalidated_is_unusable_and_gives_way() {
        let mut freshness = read_until(40_000);
        freshness.invalidate_all(at(40_000));
        assert_eq!(usability(freshness, 40_000, 40_001), Usability::Unusable);
        assert_eq!(usability(freshness, 40_001, 40_001), Usability::Fresh);
        assert!(may_replace(&freshness, 1, [2, 40_000]));
    }
}
