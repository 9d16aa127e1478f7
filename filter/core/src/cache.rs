//! The caches of a worker as one: its LRU with the slots in shared data behind it (tiers 1, 3 and 6).

pub(crate) mod changes;
pub(crate) mod lru;
pub(crate) mod shared;

use self::changes::Changes;
use self::lru::{Entry, Lru, LruClicks, Place};
use self::shared::{CacheSlot, Newer, Offer, SharedRecord, Slots};
use crate::clicks::{Clicker, Counting, Tallied};
use crate::flights::PendingLookup;
use crate::freshness::{Coverage, Freshness, HeldRevision, Lifetimes, Precedence, Usability};
use crate::host::{NEVER_WRITTEN, SharedData, Version};
use crate::metrics::Tier;
use crate::settings::Settings;
use crate::time::Moment;
use edgelink_wire::Record;
use edgelink_wire::record::{RecordBytes, RecordKind};
use foldhash::fast::SeedableRandomState;
use std::ops::Deref;

/// The worker's LRU with the proxy's shared data behind it.
pub(crate) struct Caches {
    lru: Lru,
    slots: Slots,
    lifetimes: Lifetimes,
    /// Longest freshness of a record in any configuration so far, in milliseconds.
    longest_fresh_millis: u64,
    freshness: Freshness,
    /// Links that have changed and whose new record is not known.
    changes: Changes,
    /// Buffer for an encoded record; here so that it is allocated once.
    encoded: Vec<u8>,
    /// The last record that came from a slot and that the LRU does not keep.
    loose: Option<SharedRecord<Vec<u8>>>,
    /// Fetch time of the oldest record served since [`Self::take_oldest_served`].
    oldest_served: Option<Moment>,
}

/// Changes by a thread that reads side by side with others.
pub(crate) struct CacheNotes {
    clicks: LruClicks,
    oldest_served: Option<Moment>,
}

impl CacheNotes {
    /// Nothing so far.
    pub(crate) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            clicks: LruClicks::new(hasher),
            oldest_served: None,
        }
    }

    /// The encoded record that was found, and the counter of its clicks.
    #[inline(always)]
    pub(crate) fn serve<'a: 'n, 'n>(&'n mut self, hit: CacheHit<'a>) -> (&'a [u8], Clicker<'n>) {
        let CacheHit { place, entry } = hit;
        self.oldest_served = oldest(self.oldest_served, entry.fetched);
        self.clicks.serve((place, entry))
    }

    /// Changes the bound of clicks outside of entries.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.clicks.set_max_bytes(max_click_bytes(settings));
    }
}

/// A fresh record in the LRU.
#[derive(Clone, Copy)]
pub(crate) struct CacheHit<'a> {
    place: Place,
    entry: &'a Entry,
}

impl<'a> CacheHit<'a> {
    /// The encoded record.
    pub(crate) fn record(&self) -> &'a [u8] {
        self.entry.record()
    }
}

/// A record that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The tier it is attributed to.
    pub(crate) tier: Tier,
    place: Option<Place>,
    fetched: Moment,
}

/// A record in the LRU that is not fresh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held(Place);

/// Result of looking up a key in the caches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup {
    /// To be served.
    Fresh(Found),
    /// To be served if no other tier answers. Never an absence: the link may have been created since, and a failure
    /// must not look like an answer.
    Stale(Found),
    /// No record that may be served. The version is that of the slot, if it holds no record of that key.
    Missing(Version),
}

/// A fetched record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched<'a> {
    pub(crate) record: RecordBytes<&'a [u8]>,
    /// It was current at that moment or later.
    pub(crate) at: Moment,
    pub(crate) source: Source,
}

/// The tier that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Redis,
    /// An absence is inserted at any rev: tombstones, which have the rev of a deletion, are purged.
    ControlPlane,
}

/// The new record of a link, from the feed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update<'a> {
    /// The link, or its absence.
    pub(crate) record: RecordBytes<&'a [u8]>,
    /// Set for a hot link.
    pub(crate) is_hot: bool,
    /// It was current at that moment or later.
    pub(crate) at: Moment,
}

/// Revision, kind and fetch time of a record in the LRU.
#[derive(Clone, Copy)]
struct Known {
    rev: u64,
    kind: Option<RecordKind>,
    fetched: Moment,
}

/// Result of inserting a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The caches hold it now, as far as it fits.
    Taken,
    /// The caches hold a newer one.
    Older,
}

impl Caches {
    pub(crate) fn new(settings: &Settings, hasher: SeedableRandomState) -> Self {
        let mut lru = Lru::new(settings.lru_max_bytes, hasher.clone());
        lru.set_max_click_bytes(max_click_bytes(settings));
        Self {
            lru,
            slots: Slots::new(settings.slots, settings.max_value_bytes),
            lifetimes: settings.lifetimes,
            longest_fresh_millis: settings.lifetimes.longest_fresh_millis(),
            freshness: Freshness::default(),
            changes: Changes::new(hasher),
            encoded: Vec::new(),
            loose: None,
            oldest_served: None,
        }
    }

    /// Changes bounds and lifetimes. A smaller LRU drops its excess as entries are inserted.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.lru.set_max_bytes(settings.lru_max_bytes);
        self.lru.set_max_click_bytes(max_click_bytes(settings));
        self.slots = Slots::new(settings.slots, settings.max_value_bytes);
        self.lifetimes = settings.lifetimes;
        self.longest_fresh_millis = self
            .longest_fresh_millis
            .max(settings.lifetimes.longest_fresh_millis());
    }

    /// Changes the lifetimes, for a request with others.
    pub(crate) fn set_lifetimes(&mut self, lifetimes: Lifetimes) {
        self.lifetimes = lifetimes;
    }

    /// Entries and bytes of the LRU.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.lru.len(), self.lru.bytes())
    }

    /// The feed is about to begin, and should have by `until`.
    pub(crate) fn await_feed(&mut self, until: Moment) {
        self.freshness.await_feed(until);
    }

    /// Time has passed: the feed has missed nothing since `begun`, and covers this now.
    pub(crate) fn on_time(
        &mut self,
        now: Moment,
        begun: Option<Moment>,
        coverage: Option<Coverage>,
    ) {
        self.freshness.on_time(begun, coverage);
        self.changes.on_time(now, self.longest_fresh_millis);
        self.lru.on_time(now);
    }

    /// Assumed fetch time of a record of unknown age: so long ago that it is looked up again.
    pub(crate) fn unknown_age(&self, now: Moment) -> Moment {
        now.before(
            self.lifetimes
                .fresh_millis
                .max(self.lifetimes.absent_fresh_millis),
        )
    }

    /// Moment at which a record counts as fetched that was current when everything up to `read_until` was read, of a feed that covers
    /// records since `since`: the latest one that is covered.
    pub(crate) fn covered_at(&self, since: Moment, read_until: Option<Moment>) -> Moment {
        let covered = since.after(self.lifetimes.fresh_millis);
        let read = read_until.filter(|until| *until >= covered);
        read.unwrap_or(since)
    }

    /// A link has changed, and its new record is not known: it is looked up again.
    pub(crate) fn mark_stale(&mut self, key: &[u8], now: Moment) {
        if !self.changes.note(key, now) {
            self.mark_all_stale(now);
        }
    }

    /// Changes may have been missed: every record is looked up again, and served only if that fails.
    pub(crate) fn mark_all_stale(&mut self, now: Moment) {
        self.freshness.mark_all_stale(now);
    }

    /// Makes every record unusable.
    pub(crate) fn invalidate_all(&mut self, now: Moment) {
        self.freshness.invalidate_all(now);
    }

    /// Looks for a record, in the LRU first.
    pub(crate) fn look_up(
        &mut self,
        data: &mut impl SharedData,
        key: &[u8],
        now: Moment,
    ) -> Lookup {
        match self.look_up_lru(&self.lifetimes, key, now) {
            Ok(found) => Lookup::Fresh(found),
            Err(held) => self.look_up_shared(data, key, held, now),
        }
    }

    /// The lifetimes for the current request.
    pub(crate) fn lifetimes(&self) -> &Lifetimes {
        &self.lifetimes
    }

    /// Looks for a fresh record in the LRU. The error is the entry that is not fresh, if there is one.
    #[inline(always)]
    pub(crate) fn look_up_lru(
        &self,
        lifetimes: &Lifetimes,
        key: &[u8],
        now: Moment,
    ) -> Result<Found, Option<Held>> {
        let hit = self.hit(lifetimes, key, now)?;
        Ok(Found {
            tier: Tier::Lru,
            place: Some(hit.place),
            fetched: hit.entry.fetched,
        })
    }

    /// Looks for a fresh record in the LRU, for a thread that reads side by side with others.
    #[inline(always)]
    pub(crate) fn hit(
        &self,
        lifetimes: &Lifetimes,
        key: &[u8],
        now: Moment,
    ) -> Result<CacheHit<'_>, Option<Held>> {
        let Some((place, entry)) = self.lru.entry(key) else {
            return Err(None);
        };
        let fetched = entry.fetched;
        // The record is not read where that makes no difference.
        let is_fresh = self.freshness.is_surely_fresh(lifetimes, fetched, now)
            || self.usability(lifetimes, entry.record(), fetched, now) == Usability::Fresh;
        if !is_fresh || self.changes.is_outdated(key, fetched) {
            return Err(Some(Held(place)));
        }
        Ok(CacheHit { place, entry })
    }

    /// Looks for a record in shared data; `held` is the entry in the LRU that is not fresh.
    pub(crate) fn look_up_shared(
        &mut self,
        data: &mut impl SharedData,
        key: &[u8],
        held: Option<Held>,
        now: Moment,
    ) -> Lookup {
        self.loose = None;
        let place = held.map(|Held(place)| place);
        let (place, version) = match self.slots.read(data, key) {
            CacheSlot::Record(shared) => (self.adopt(&shared, key, place, now), NEVER_WRITTEN),
            CacheSlot::Other(version) => (place, version),
        };
        let best = self.second_best(place, key, now);
        best.unwrap_or(Lookup::Missing(version))
    }

    /// True for a link.
    pub(crate) fn is_link(&self, Held(place): Held) -> bool {
        kind(self.lru.record(place)) == Some(RecordKind::Link)
    }

    /// True if the record found is an absence.
    pub(crate) fn is_absence(&self, found: Found) -> bool {
        kind(self.record(found)) != Some(RecordKind::Link)
    }

    /// The encoded record.
    pub(crate) fn record(&self, found: Found) -> &[u8] {
        match found.place {
            Some(place) => self.lru.record(place),
            None => self.loose.as_ref().map_or(&[], SharedRecord::bytes),
        }
    }

    /// The encoded record found for `key`, and the counter of its clicks.
    pub(crate) fn serve<'a>(&'a mut self, found: Found, key: &'a [u8]) -> (&'a [u8], Clicker<'a>) {
        self.note_served(found.fetched);
        match found.place {
            Some(place) => self.lru.serve(place),
            None => {
                let record = self.loose.as_ref().map_or(&[][..], SharedRecord::bytes);
                (record, self.lru.clicker(key))
            }
        }
    }

    /// Takes over the notes of a thread that has read beside others.
    pub(crate) fn take_over(&mut self, notes: &mut CacheNotes) {
        if let Some(fetched) = notes.oldest_served.take() {
            self.note_served(fetched);
        }
        self.lru.take_over(&mut notes.clicks);
    }

    fn note_served(&mut self, fetched: Moment) {
        self.oldest_served = oldest(self.oldest_served, fetched);
    }

    /// Fetch time of the oldest record served since the last call; `None` if none was.
    pub(crate) fn take_oldest_served(&mut self) -> Option<Moment> {
        self.oldest_served.take()
    }

    /// Counts a redirect whose request had to wait for its link.
    pub(crate) fn count(&mut self, key: &[u8], counting: Counting) {
        let clicker = match self.lru.find(key) {
            Some(place) => self.lru.serve(place).1,
            None => self.lru.clicker(key),
        };
        clicker.count(counting);
    }

    /// All clicks counted since the last call.
    pub(crate) fn take_clicks(&mut self) -> Tallied {
        self.lru.take_clicks()
    }

    /// Moment of the last failed refresh of the record; `None` if that is not known.
    pub(crate) fn failed(&self, found: Found) -> Option<Moment> {
        self.lru.failed(found.place?)
    }

    /// Notes a failed refresh of the record.
    pub(crate) fn mark_failed(&mut self, found: Found, now: Moment) {
        if let Some(place) = found.place {
            self.lru.mark_failed(place, now);
        }
    }

    /// Inserts a fetched record into the LRU and into shared data, unless a newer one is known.
    pub(crate) fn insert_fetched(
        &mut self,
        data: &mut impl SharedData,
        wanted: &PendingLookup,
        fetched: Fetched<'_>,
        now: Moment,
    ) -> Inserted {
        let Fetched { record, at, source } = fetched;
        let place = self.lru.find(&wanted.key);
        let known = place.map(|place| self.known(place));
        let is_absence = source == Source::ControlPlane && record.kind == RecordKind::Absent;
        let refreshed = known.filter(|known| {
            let is_invalid = self.freshness.is_invalid(known.fetched);
            is_absence && known.kind == Some(RecordKind::Absent) && !is_invalid
        });
        let rev = refreshed.map_or(record.rev, |known| known.rev.max(record.rev));
        // After the database was restored from a backup, contents may differ at equal revisions: the one fetched later counts.
        if known.is_some_and(|known| known.rev == rev && known.fetched > at) {
            return Inserted::Taken;
        }
        let precedence = Precedence {
            asked: (source == Source::ControlPlane).then_some(at),
            ..self.precedence(now)
        };
        if place.is_some_and(|place| !self.may_replace(place, rev, precedence)) {
            return Inserted::Older;
        }
        if rev == record.rev {
            self.encoded.clear();
            self.encoded.extend_from_slice(record.bytes);
        } else {
            encode(Record::Absent { rev }, &mut self.encoded);
        }
        let fetched = latest(known, rev, at);
        let written = self.share(data, wanted, record.kind, rev, fetched, precedence);
        if let Err(Newer { rev, kind }) = written {
            if !(is_absence && kind == RecordKind::Absent) {
                return Inserted::Older;
            }
            encode(Record::Absent { rev }, &mut self.encoded);
            let _another_was_faster = self.share(data, wanted, kind, rev, fetched, precedence);
        }
        self.lru.put(&wanted.key, &self.encoded, fetched);
        Inserted::Taken
    }

    /// Writes the encoded record into the slot of the key looked up, unless the slot has a newer one.
    fn share(
        &mut self,
        data: &mut impl SharedData,
        wanted: &PendingLookup,
        kind: RecordKind,
        rev: u64,
        fetched: Moment,
        precedence: Precedence,
    ) -> Result<(), Newer> {
        let offer = Offer {
            key: &wanted.key,
            record: &self.encoded,
            rev,
            kind,
            fetched,
        };
        if self.slots.write_over(data, offer, wanted.version) {
            return Ok(());
        }
        self.slots.write(data, offer, precedence)
    }

    /// Applies a change from the feed.
    ///
    /// It goes into the LRU even if no visitor has requested the link here, and is protected from eviction for a while: a lookup
    /// answered before the change may still be on its way, to this worker or into shared data, and only the newer rev keeps it out.
    /// A slot of another link is overwritten only if this one is hot.
    pub(crate) fn apply_update(
        &mut self,
        data: &mut impl SharedData,
        key: &[u8],
        update: Update<'_>,
        now: Moment,
    ) {
        let Update { record, is_hot, at } = update;
        let RecordBytes { bytes, kind, rev } = record;
        let place = self.lru.find(key);
        let precedence = self.precedence(now);
        if place.is_some_and(|place| !self.may_replace(place, rev, precedence)) {
            return;
        }
        let known = place.map(|place| self.known(place));
        let fetched = latest(known, rev, at);
        self.lru.put_protected(key, bytes, fetched);
        let offer = Offer {
            key,
            record: bytes,
            rev,
            kind,
            fetched,
        };
        if is_hot {
            let _newer_stays = self.slots.write(data, offer, precedence);
        } else {
            self.slots.renew(data, offer, precedence);
        }
    }

    /// Puts a record that another worker has fetched into the LRU, if it is newer than the one there.
    fn adopt(
        &mut self,
        shared: &SharedRecord<impl Deref<Target = [u8]>>,
        key: &[u8],
        held: Option<Place>,
        now: Moment,
    ) -> Option<Place> {
        if let Some(held) = held {
            let rev = rev(shared.bytes());
            let later = shared.fetched > self.lru.fetched(held) || rev > self.rev(held);
            if !later || !self.may_replace(held, rev, self.precedence(now)) {
                return Some(held);
            }
        }
        let place = self.lru.put(key, shared.bytes(), shared.fetched);
        self.loose = place.is_none().then(|| shared.to_owned_record());
        place
    }

    /// The record to serve if the LRU had nothing fresh: one in the LRU, or the loose one.
    fn second_best(&self, place: Option<Place>, key: &[u8], now: Moment) -> Option<Lookup> {
        let (bytes, fetched) = match (place, &self.loose) {
            (Some(place), _) => (self.lru.record(place), self.lru.fetched(place)),
            (None, Some(loose)) => (loose.bytes(), loose.fetched),
            (None, None) => return None,
        };
        let found = |tier| Found {
            tier,
            place,
            fetched,
        };
        match self.usability(&self.lifetimes, bytes, fetched, now) {
            Usability::Fresh if !self.changes.is_outdated(key, fetched) => {
                Some(Lookup::Fresh(found(Tier::SharedData)))
            }
            Usability::Fresh | Usability::Stale if kind(bytes) == Some(RecordKind::Link) => {
                Some(Lookup::Stale(found(Tier::Stale)))
            }
            Usability::Fresh | Usability::Stale | Usability::Unusable => None,
        }
    }

    fn usability(
        &self,
        lifetimes: &Lifetimes,
        bytes: &[u8],
        fetched: Moment,
        now: Moment,
    ) -> Usability {
        kind(bytes).map_or(Usability::Unusable, |kind| {
            self.freshness.usability(lifetimes, kind, fetched, now)
        })
    }

    /// The precedence of records that do not come from the control plane over held ones.
    fn precedence(&self, now: Moment) -> Precedence {
        Precedence {
            freshness: self.freshness,
            lifetimes: self.lifetimes,
            now,
            asked: None,
        }
    }

    fn may_replace(&self, held: Place, rev: u64, precedence: Precedence) -> bool {
        let held = HeldRevision {
            rev: self.rev(held),
            fetched: self.lru.fetched(held),
        };
        precedence.may_replace(rev, held)
    }

    fn rev(&self, place: Place) -> u64 {
        rev(self.lru.record(place))
    }

    fn known(&self, place: Place) -> Known {
        let record = self.lru.record(place);
        Known {
            rev: rev(record),
            kind: kind(record),
            fetched: self.lru.fetched(place),
        }
    }
}

/// The older one.
#[inline(always)]
fn oldest(oldest: Option<Moment>, fetched: Moment) -> Option<Moment> {
    Some(oldest.map_or(fetched, |oldest| oldest.min(fetched)))
}

/// Latest moment at which a record of that rev, fetched at `at`, is known to have been current.
fn latest(known: Option<Known>, rev: u64, at: Moment) -> Moment {
    let same = known.filter(|known| known.rev == rev);
    same.map_or(at, |known| known.fetched.max(at))
}

fn encode(record: Record<&str>, to: &mut Vec<u8>) {
    to.clear();
    record.encode(to);
}

fn max_click_bytes(settings: &Settings) -> usize {
    settings
        .clicks
        .as_ref()
        .map_or(0, |clicks| clicks.max_bytes)
}

fn rev(bytes: &[u8]) -> u64 {
    Record::decode_again(bytes).map_or(0, |record| record.rev())
}

fn kind(bytes: &[u8]) -> Option<RecordKind> {
    Some(RecordKind::of(&Record::decode_again(bytes).ok()?))
}
