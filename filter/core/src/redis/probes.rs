//! Probes that determine if Redis is current.
//!
//! A Redis that answers may be behind: it refuses writes, was demoted, or was restored from older data. So each connection is
//! probed for the publisher's progress in the Redis at its other end, whose answers count only while the publisher has written
//! up to the position where the feed was read. They are current as of the last read of the feed before the probe.

use crate::time::Moment;
use edgelink_wire::redis::FeedState;

/// Milliseconds from one probe to the next.
const PROBE_INTERVAL_MILLIS: u64 = 500;

/// Milliseconds after which a probe has expired.
const PROBE_LASTS_MILLIS: u64 = 1_500;

/// Progress of the feed, by which Redis is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedView {
    /// The last beat.
    pub(crate) beat: FeedState,
    /// Moment up to which every change is known.
    pub(crate) read_until: Moment,
}

/// The probes of a connection, and the resulting state of the Redis at its other end.
#[derive(Debug)]
pub(crate) struct Probes {
    /// Period for which the feed may be silent, in milliseconds, and its maximum for this connection.
    fresh_millis: u64,
    most_millis: u64,
    feed: Option<FeedView>,
    /// The probe in flight.
    asked: Option<Probe>,
    /// The last answered probe, if it found Redis to be current.
    shown: Option<Probe>,
    next: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    sent: Moment,
    /// Progress of the feed by then.
    feed: FeedView,
}

/// A Redis that is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    /// The generation in which links are looked up.
    pub(crate) generation: u64,
    /// Moment as of which, or later, it is current.
    pub(crate) at: Moment,
}

impl Probes {
    /// A connection that was not probed yet, with at most `most_millis` milliseconds of silence of the feed.
    pub(crate) fn new(most_millis: u64) -> Self {
        Self {
            fresh_millis: most_millis,
            most_millis,
            feed: None,
            asked: None,
            shown: None,
            next: Moment::default(),
        }
    }

    /// Sets the last beat of the feed, `None` without one, and the milliseconds for which the feed may be silent.
    pub(crate) fn set_feed(&mut self, feed: Option<FeedView>, fresh_millis: u64) {
        self.feed = feed;
        self.fresh_millis = fresh_millis.min(self.most_millis);
    }

    /// True if a probe is due.
    pub(crate) fn is_probe_due(&self, now: Moment) -> bool {
        self.feed.is_some() && self.asked.is_none() && now >= self.next
    }

    /// A probe is sent.
    pub(crate) fn on_sent(&mut self, now: Moment) {
        self.asked = self.feed.map(|feed| Probe { sent: now, feed });
        self.next = now.after(PROBE_INTERVAL_MILLIS);
    }

    /// The probe is answered with the publisher's progress; `None` if it has written nothing.
    pub(crate) fn on_answer(&mut self, state: Option<FeedState>) {
        let probe = self.asked.take();
        self.shown = probe.filter(|Probe { feed, .. }| {
            state.is_some_and(|state| state.covers(feed.beat.generation, feed.beat.number))
        });
    }

    /// The probe has failed: Redis is as current as before.
    pub(crate) fn on_failure(&mut self) {
        self.asked = None;
    }

    /// The connection was lost or replaced.
    pub(crate) fn on_lost(&mut self) {
        self.asked = None;
        self.shown = None;
        self.next = Moment::default();
    }

    /// The generation to look links up in; `None` if Redis is not known to be current.
    pub(crate) fn current(&self, now: Moment) -> Option<Current> {
        let (feed, shown) = (self.feed?, self.shown?);
        let generation = feed.beat.generation;
        let is_current = feed.read_until.age(now) < self.fresh_millis
            && shown.sent.age(now) < PROBE_LASTS_MILLIS
            && shown.feed.beat.generation == generation;
        is_current.then_some(Current {
            generation,
            at: shown.feed.read_until,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_millis(1_000_000 + millis)
    }

    fn state(generation: u64, number: u64) -> FeedState {
        FeedState { generation, number }
    }

    fn view(generation: u64, number: u64, read_until: u64) -> FeedView {
        FeedView {
            beat: state(generation, number),
            read_until: at(read_until),
        }
    }

    /// A connection that was probed at 100, and found to be current as of 0.
    fn probed() -> Probes {
        let mut probes = Probes::new(5_000);
        probes.set_feed(Some(view(7, 3, 0)), 5_000);
        assert!(probes.is_probe_due(at(100)));
        probes.on_sent(at(100));
        assert_eq!(probes.current(at(100)), None, "not answered yet");
        probes.on_answer(Some(state(7, 3)));
        probes
    }

    const CURRENT: Option<Current> = Some(Current {
        generation: 7,
        at: Moment::from_millis(1_000_000),
    });

    #[test]
    fn redis_when_a_probe_shows_the_beat_is_current_for_a_while() {
        let probes = probed();
        assert_eq!(probes.current(at(100)), CURRENT);
        assert_eq!(probes.current(at(1_599)), CURRENT);
        assert_eq!(probes.current(at(1_600)), None);
    }

    #[test]
    fn probe_when_another_is_under_way_is_not_due() {
        let mut probes = probed();
        assert!(!probes.is_probe_due(at(599)));
        assert!(probes.is_probe_due(at(600)));
        probes.on_sent(at(600));
        assert!(!probes.is_probe_due(at(9_000)), "one is under way");
        probes.on_failure();
        assert!(probes.is_probe_due(at(9_000)));
        probes.on_lost();
        assert!(probes.is_probe_due(at(9_000)));
        probes.set_feed(None, 5_000);
        assert!(!probes.is_probe_due(at(9_000)));
    }

    #[test]
    fn redis_when_behind_or_of_another_generation_is_not_current() {
        let states = [state(7, 2), state(6, 9), state(8, 9)].map(Some);
        for shown in states.into_iter().chain([None]) {
            let mut probes = probed();
            probes.on_sent(at(600));
            probes.on_answer(shown);
            assert_eq!(probes.current(at(700)), None, "{shown:?}");
        }
    }

    #[test]
    fn redis_when_the_feed_was_not_read_lately_is_not_current() {
        let mut probes = Probes::new(1_800);
        probes.set_feed(Some(view(7, 3, 0)), 5_000);
        probes.on_sent(at(1_000));
        probes.on_answer(Some(state(7, 3)));
        assert_eq!(probes.current(at(1_799)), CURRENT);
        assert_eq!(probes.current(at(1_800)), None);
    }

    #[test]
    fn probe_when_it_fails_revokes_nothing() {
        let mut probes = probed();
        probes.on_sent(at(600));
        probes.on_failure();
        assert_eq!(probes.current(at(700)), CURRENT);
        probes.on_lost();
        assert_eq!(probes.current(at(700)), None);
    }

    #[test]
    fn redis_when_there_is_no_feed_is_not_current() {
        let mut probes = probed();
        probes.set_feed(Some(view(7, 4, 0)), 5_000);
        assert_eq!(
            probes.current(at(200)),
            CURRENT,
            "as of what was probed for"
        );
        probes.set_feed(Some(view(8, 4, 200)), 5_000);
        assert_eq!(probes.current(at(200)), None, "another generation");
        probes.set_feed(None, 5_000);
        assert_eq!(probes.current(at(200)), None);
        let mut silent = Probes::new(5_000);
        silent.set_feed(Some(view(7, 3, 0)), 5_000);
        silent.on_sent(at(5_000));
        silent.on_answer(Some(state(7, 3)));
        assert_eq!(silent.current(at(5_000)), None);
    }
}
