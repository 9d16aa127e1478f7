//! What is known of a record besides its age: a feed that tells of changes makes it good for longer, and some events
//! make it good for nothing.

use crate::time::{Kind, Lives, Moment, Standing};

/// What a feed vouches for: nothing that was fetched since `since` has changed until `heard`, unless it said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) since: Moment,
    pub(crate) heard: Moment,
}

/// By what records are judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trust {
    /// None without a feed that was ever heard.
    coverage: Option<Coverage>,
    /// What was fetched before is asked for again before it is served.
    suspected: Moment,
    /// What was fetched then or before is never served.
    forgotten: Moment,
}

impl Trust {
    /// Time has passed, and this is what the feed vouches for now.
    ///
    /// After the clock was set back, what lies in its future would make every new record worthless.
    pub(crate) fn on_time(&mut self, now: Moment, coverage: Option<Coverage>) {
        self.coverage = coverage;
        self.suspected = self.suspected.min(now);
        self.forgotten = self.forgotten.min(now);
    }

    /// Changes may have been missed: what is known is asked for again, and serves only where nobody can tell.
    pub(crate) fn suspect_all(&mut self, now: Moment) {
        self.suspected = now;
        self.coverage = None;
    }

    /// All that is known is wrong.
    pub(crate) fn forget_all(&mut self, now: Moment) {
        self.forgotten = now;
    }

    /// What a record is good for.
    pub(crate) fn standing(
        &self,
        lives: &Lives,
        kind: Kind,
        fetched: Moment,
        now: Moment,
    ) -> Standing {
        if fetched <= self.forgotten {
            return Standing::Dead;
        }
        match lives.standing(kind, fetched, now) {
            Standing::Dead => Standing::Dead,
            _ if fetched < self.suspected => Standing::Stale,
            Standing::Stale if self.is_covered(lives, lives.fresh(kind), fetched, now) => {
                Standing::Fresh
            }
            standing => standing,
        }
    }

    /// Whether a record is fresh, be it a link or an absence.
    pub(crate) fn is_surely_fresh(&self, lives: &Lives, fetched: Moment, now: Moment) -> bool {
        let shorter = lives.fresh.min(lives.absent_fresh);
        fetched > self.forgotten
            && fetched >= self.suspected
            && (lives.is_surely_fresh(fetched, now)
                || (self.is_covered(lives, shorter, fetched, now)
                    && fetched.age(now).is_some_and(|age| age < lives.stale)))
    }

    /// Whether the feed vouches for it: it would have said so if the record had changed, and was heard so lately that
    /// the record is as good as one that was fetched then.
    fn is_covered(&self, lives: &Lives, fresh: u64, fetched: Moment, now: Moment) -> bool {
        let is_younger = |moment: Moment, limit| moment.age(now).is_some_and(|age| age < limit);
        self.coverage.is_some_and(|coverage| {
            fetched >= coverage.since
                && is_younger(fetched, lives.with_feed)
                && is_younger(coverage.heard, fresh)
        })
    }

    /// As [`Lives::may_replace`]; what is forgotten gives way to anything.
    pub(crate) fn may_replace(
        &self,
        lives: &Lives,
        rev: u64,
        held: u64,
        fetched: Moment,
        now: Moment,
    ) -> bool {
        fetched <= self.forgotten || lives.may_replace(rev, held, fetched, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES: Lives = Lives {
        fresh: 5_000,
        absent_fresh: 2_000,
        with_feed: 60_000,
        stale: 90_000,
    };
    const BEGIN: u64 = 1_000_000;

    fn at(millis: u64) -> Moment {
        Moment::from_millis(BEGIN + millis)
    }

    fn standing(trust: Trust, fetched: u64, now: u64) -> Standing {
        let [fetched, now] = [fetched, now].map(at);
        let of = |kind| trust.standing(&LIVES, kind, fetched, now);
        let [link, absent] = [Kind::Link, Kind::Absent].map(of);
        let is_surely_fresh = trust.is_surely_fresh(&LIVES, fetched, now);
        assert_eq!(is_surely_fresh, [link, absent] == [Standing::Fresh; 2]);
        link
    }

    /// A feed that began at 1,000 and was heard last at that time.
    fn heard(heard: u64) -> Trust {
        let mut trust = Trust::default();
        let coverage = Coverage {
            since: at(1_000),
            heard: at(heard),
        };
        trust.on_time(at(heard), Some(coverage));
        trust
    }

    #[test]
    fn a_live_feed_keeps_records_fresh_up_to_a_bound() {
        assert_eq!(standing(heard(40_000), 1_000, 41_000), Standing::Fresh);
        assert_eq!(standing(heard(60_900), 1_000, 60_999), Standing::Fresh);
        assert_eq!(standing(heard(60_900), 1_000, 61_000), Standing::Stale);
        assert_eq!(standing(heard(90_900), 1_000, 91_000), Standing::Dead);
    }

    #[test]
    fn a_record_lives_as_long_after_the_feed_died_as_if_it_had_been_fetched_then() {
        let trust = heard(40_000);
        assert_eq!(standing(trust, 1_000, 44_999), Standing::Fresh);
        assert_eq!(standing(trust, 1_000, 45_000), Standing::Stale);
        assert_eq!(
            standing(trust, 44_000, 48_999),
            Standing::Fresh,
            "by its age"
        );
        let absent = trust.standing(&LIVES, Kind::Absent, at(1_000), at(42_000));
        assert_eq!(absent, Standing::Stale);
    }

    #[test]
    fn the_feed_does_not_vouch_for_what_was_fetched_before_it_began() {
        let trust = heard(40_000);
        assert_eq!(standing(trust, 999, 40_000), Standing::Stale);
        assert_eq!(standing(trust, 999, 5_998), Standing::Fresh, "by its age");
    }

    #[test]
    fn what_is_suspected_is_asked_for_again_but_not_worthless() {
        let mut trust = heard(40_000);
        trust.suspect_all(at(40_000));
        assert_eq!(standing(trust, 39_999, 40_001), Standing::Stale);
        assert_eq!(standing(trust, 40_000, 40_001), Standing::Fresh);
        assert!(!trust.may_replace(&LIVES, 1, 2, at(39_999), at(40_001)));
    }

    #[test]
    fn what_is_forgotten_is_worthless_and_gives_way() {
        let mut trust = heard(40_000);
        trust.forget_all(at(40_000));
        assert_eq!(standing(trust, 40_000, 40_001), Standing::Dead);
        assert_eq!(standing(trust, 40_001, 40_001), Standing::Fresh);
        assert!(trust.may_replace(&LIVES, 1, 2, at(40_000), at(40_001)));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_make_new_records_worthless() {
        let mut trust = heard(40_000);
        trust.suspect_all(at(40_000));
        trust.forget_all(at(40_000));
        trust.on_time(at(10_000), None);
        assert_eq!(standing(trust, 10_001, 10_002), Standing::Fresh);
    }
}
