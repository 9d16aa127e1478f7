//! Lookups in flight, and their waiters.
//!
//! However many requests need a key, one lookup is in flight for it. A waiter may leave at any time: the lookup stays for the
//! others, and for the cache. The numbers of lookups and waiters are bounded.

use crate::host::{NEVER_WRITTEN, Version};
use crate::request::{Head, Headers};
use crate::settings::Settings;
use crate::time::Moment;
use foldhash::fast::SeedableRandomState;
use hashbrown::{HashMap, HashTable};
use slab::Slab;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Map<K, V> = HashMap<K, V, SeedableRandomState>;

/// The number of a stream, as the proxy gives it.
pub type StreamId = u32;

/// The number of a callout, as the proxy gives it.
pub type Token = u32;

/// The id of a lookup in this table. Slots are reused, so a serial number goes with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightId {
    purpose: Purpose,
    place: u32,
    serial: u64,
}

/// The first serial number of the next table. Each table has its own range, large enough for ever: a table that replaces another
/// one after a panic does not know the earlier lookups.
static NEXT_SERIALS: AtomicU64 = AtomicU64::new(0);
const SERIALS_A_TABLE: u64 = 1 << 40;

/// The kind of request in a table of flights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Records of links.
    Links,
    /// Visits of limited links.
    Visits,
}

impl FlightId {
    pub(crate) fn purpose(self) -> Purpose {
        self.purpose
    }
}

/// A stream that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiter {
    /// Its number.
    pub stream: StreamId,
    /// True if its path has more than a code, a query or further segments, which the answer may depend on.
    pub has_more: bool,
    /// True if its path continues behind the code.
    pub is_below: bool,
    /// True if redirecting it is a click.
    pub is_click: bool,
    /// True if clicks are counted, and redirecting it is one: it is no prefetch.
    pub is_counted: bool,
    /// True for a [prefetch](Head::is_prefetch), which is known when it begins to wait.
    pub is_prefetch: bool,
    /// True if its method is neither GET nor HEAD.
    pub is_other: bool,
    /// True for a form, which is held for its link ([`crate::forms`]).
    pub is_form: bool,
}

impl Waiter {
    /// The waiter with its final flags, once its headers are known.
    pub(crate) fn of(self, head: &Head<'_, impl Headers>) -> Self {
        let is_prefetch = head.headers.is_prefetch();
        Self {
            is_counted: self.is_counted && !is_prefetch,
            is_prefetch,
            ..self
        }
    }
}

/// Key, start and slot version of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingLookup {
    pub(crate) key: Arc<[u8]>,
    /// Time at which the lookup was requested.
    pub(crate) started: Moment,
    /// Version of the key's slot at that time.
    pub(crate) version: Version,
}

/// Changes from the feed to the key of a lookup in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overtaken {
    /// The greatest revision.
    rev: u64,
    /// Set if the link has changed and its new revision is unknown.
    is_unknown: bool,
}

impl Overtaken {
    /// True if an answer with that revision may be older than the change.
    pub(crate) fn is_ahead_of(self, rev: u64) -> bool {
        self.is_unknown || rev < self.rev
    }
}

/// One lookup.
#[derive(Debug)]
struct Flight {
    serial: u64,
    /// The hash of its key.
    hash: u64,
    /// Its share of the room.
    of: Subject,
    asked: PendingLookup,
    overtaken: Overtaken,
    /// Number of repetitions so far.
    repeats: u32,
    sent: Moment,
    token: Option<Token>,
    /// In order of arrival, which is the order of their numbers until those wrap around.
    waiters: Vec<Waiter>,
}

/// All lookups of a worker.
#[derive(Debug)]
pub(crate) struct Flights {
    purpose: Purpose,
    flights: Slab<Flight>,
    /// Slots of flights by their keys.
    by_key: HashTable<u32>,
    by_token: Map<Token, FlightId>,
    waiting: Map<StreamId, FlightId>,
    serial: u64,
    /// Number of lookups of keys whose link is not cached.
    unknown: usize,
    /// Number of lookups of hosts.
    hosts: usize,
    bounds: FlightBounds,
    hasher: SeedableRandomState,
}

/// Bounds of lookups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlightBounds {
    /// Maximum number of lookups.
    pub(crate) pending: usize,
    /// Maximum number of waiters.
    pub(crate) waiting: usize,
    /// Milliseconds after which a lookup is too old for others to join: its answer may be as old. A worker that
    /// was suspended may not have seen its end yet.
    pub(crate) age_millis: u64,
}

impl FlightBounds {
    /// The age up to which a lookup is shared in any case, in milliseconds.
    const LEAST_AGE_MILLIS: u64 = 1_000;

    /// The bounds in the settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        let (control_plane, lifetimes) = (&settings.control_plane, &settings.lifetimes);
        let fresh = lifetimes.fresh_millis.min(lifetimes.absent_fresh_millis);
        Self {
            pending: control_plane.max_pending,
            waiting: control_plane.max_waiting,
            age_millis: fresh.max(Self::LEAST_AGE_MILLIS),
        }
    }

    /// The bounds for requests for visits, of which there is one per link however old it is.
    pub(crate) fn of_visits(settings: &Settings) -> Self {
        Self {
            age_millis: u64::MAX,
            ..Self::of(settings)
        }
    }
}

/// Parameters of a new lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Its share of the room for lookups.
    pub(crate) of: Subject,
    /// Version of the key's slot.
    pub(crate) version: Version,
    pub(crate) now: Moment,
}

impl Wanted {
    /// A lookup of a key whose link is cached.
    pub(crate) fn held(now: Moment) -> Self {
        Self {
            of: Subject::HeldLink,
            version: NEVER_WRITTEN,
            now,
        }
    }

    /// A lookup of an unknown key whose slot has that version.
    pub(crate) fn unknown(version: Version, now: Moment) -> Self {
        Self {
            of: Subject::UnknownLink,
            version,
            now,
        }
    }

    /// A lookup of an unknown host whose slot has that version.
    pub(crate) fn host(version: Version, now: Moment) -> Self {
        Self {
            of: Subject::Host,
            version,
            now,
        }
    }
}

/// The subject of a lookup: a flood of one leaves room for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A cached link: a part of the room is reserved for these.
    HeldLink,
    /// An unknown key.
    UnknownLink,
    /// A host, which a visitor may choose freely: limited to a small part of the room.
    Host,
}

/// Divisor for the part of the room reserved for keys whose link is cached, so that a flood of others does not take it.
const RESERVED_SHARE: usize = 4;

/// Divisor for the part of the room that hosts may use.
const HOSTS_SHARE: usize = 8;

/// The result of joining a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// A lookup is to be sent.
    Started(FlightId),
    /// One is in flight.
    Joined,
    /// A bound is reached: too many lookups, or too many waiters.
    Full,
}

/// A lookup that has ended.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) asked: PendingLookup,
    pub(crate) overtaken: Overtaken,
    /// Number of repetitions so far.
    pub(crate) repeats: u32,
    of: Subject,
    /// Time at which it was sent.
    pub(crate) sent: Moment,
    /// The waiters that have not left, in order of arrival.
    pub(crate) waiters: Vec<Waiter>,
}

impl Flights {
    /// A table without lookups.
    pub(crate) fn new(purpose: Purpose, bounds: FlightBounds, hasher: SeedableRandomState) -> Self {
        Self {
            purpose,
            flights: Slab::new(),
            by_key: HashTable::new(),
            by_token: Map::with_hasher(hasher.clone()),
            waiting: Map::with_hasher(hasher.clone()),
            serial: NEXT_SERIALS.fetch_add(SERIALS_A_TABLE, Ordering::Relaxed),
            unknown: 0,
            hosts: 0,
            bounds,
            hasher,
        }
    }

    /// Changes the bounds, for new waiters and lookups.
    pub(crate) fn set_bounds(&mut self, bounds: FlightBounds) {
        self.bounds = bounds;
    }

    /// Makes a stream wait for a key.
    pub(crate) fn join(&mut self, key: &[u8], wanted: Wanted, waiter: Waiter) -> Join {
        if self.waiting.len() >= self.bounds.waiting {
            return Join::Full;
        }
        let hash = self.hasher.hash_one(key);
        let found = self.find(hash, key);
        let (id, join) = match found.filter(|id| !self.is_old(*id, wanted.now)) {
            Some(id) => (id, Join::Joined),
            None => match self.open(hash, key, wanted) {
                Some(id) => (id, Join::Started(id)),
                None => return Join::Full,
            },
        };
        if let Some(flight) = self.flight_mut(id) {
            flight.waiters.push(waiter);
            self.waiting.insert(waiter.stream, id);
        }
        join
    }

    /// Starts a lookup without waiters, of a key whose link is cached. `None` if there is one for that key, or no
    /// room.
    pub(crate) fn start(&mut self, key: &[u8], now: Moment) -> Option<FlightId> {
        let hash = self.hasher.hash_one(key);
        match self.find(hash, key) {
            Some(_) => None,
            None => self.open(hash, key, Wanted::held(now)),
        }
    }

    /// The proxy has taken the callout of a lookup.
    pub(crate) fn sent(&mut self, id: FlightId, token: Token, now: Moment) {
        if let Some(flight) = self.flight_mut(id) {
            flight.sent = now;
            flight.token = Some(token);
            self.by_token.insert(token, id);
        }
    }

    /// All callouts have ended without a report from the proxy. Returns their lookups.
    pub(crate) fn lose_tokens(&mut self) -> Vec<FlightId> {
        let lost: Vec<_> = self.by_token.drain().map(|(_, id)| id).collect();
        for id in &lost {
            if let Some(flight) = self.flight_mut(*id) {
                flight.token = None;
            }
        }
        lost
    }

    /// Key, start and slot version of a lookup. `None` if it has ended.
    pub(crate) fn get(&self, id: FlightId) -> Option<PendingLookup> {
        let flight = self.flights.get(id.place as usize)?;
        (flight.serial == id.serial).then(|| flight.asked.clone())
    }

    /// The waiters of a lookup, the oldest first; none if it has ended.
    pub(crate) fn waiters(&self, id: FlightId) -> &[Waiter] {
        let flight = self.flights.get(id.place as usize);
        let flight = flight.filter(|flight| flight.serial == id.serial);
        flight.map_or(&[], |flight| &flight.waiters)
    }

    /// A stream no longer waits, if it ever did.
    pub(crate) fn leave(&mut self, stream: StreamId) {
        // Nearly no ended stream has waited: not even its hash is needed.
        if self.waiting.is_empty() {
            return;
        }
        let Some(id) = self.waiting.remove(&stream) else {
            return;
        };
        if let Some(Flight { waiters, .. }) = self.flight_mut(id) {
            let place = waiters.binary_search_by_key(&stream, |waiter| waiter.stream);
            let place = place.ok();
            let place = place.or_else(|| waiters.iter().position(|each| each.stream == stream));
            place.map(|place| waiters.remove(place));
        }
    }

    /// The callout of that token has ended. `None` if it is not ours, or was given up.
    pub(crate) fn complete_token(&mut self, token: Token) -> Option<Completed> {
        let id = *self.by_token.get(&token)?;
        self.complete(id)
    }

    /// A lookup has ended.
    pub(crate) fn complete(&mut self, id: FlightId) -> Option<Completed> {
        self.flight_mut(id)?;
        let flight = self.flights.remove(id.place as usize);
        match flight.of {
            Subject::HeldLink => {}
            Subject::UnknownLink => self.unknown -= 1,
            Subject::Host => self.hosts -= 1,
        }
        let found = self
            .by_key
            .find_entry(flight.hash, |place| *place == id.place);
        if let Ok(found) = found {
            found.remove();
        }
        if let Some(token) = flight.token {
            self.by_token.remove(&token);
        }
        for waiter in &flight.waiters {
            self.waiting.remove(&waiter.stream);
        }
        Some(Completed {
            asked: flight.asked,
            overtaken: flight.overtaken,
            repeats: flight.repeats,
            of: flight.of,
            sent: flight.sent,
            waiters: flight.waiters,
        })
    }

    /// Repeats an ended lookup at `now`, with its waiters. If there is no room, the error returns it.
    pub(crate) fn repeat(
        &mut self,
        completed: Completed,
        now: Moment,
    ) -> Result<FlightId, Completed> {
        let key = &completed.asked.key;
        let wanted = Wanted {
            of: completed.of,
            version: completed.asked.version,
            now,
        };
        let Some(id) = self.open(self.hasher.hash_one(&**key), key, wanted) else {
            return Err(completed);
        };
        for waiter in &completed.waiters {
            self.waiting.insert(waiter.stream, id);
        }
        if let Some(flight) = self.flight_mut(id) {
            flight.waiters = completed.waiters;
            flight.repeats = completed.repeats + 1;
            // The answer may still come from a replica that has not received the change.
            flight.overtaken.rev = completed.overtaken.rev;
        }
        Ok(id)
    }

    /// A lookup continues at another tier at `now`: unknown changes before that no longer matter.
    pub(crate) fn restart(&mut self, id: FlightId, now: Moment) {
        if let Some(flight) = self.flight_mut(id) {
            flight.asked.started = now;
            flight.overtaken.is_unknown = false;
        }
    }

    /// Changes from the feed to the key of a lookup since it started.
    pub(crate) fn overtaken(&self, id: FlightId) -> Overtaken {
        let flight = self.flights.get(id.place as usize);
        let flight = flight.filter(|flight| flight.serial == id.serial);
        flight.map_or_else(Overtaken::default, |flight| flight.overtaken)
    }

    /// The link of that key has changed, to that revision if it is known: answers to lookups in flight may be older than the
    /// change.
    pub(crate) fn overtake(&mut self, key: &[u8], rev: Option<u64>) {
        if self.flights.is_empty() {
            return;
        }
        let mark = |flight: &mut Flight| {
            let Overtaken {
                rev: known,
                is_unknown,
            } = &mut flight.overtaken;
            *known = rev.unwrap_or(0).max(*known);
            *is_unknown |= rev.is_none();
        };
        // A lookup that was too old to join can no longer be found by its key.
        if self.by_key.len() < self.flights.len() {
            for (_, flight) in &mut self.flights {
                if *flight.asked.key == *key {
                    mark(flight);
                }
            }
            return;
        }
        let found = self.find(self.hasher.hash_one(key), key);
        if let Some(flight) = found.and_then(|id| self.flight_mut(id)) {
            mark(flight);
        }
    }

    /// Lookups that have been in flight for `limit` milliseconds.
    pub(crate) fn overdue(&self, now: Moment, limit: u64) -> Vec<FlightId> {
        let late = |flight: &Flight| flight.asked.started.age(now) >= limit;
        let flights = self.flights.iter();
        flights
            .filter(|(_, flight)| late(flight))
            .map(|(place, flight)| self.id(flight, place as u32))
            .collect()
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<FlightId> {
        let flight = |place: u32| self.flights.get(place as usize);
        let is_ours = |place: &u32| flight(*place).is_some_and(|flight| *flight.asked.key == *key);
        let place = *self.by_key.find(hash, is_ours)?;
        Some(self.id(flight(place)?, place))
    }

    /// True if the answer may be too old to be served.
    fn is_old(&self, id: FlightId, now: Moment) -> bool {
        let flight = self.flights.get(id.place as usize);
        flight.is_some_and(|flight| flight.asked.started.age(now) >= self.bounds.age_millis)
    }

    /// Starts a lookup of a key for which there is none, or an old one, which stays for its own waiters. `None` if
    /// there is no room for it.
    fn open(&mut self, hash: u64, key: &[u8], wanted: Wanted) -> Option<FlightId> {
        let Wanted { of, version, now } = wanted;
        let max_pending = self.bounds.pending;
        let max_unknown = max_pending - max_pending / RESERVED_SHARE;
        let max_hosts = (max_pending / HOSTS_SHARE).max(1);
        if self.flights.len() >= max_pending {
            return None;
        }
        match of {
            Subject::HeldLink => {}
            Subject::UnknownLink if self.unknown + self.hosts < max_unknown => self.unknown += 1,
            Subject::Host if self.hosts < max_hosts && self.unknown + self.hosts < max_unknown => {
                self.hosts += 1;
            }
            Subject::UnknownLink | Subject::Host => return None,
        }
        self.serial += 1;
        let flight = Flight {
            serial: self.serial,
            hash,
            of,
            asked: PendingLookup {
                key: key.into(),
                started: now,
                version,
            },
            overtaken: Overtaken::default(),
            repeats: 0,
            sent: now,
            token: None,
            waiters: Vec::new(),
        };
        let place = self.flights.insert(flight) as u32;
        let flights = &self.flights;
        let is_of_key = |place: &u32| {
            let flight = flights.get(*place as usize);
            flight.is_some_and(|flight| *flight.asked.key == *key)
        };
        if let Ok(old) = self.by_key.find_entry(hash, is_of_key) {
            old.remove();
        }
        let rehash = |place: &u32| flights.get(*place as usize).map_or(0, |flight| flight.hash);
        self.by_key.insert_unique(hash, place, rehash);
        Some(FlightId {
            purpose: self.purpose,
            place,
            serial: self.serial,
        })
    }

    fn id(&self, flight: &Flight, place: u32) -> FlightId {
        FlightId {
            purpose: self.purpose,
            place,
            serial: flight.serial,
        }
    }

    fn flight_mut(&mut self, id: FlightId) -> Option<&mut Flight> {
        let flight = self.flights.get_mut(id.place as usize)?;
        (flight.serial == id.serial).then_some(flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldhash::SharedSeed;

    const NOW: Moment = Moment::from_millis(1_000_000);

    const WANTED: Wanted = Wanted {
        of: Subject::HeldLink,
        version: 3,
        now: NOW,
    };

    fn flights() -> Flights {
        let hasher = SeedableRandomState::with_seed(7, SharedSeed::global_fixed());
        let bounds = FlightBounds {
            pending: 2,
            waiting: 3,
            age_millis: 5_000,
        };
        Flights::new(Purpose::Links, bounds, hasher)
    }

    fn started(join: Join) -> FlightId {
        match join {
            Join::Started(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn waiter(stream: StreamId) -> Waiter {
        let has_more = stream.is_multiple_of(2);
        Waiter {
            stream,
            has_more,
            is_below: false,
            is_click: true,
            is_counted: true,
            is_prefetch: false,
            is_other: false,
            is_form: false,
        }
    }

    fn asked(key: &[u8]) -> PendingLookup {
        PendingLookup {
            key: key.into(),
            started: NOW,
            version: 3,
        }
    }

    fn is_empty(flights: &Flights) -> bool {
        flights.flights.is_empty()
            && flights.by_key.is_empty()
            && flights.by_token.is_empty()
            && flights.waiting.is_empty()
    }

    #[test]
    fn waiters_when_of_one_key_share_a_flight_in_order() {
        let mut flights = flights();
        let id = started(flights.join(b"k", WANTED, waiter(12)));
        assert_eq!(flights.join(b"k", WANTED, waiter(13)), Join::Joined);
        flights.sent(id, 5, NOW);
        assert_eq!(flights.join(b"k", WANTED, waiter(14)), Join::Joined);
        let completed = flights.complete_token(5).unwrap();
        assert_eq!(completed.asked, asked(b"k"));
        assert_eq!(completed.waiters, [12, 13, 14].map(waiter));
        assert!(is_empty(&flights));
        assert!(flights.complete_token(5).is_none());
    }

    #[test]
    fn flight_when_a_waiter_leaves_stays() {
        let mut flights = flights();
        let id = started(flights.join(b"k", WANTED, waiter(1)));
        flights.join(b"k", WANTED, waiter(2));
        flights.leave(1);
        flights.leave(1);
        flights.leave(77);
        assert_eq!(flights.start(b"k", NOW), None, "it is under way");
        assert_eq!(flights.complete(id).unwrap().waiters, [waiter(2)]);
        flights.leave(2);
        assert!(is_empty(&flights));
    }

    /// Such as the table of an edge that replaces a panicked one.
    #[test]
    fn flight_when_of_another_table_has_another_number() {
        let (mut one, mut other) = (flights(), flights());
        let before = one.start(b"a", NOW).unwrap();
        let id = other.start(b"b", NOW).unwrap();
        assert_ne!(before, id);
        assert_eq!(other.get(before), None);
        assert!(other.complete(before).is_none());
        assert_eq!(other.get(id).unwrap().key, asked(b"b").key);
    }

    #[test]
    fn change_when_it_overtakes_marks_flights_of_its_key_only() {
        let mut flights = flights();
        let old = started(flights.join(b"a", WANTED, waiter(1)));
        let later = Wanted {
            now: NOW.after(5_000),
            ..WANTED
        };
        let new = started(flights.join(b"a", later, waiter(2)));
        flights.overtake(b"b", Some(9));
        assert_eq!(flights.overtaken(new), Overtaken::default());
        flights.overtake(b"a", Some(7));
        flights.overtake(b"a", Some(6));
        for id in [old, new] {
            let overtaken = flights.overtaken(id);
            assert!(overtaken.is_ahead_of(6) && !overtaken.is_ahead_of(7));
        }
        flights.complete(old).unwrap();
        flights.overtake(b"a", None);
        assert!(flights.overtaken(new).is_ahead_of(u64::MAX));
        let completed = flights.complete(new).unwrap();
        let id = flights.repeat(completed, NOW).unwrap();
        assert_eq!(flights.waiters(id), [waiter(2)]);
        let overtaken = flights.overtaken(id);
        assert!(overtaken.is_ahead_of(6) && !overtaken.is_ahead_of(7));
        flights.leave(2);
        assert_eq!(flights.complete(id).unwrap().repeats, 1);
        assert!(is_empty(&flights));
    }

    #[test]
    fn flights_when_full_accept_again_once_there_is_room() {
        let mut flights = flights();
        let a = started(flights.join(b"a", WANTED, waiter(1)));
        started(flights.join(b"b", WANTED, waiter(2)));
        assert_eq!(flights.join(b"c", WANTED, waiter(3)), Join::Full, "lookups");
        assert_eq!(flights.start(b"c", NOW), None, "lookups");
        assert_eq!(flights.join(b"a", WANTED, waiter(3)), Join::Joined);
        assert_eq!(flights.join(b"a", WANTED, waiter(4)), Join::Full, "waiters");
        flights.leave(3);
        assert_eq!(flights.join(b"a", WANTED, waiter(4)), Join::Joined);
        flights.complete(a).unwrap();
        started(flights.join(b"c", WANTED, waiter(5)));
    }

    #[test]
    fn lookups_when_full_keep_a_quarter_for_held_links() {
        let mut flights = flights();
        flights.set_bounds(FlightBounds {
            pending: 4,
            waiting: 10,
            age_millis: 5_000,
        });
        let unknown = Wanted::unknown(3, NOW);
        for (stream, key) in (1..).zip([b"a", b"b", b"c"]) {
            started(flights.join(key, unknown, waiter(stream)));
        }
        assert_eq!(flights.join(b"d", unknown, waiter(4)), Join::Full);
        let held = started(flights.join(b"d", WANTED, waiter(4)));
        assert_eq!(flights.join(b"e", WANTED, waiter(5)), Join::Full);
        flights.complete(held).unwrap();
        assert_eq!(flights.join(b"d", unknown, waiter(5)), Join::Full);
        let a = flights.start(b"a", NOW);
        assert_eq!(a, None, "it is under way");
        started(flights.join(b"d", WANTED, waiter(5)));
    }

    #[test]
    fn host_lookups_when_flooding_take_an_eighth_at_most() {
        let mut flights = flights();
        flights.set_bounds(FlightBounds {
            pending: 16,
            waiting: 100,
            age_millis: 5_000,
        });
        let host = Wanted::host(3, NOW);
        let first = started(flights.join(b"a/", host, waiter(1)));
        started(flights.join(b"b/", host, waiter(2)));
        assert_eq!(flights.join(b"c/", host, waiter(3)), Join::Full);
        assert_eq!(flights.join(b"a/", host, waiter(3)), Join::Joined);
        let unknown = Wanted::unknown(3, NOW);
        for stream in 10..20 {
            started(flights.join(&[stream as u8], unknown, waiter(stream)));
        }
        assert_eq!(flights.join(b"x", unknown, waiter(20)), Join::Full);
        flights.complete(first).unwrap();
        started(flights.join(b"c/", host, waiter(21)));
        assert_eq!(flights.join(b"x", unknown, waiter(22)), Join::Full);
        started(flights.join(b"x", WANTED, waiter(22)));
    }

    #[test]
    fn lookup_when_without_waiters_is_not_started_twice() {
        let mut flights = flights();
        let id = flights.start(b"k", NOW).unwrap();
        assert_eq!(flights.start(b"k", NOW), None);
        assert_eq!(flights.join(b"k", WANTED, waiter(1)), Join::Joined);
        assert_eq!(flights.complete(id).unwrap().waiters, [waiter(1)]);
    }

    #[test]
    fn lookup_when_it_never_ends_is_overdue() {
        let mut flights = flights();
        let id = flights.start(b"k", NOW).unwrap();
        let later = |millis: u64| Moment::from_millis(NOW.millis() + millis);
        assert!(flights.overdue(later(999), 1_000).is_empty());
        assert_eq!(flights.overdue(later(1_000), 1_000), [id]);
    }

    #[test]
    fn flight_when_begun_long_ago_ends_for_its_waiters_only() {
        let mut flights = flights();
        let later = |millis: u64| Wanted {
            now: NOW.after(millis),
            ..WANTED
        };
        let old = started(flights.join(b"k", WANTED, waiter(1)));
        assert_eq!(flights.join(b"k", later(4_999), waiter(2)), Join::Joined);
        let new = started(flights.join(b"k", later(5_000), waiter(3)));
        flights.sent(old, 5, NOW);
        assert_eq!(
            flights.complete_token(5).unwrap().waiters,
            [1, 2].map(waiter)
        );
        assert_eq!(flights.join(b"k", later(5_000), waiter(1)), Join::Joined);
        assert_eq!(flights.complete(new).unwrap().waiters, [3, 1].map(waiter));
        assert!(is_empty(&flights));
    }

    #[test]
    fn waiter_when_stream_numbers_wrap_around_is_found() {
        let mut flights = flights();
        let streams = [u32::MAX, 0, 1];
        let [id, ..] = streams.map(|stream| flights.join(b"k", WANTED, waiter(stream)));
        flights.leave(u32::MAX);
        flights.leave(1);
        let completed = flights.complete(started(id)).unwrap();
        assert_eq!(completed.waiters, [waiter(0)]);
        assert!(is_empty(&flights));
    }

    #[test]
    fn flight_number_when_its_lookup_has_ended_means_no_other() {
        let mut flights = flights();
        let ended = started(flights.join(b"a", WANTED, waiter(1)));
        flights.complete(ended).unwrap();
        let id = started(flights.join(b"b", WANTED, waiter(2)));
        assert_eq!(ended.place, id.place, "the place is used again");
        assert_eq!(flights.get(ended), None);
        assert!(flights.complete(ended).is_none());
        flights.sent(ended, 5, NOW);
        assert!(flights.complete_token(5).is_none());
        assert_eq!(flights.get(id), Some(asked(b"b")));
    }
}
