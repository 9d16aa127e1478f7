//! What is known of a record besides its age: a feed that tells of changes makes it good for longer, and some events
//! make it good for nothing.

use crate::time::{Kind, Lives, Moment, Standing};

/// What a feed vouches for: nothing that was fetched since `since` has changed until `heard`, unless it said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// Since when nothing was missed.
    pub(crate) since: Moment,
    /// Up to when every change is known.
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
    /// Until then nothing counts as fresh: the feed is about to begin.
    starting_until: Moment,
}

impl Trust {
    /// The feed is about to begin, and should have by `until`. What is fetched before its begin may change without its
    /// telling so; hence nothing counts as fresh until then, unless the feed takes too long.
    pub(crate) fn await_feed(&mut self, until: Moment) {
        self.starting_until = until;
    }

    /// Time has passed: the feed has missed nothing since `begun`, and this is what it vouches for now.
    pub(crate) fn on_time(&mut self, begun: Option<Moment>, coverage: Option<Coverage>) {
        self.coverage = coverage;
        if let Some(begun) = begun {
            // What was fetched before it began may have changed before it began.
            self.suspected = self.suspected.max(begun);
            self.starting_until = Moment::default();
        }
    }

    /// Changes may have been missed: what is known is asked for again, and serves only where nobody can tell.
    pub(crate) fn suspect_all(&mut self, now: Moment) {
        self.suspected = self.suspected.max(now);
        self.coverage = None;
    }

    /// All that is known is wrong.
    pub(crate) fn forget_all(&mut self, now: Moment) {
        self.forgotten = now;
    }

    /// Whether a record that was fetched then is never served.
    pub(crate) fn is_forgotten(&self, fetched: Moment) -> bool {
        fetched <= self.forgotten
    }

    /// What a record is good for.
    pub(crate) fn standing(
        &self,
        lives: &Lives,
        kind: Kind,
        fetched: Moment,
        now: Moment,
    ) -> Standing {
        if self.is_forgotten(fetched) {
            return Standing::Dead;
        }
        match lives.standing(kind, fetched, now) {
            Standing::Dead => Standing::Dead,
            _ if self.is_suspected(fetched, now) => Standing::Stale,
            Standing::Stale if self.is_covered(lives, lives.fresh(kind), fetched, now) => {
                Standing::Fresh
            }
            standing => standing,
        }
    }

    /// Whether a record is fresh, be it a link or an absence.
    pub(crate) fn is_surely_fresh(&self, lives: &Lives, fetched: Moment, now: Moment) -> bool {
        let shorter = lives.fresh.min(lives.absent_fresh);
        !self.is_forgotten(fetched)
            && !self.is_suspected(fetched, now)
            && (lives.is_surely_fresh(fetched, now)
                || (self.is_covered(lives, shorter, fetched, now)
                    && fetched.age(now) < lives.stale))
    }

    fn is_suspected(&self, fetched: Moment, now: Moment) -> bool {
        fetched < self.suspected || now < self.starting_until
    }

    /// Whether the feed vouches for it: it would have said so if the record had changed, and was heard so lately that
    /// the record is as good as one that was fetched then.
    ///
    /// What was fetched soon after the feed began is left out, in case that who answered was further behind than was
    /// said. What was fetched at its very begin comes from the snapshot that the feed began from.
    fn is_covered(&self, lives: &Lives, fresh: u64, fetched: Moment, now: Moment) -> bool {
        self.coverage.is_some_and(|Coverage { since, heard }| {
            (fetched >= since.after(lives.fresh) || fetched == since)
                && fetched.age(now) < lives.with_feed
                && heard.age(now) < fresh
        })
    }
}

/// By what one record takes the place of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precedence {
    pub(crate) trust: Trust,
    pub(crate) lives: Lives,
    pub(crate) now: Moment,
    /// When the control plane was asked for the one that is offered; `None` if it is of another source.
    pub(crate) asked: Option<Moment>,
}

/// Of a record: its revision, and when it was fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    pub(crate) rev: u64,
    pub(crate) fetched: Moment,
}

impl Precedence {
    /// Whether a record of that revision may take the place of the one that is held. What is forgotten gives way to what the
    /// control plane was asked for since, of any revision: the database may have been restored, and what was known then
    /// never have been. To nothing else, for a change that was told since may count as forgotten: it is as old as the feed.
    pub(crate) fn may_replace(&self, rev: u64, held: Age) -> bool {
        let is_asked_since = |asked| !self.trust.is_forgotten(asked);
        (self.trust.is_forgotten(held.fetched) && self.asked.is_some_and(is_asked_since))
            || self
                .lives
                .may_replace(rev, held.rev, held.fetched, self.now)
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
        let since = at(1_000);
        let heard = at(heard);
        trust.on_time(Some(since), Some(Coverage { since, heard }));
        trust
    }

    /// `held`: revision and time.
    fn may_replace(trust: &Trust, rev: u64, [held, fetched]: [u64; 2]) -> bool {
        let precedence = Precedence {
            trust: *trust,
            lives: LIVES,
            now: at(40_001),
            asked: Some(at(40_001)),
        };
        let held = Age {
            rev: held,
            fetched: at(fetched),
        };
        precedence.may_replace(rev, held)
    }

    #[test]
    fn a_live_feed_keeps_records_fresh_up_to_a_bound() {
        assert_eq!(standing(heard(40_000), 6_000, 41_000), Standing::Fresh);
        assert_eq!(standing(heard(65_900), 6_000, 65_999), Standing::Fresh);
        assert_eq!(standing(heard(65_900), 6_000, 66_000), Standing::Stale);
        assert_eq!(standing(heard(95_900), 6_000, 96_000), Standing::Dead);
    }

    #[test]
    fn a_record_lives_as_long_after_the_feed_died_as_if_it_had_been_fetched_then() {
        let trust = heard(40_000);
        assert_eq!(standing(trust, 6_000, 44_999), Standing::Fresh);
        assert_eq!(standing(trust, 6_000, 45_000), Standing::Stale);
        assert_eq!(
            standing(trust, 44_000, 48_999),
            Standing::Fresh,
            "by its age"
        );
        let absent = trust.standing(&LIVES, Kind::Absent, at(6_000), at(42_000));
        assert_eq!(absent, Standing::Stale);
    }

    #[test]
    fn what_was_fetched_before_the_feed_began_is_asked_for_again() {
        let trust = heard(1_500);
        assert_eq!(standing(trust, 999, 1_500), Standing::Stale);
        assert_eq!(standing(trust, 1_000, 1_500), Standing::Fresh);
    }

    #[test]
    fn the_feed_does_not_vouch_for_what_was_fetched_soon_after_it_began() {
        let trust = heard(40_000);
        assert_eq!(standing(trust, 5_999, 40_000), Standing::Stale);
        assert_eq!(
            standing(trust, 5_999, 10_998),
            Standing::Fresh,
            "by its age"
        );
        let from_its_snapshot = standing(trust, 1_000, 40_000);
        assert_eq!(from_its_snapshot, Standing::Fresh);
    }

    #[test]
    fn nothing_is_fresh_while_the_feed_is_about_to_begin() {
        let mut trust = Trust::default();
        trust.await_feed(at(2_000));
        assert_eq!(standing(trust, 1_900, 1_999), Standing::Stale);
        assert_eq!(
            standing(trust, 1_900, 2_000),
            Standing::Fresh,
            "it takes too long"
        );
        trust.on_time(Some(at(500)), None);
        assert_eq!(standing(trust, 500, 600), Standing::Fresh);
        assert_eq!(standing(trust, 499, 600), Standing::Stale);
    }

    #[test]
    fn what_is_suspected_is_asked_for_again_but_not_worthless() {
        let mut trust = heard(40_000);
        trust.suspect_all(at(40_000));
        assert_eq!(standing(trust, 39_999, 40_001), Standing::Stale);
        assert_eq!(standing(trust, 40_000, 40_001), Standing::Fresh);
        assert!(!may_replace(&trust, 1, [2, 39_999]));
    }

    #[test]
    fn what_is_forgotten_is_worthless_and_gives_way() {
        let mut trust = heard(40_000);
        trust.forget_all(at(40_000));
        assert_eq!(standing(trust, 40_000, 40_001), Standing::Dead);
        assert_eq!(standing(trust, 40_001, 40_001), Standing::Fresh);
        assert!(may_replace(&trust, 1, [2, 40_000]));
    }
}
