//! Lookups that are under way, and who waits for them.
//!
//! However many ask for a key, one lookup is in flight for it. Whoever waits may leave at any time: the lookup goes on
//! for the others, and for the cache. Both numbers are bounded.

use crate::time::Moment;
use foldhash::fast::SeedableRandomState;
use hashbrown::{HashMap, HashSet};
use std::rc::Rc;

type Map<K, V> = HashMap<K, V, SeedableRandomState>;

/// The number of a stream, as the proxy gives it.
pub type StreamId = u32;

/// The number of a callout, as the proxy gives it.
pub type Token = u32;

/// The number of a lookup in this table; never used twice while one is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlightId(u32);

/// One lookup.
#[derive(Debug)]
struct Flight {
    key: Rc<[u8]>,
    started: Moment,
    sent: Moment,
    token: Option<Token>,
    waiters: HashSet<StreamId, SeedableRandomState>,
}

/// All lookups of a worker.
#[derive(Debug)]
pub(crate) struct Flights {
    flights: Map<FlightId, Flight>,
    by_key: Map<Rc<[u8]>, FlightId>,
    by_token: Map<Token, FlightId>,
    waiting: Map<StreamId, FlightId>,
    next: u32,
    max_pending: usize,
    max_waiting: usize,
    hasher: SeedableRandomState,
}

/// What became of the wish to wait for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// A lookup is to be sent.
    Started(FlightId),
    /// One is under way.
    Joined,
    /// A bound is reached: too many lookups, or too many who wait.
    Full,
}

/// A lookup that has ended.
#[derive(Debug)]
pub(crate) struct Landed {
    /// The key that was asked for.
    pub(crate) key: Rc<[u8]>,
    /// When the lookup was wanted, by the coarse clock.
    pub(crate) started: Moment,
    /// When it was sent, by the exact clock.
    pub(crate) sent: Moment,
    /// Those who still wait, in the order in which they came.
    pub(crate) waiters: Vec<StreamId>,
}

impl Flights {
    /// A table for at most `max_pending` lookups and `max_waiting` who wait.
    pub(crate) fn new(max_pending: usize, max_waiting: usize, hasher: SeedableRandomState) -> Self {
        Self {
            flights: Map::with_hasher(hasher.clone()),
            by_key: Map::with_hasher(hasher.clone()),
            by_token: Map::with_hasher(hasher.clone()),
            waiting: Map::with_hasher(hasher.clone()),
            next: 0,
            max_pending,
            max_waiting,
            hasher,
        }
    }

    /// Changes the bounds, for those who come.
    pub(crate) fn set_bounds(&mut self, max_pending: usize, max_waiting: usize) {
        self.max_pending = max_pending;
        self.max_waiting = max_waiting;
    }

    /// Whether a lookup of that key is under way.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.by_key.contains_key(key)
    }

    /// Makes a stream wait for a key.
    pub(crate) fn join(&mut self, key: &[u8], stream: StreamId, now: Moment) -> Join {
        if self.waiting.len() >= self.max_waiting {
            return Join::Full;
        }
        let (id, join) = match self.by_key.get(key) {
            Some(id) => (*id, Join::Joined),
            None => match self.start(key, now) {
                Some(id) => (id, Join::Started(id)),
                None => return Join::Full,
            },
        };
        if let Some(flight) = self.flights.get_mut(&id) {
            flight.waiters.insert(stream);
            self.waiting.insert(stream, id);
        }
        join
    }

    /// Starts a lookup that nobody waits for. Nothing if there is one for that key, or no room for one.
    pub(crate) fn start(&mut self, key: &[u8], now: Moment) -> Option<FlightId> {
        if self.has(key) || self.flights.len() >= self.max_pending {
            return None;
        }
        let id = self.unused();
        let key: Rc<[u8]> = key.into();
        self.by_key.insert(key.clone(), id);
        let flight = Flight {
            key,
            started: now,
            sent: now,
            token: None,
            waiters: HashSet::with_hasher(self.hasher.clone()),
        };
        self.flights.insert(id, flight);
        Some(id)
    }

    /// The proxy has taken the callout of a lookup.
    pub(crate) fn sent(&mut self, id: FlightId, token: Token, now: Moment) {
        if let Some(flight) = self.flights.get_mut(&id) {
            flight.sent = now;
            flight.token = Some(token);
            self.by_token.insert(token, id);
        }
    }

    /// The key of a lookup, and when it was wanted. Nothing if it has ended.
    pub(crate) fn get(&self, id: FlightId) -> Option<(Rc<[u8]>, Moment)> {
        let flight = self.flights.get(&id)?;
        Some((flight.key.clone(), flight.started))
    }

    /// A stream no longer waits, if it ever did.
    pub(crate) fn leave(&mut self, stream: StreamId) {
        // Of nearly every stream that ends, nobody has ever waited: not even its hash is needed.
        if self.waiting.is_empty() {
            return;
        }
        let flight = self.waiting.remove(&stream);
        if let Some(flight) = flight.and_then(|id| self.flights.get_mut(&id)) {
            flight.waiters.remove(&stream);
        }
    }

    /// The callout of that token has ended. Nothing if it is none of ours, or was given up.
    pub(crate) fn land_token(&mut self, token: Token) -> Option<Landed> {
        let id = *self.by_token.get(&token)?;
        self.land(id)
    }

    /// A lookup has ended.
    pub(crate) fn land(&mut self, id: FlightId) -> Option<Landed> {
        let flight = self.flights.remove(&id)?;
        self.by_key.remove(&flight.key);
        if let Some(token) = flight.token {
            self.by_token.remove(&token);
        }
        // The proxy numbers streams in the order in which they come.
        let mut waiters: Vec<_> = flight.waiters.into_iter().collect();
        waiters.sort_unstable();
        for stream in &waiters {
            self.waiting.remove(stream);
        }
        Some(Landed {
            key: flight.key,
            started: flight.started,
            sent: flight.sent,
            waiters,
        })
    }

    /// The lookups that have been under way for `limit` milliseconds or for an unknown time.
    pub(crate) fn overdue(&self, now: Moment, limit: u64) -> Vec<FlightId> {
        let late = |flight: &Flight| flight.started.age(now).is_none_or(|age| age >= limit);
        let flights = self.flights.iter();
        flights
            .filter(|(_, flight)| late(flight))
            .map(|(id, _)| *id)
            .collect()
    }

    fn unused(&mut self) -> FlightId {
        loop {
            self.next = self.next.wrapping_add(1);
            let id = FlightId(self.next);
            if !self.flights.contains_key(&id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldhash::SharedSeed;

    const NOW: Moment = Moment::from_millis(1_000_000);

    fn flights() -> Flights {
        let hasher = SeedableRandomState::with_seed(7, SharedSeed::global_fixed());
        Flights::new(2, 3, hasher)
    }

    fn started(join: Join) -> FlightId {
        match join {
            Join::Started(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn is_empty(flights: &Flights) -> bool {
        flights.flights.is_empty()
            && flights.by_key.is_empty()
            && flights.by_token.is_empty()
            && flights.waiting.is_empty()
    }

    #[test]
    fn those_who_ask_for_the_same_key_share_a_flight_and_land_in_order() {
        let mut flights = flights();
        let id = started(flights.join(b"k", 12, NOW));
        assert_eq!(flights.join(b"k", 11, NOW), Join::Joined);
        flights.sent(id, 5, NOW);
        assert_eq!(flights.join(b"k", 13, NOW), Join::Joined);
        let landed = flights.land_token(5).unwrap();
        assert_eq!((landed.key.as_ref(), landed.started), (&b"k"[..], NOW));
        assert_eq!(landed.waiters, [11, 12, 13]);
        assert!(is_empty(&flights));
        assert!(flights.land_token(5).is_none());
    }

    #[test]
    fn whoever_leaves_is_forgotten_and_the_flight_goes_on() {
        let mut flights = flights();
        let id = started(flights.join(b"k", 1, NOW));
        flights.join(b"k", 2, NOW);
        flights.leave(1);
        flights.leave(1);
        flights.leave(77);
        assert!(flights.has(b"k"));
        assert_eq!(flights.land(id).unwrap().waiters, [2]);
        flights.leave(2);
        assert!(is_empty(&flights));
    }

    #[test]
    fn both_bounds_are_kept_and_room_comes_back() {
        let mut flights = flights();
        let a = started(flights.join(b"a", 1, NOW));
        started(flights.join(b"b", 2, NOW));
        assert_eq!(flights.join(b"c", 3, NOW), Join::Full, "lookups");
        assert_eq!(flights.start(b"c", NOW), None, "lookups");
        assert_eq!(flights.join(b"a", 3, NOW), Join::Joined);
        assert_eq!(flights.join(b"a", 4, NOW), Join::Full, "those who wait");
        flights.leave(3);
        assert_eq!(flights.join(b"a", 4, NOW), Join::Joined);
        flights.land(a).unwrap();
        started(flights.join(b"c", 5, NOW));
    }

    #[test]
    fn a_lookup_for_nobody_is_not_started_twice() {
        let mut flights = flights();
        let id = flights.start(b"k", NOW).unwrap();
        assert_eq!(flights.start(b"k", NOW), None);
        assert_eq!(flights.join(b"k", 1, NOW), Join::Joined);
        assert_eq!(flights.land(id).unwrap().waiters, [1]);
    }

    #[test]
    fn a_lookup_that_never_ends_is_overdue_also_after_the_clock_was_set_back() {
        let mut flights = flights();
        let id = flights.start(b"k", NOW).unwrap();
        let later = |millis: u64| Moment::from_millis(NOW.millis() + millis);
        assert!(flights.overdue(later(999), 1_000).is_empty());
        assert_eq!(flights.overdue(later(1_000), 1_000), [id]);
        assert_eq!(flights.overdue(Moment::from_millis(5), 1_000), [id]);
    }
}
