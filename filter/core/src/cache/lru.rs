//! Tier 1: the worker's own cache, bounded in bytes.
//!
//! Evicts by SIEVE (Zhang et al., NSDI 2024), which has a higher hit rate on skewed traffic than least recently used, is
//! scan-resistant, and makes a hit cheaper: entries stay in the order in which they were inserted, and a hit only sets a mark.
//! A hand goes over them from the oldest on; it clears marks, and drops entries without one.
//!
//! A change from the feed is protected for a while, requested or not: a lookup answered before the change may still be on
//! its way, and the newer record must be there when it arrives.
//!
//! An entry is one allocation with the key and the encoded record, and a slot with two links of the list; the table
//! holds slot numbers. Besides key and target that is less than 96 bytes per entry, all of it counted.

mod index;
mod slab;

use crate::clicks::{Clicker, EntryClicks, KeyTallies, LinkClicks, MAX_TOUCHED, Tallied};
use crate::time::Moment;
use edgelink_wire::same::is_same;
use foldhash::fast::SeedableRandomState;
use index::Index;
pub(crate) use slab::Entry;
use slab::Slab;
use std::hash::BuildHasher;

/// The cost of an entry in the hash table: a slot number and a control byte, in a table that is between 7/16 and 7/8
/// full (hashbrown doubles at 7/8).
const TABLE_BYTES: usize = 12;

/// The cost of an allocation: its header in dlmalloc, Rust's allocator on wasm, which also rounds up to this.
const ALLOCATION_BYTES: usize = 8;

/// Protection of a change, in milliseconds: longer than lookups and feeds lag behind one another.
const PROTECTED_MILLIS: u64 = 30_000;

/// Protected entries may take up the whole cache divided by this; with more, the protection of the oldest ends.
const PROTECTED_SHARE: usize = 2;

/// A cache of encoded records.
pub(crate) struct Lru {
    index: Index,
    hasher: SeedableRandomState,
    slab: Slab,
    bytes: usize,
    /// Bytes of protected entries.
    protected_bytes: usize,
    max_bytes: usize,
    clicks: LruClicks,
}

/// The clicks of a thread.
pub(crate) struct LruClicks {
    /// Slots with clicks, and some that had.
    touched: Vec<u32>,
    tally: KeyTallies,
}

impl LruClicks {
    /// None so far, and room for none outside of entries.
    pub(crate) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            touched: Vec::new(),
            tally: KeyTallies::new(0, hasher),
        }
    }

    /// Changes the bound of clicks outside of entries.
    pub(crate) fn set_max_bytes(&mut self, max_bytes: usize) {
        self.tally.set_max_bytes(max_bytes);
    }

    /// The encoded record of an entry, and the counter of its clicks.
    #[inline(always)]
    pub(crate) fn serve<'a: 'n, 'n>(
        &'n mut self,
        (place, entry): (Place, &'a Entry),
    ) -> (&'a [u8], Clicker<'n>) {
        let Self { touched, tally } = self;
        let (key, record) = entry.parts();
        let entry = Some(EntryClicks {
            count: &entry.clicks,
            slot: place.0,
            touched,
        });
        (record, Clicker { entry, key, tally })
    }

    /// Counter of clicks on a record that is not cached.
    pub(crate) fn uncached<'a>(&'a mut self, key: &'a [u8]) -> Clicker<'a> {
        let (entry, tally) = (None, &mut self.tally);
        Clicker { entry, key, tally }
    }
}

/// Location of an entry. Valid until the next [`Lru::put`], which may put another entry there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Lru {
    /// An empty cache for at most `max_bytes`; with 0, one that keeps nothing.
    pub(crate) fn new(max_bytes: usize, hasher: SeedableRandomState) -> Self {
        Self {
            index: Index::default(),
            clicks: LruClicks::new(hasher.clone()),
            hasher,
            slab: Slab::default(),
            bytes: 0,
            protected_bytes: 0,
            max_bytes,
        }
    }

    /// Changes the bound; it holds again after the next [`Lru::put`].
    pub(crate) fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// Changes the bound of clicks outside of entries.
    pub(crate) fn set_max_click_bytes(&mut self, max_bytes: usize) {
        self.clicks.set_max_bytes(max_bytes);
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The bytes that all entries take up.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Finds an entry, and marks it as requested.
    #[inline(always)]
    pub(crate) fn find(&self, key: &[u8]) -> Option<Place> {
        self.find_hashed(key, self.hasher.hash_one(key))
    }

    #[inline(always)]
    fn find_hashed(&self, key: &[u8], hash: u64) -> Option<Place> {
        let slab = &self.slab;
        let is_it = |slot| slab.key(slot).is_some_and(|it| is_same(it, key));
        let found = self.index.find(hash, is_it)?;
        slab.get(found)?.mark();
        Some(Place(found))
    }

    /// Finds an entry, and marks it as requested.
    #[inline(always)]
    pub(crate) fn entry(&self, key: &[u8]) -> Option<(Place, &Entry)> {
        let place = self.find(key)?;
        Some((place, self.slab.get(place.0)?))
    }

    /// The encoded record of an entry.
    pub(crate) fn record(&self, place: Place) -> &[u8] {
        self.slab.get(place.0).map_or(&[], Entry::record)
    }

    /// The encoded record of an entry, and the counter of its clicks.
    pub(crate) fn serve(&mut self, place: Place) -> (&[u8], Clicker<'_>) {
        match self.slab.get(place.0) {
            Some(entry) => self.clicks.serve((place, entry)),
            None => (&[], self.clicks.uncached(&[])),
        }
    }

    /// Counter of clicks on a record that is not cached.
    pub(crate) fn clicker<'a>(&'a mut self, key: &'a [u8]) -> Clicker<'a> {
        self.clicks.uncached(key)
    }

    /// Takes over the clicks that a thread has counted beside others.
    pub(crate) fn take_over(&mut self, clicks: &mut LruClicks) {
        for slot in clicks.touched.drain(..) {
            if self.clicks.touched.len() < MAX_TOUCHED {
                self.clicks.touched.push(slot);
            } else {
                tally(&mut self.slab, slot, &mut self.clicks.tally);
            }
        }
        self.clicks.tally.take_over(&mut clicks.tally);
    }

    /// All clicks counted since the last call.
    pub(crate) fn take_clicks(&mut self) -> Tallied {
        let LruClicks { touched, tally } = &mut self.clicks;
        for slot in touched.drain(..) {
            self::tally(&mut self.slab, slot, tally);
        }
        tally.take()
    }

    /// Fetch time of the record.
    pub(crate) fn fetched(&self, place: Place) -> Moment {
        self.slab
            .get(place.0)
            .map_or(Moment::default(), |entry| entry.fetched)
    }

    /// Moment of the last failed refresh of this record; `None` if none has failed since the record was inserted.
    pub(crate) fn failed(&self, place: Place) -> Option<Moment> {
        let failed = self.slab.get(place.0)?.failed;
        (failed != 0).then(|| Moment::from_millis(u64::from(failed) * 1_000))
    }

    /// Notes a failed refresh of this record.
    pub(crate) fn mark_failed(&mut self, place: Place, now: Moment) {
        if let Some(entry) = self.slab.get_mut(place.0) {
            entry.failed = u32::try_from(now.seconds()).unwrap_or(u32::MAX).max(1);
        }
    }

    /// Inserts or replaces the record of a key, and drops others until all fit. A record larger than the whole cache is not
    /// kept.
    pub(crate) fn put(&mut self, key: &[u8], record: &[u8], fetched: Moment) -> Option<Place> {
        let hash = self.hasher.hash_one(key);
        let held = self.find_hashed(key, hash);
        if let Some(place) = held {
            if self.record(place) == record {
                self.slab.renew(place.0, fetched);
                return Some(place);
            }
            self.remove(place.0);
        }
        let entry = self.make_room(key, record, fetched)?;
        let slot = self.slab.insert(entry)?;
        self.enter(slot, hash, cost(key, record), held);
        Some(Place(slot))
    }

    /// Inserts or replaces a record that is protected from `now` on.
    pub(crate) fn put_protected(&mut self, key: &[u8], record: &[u8], now: Moment) {
        let hash = self.hasher.hash_one(key);
        let held = self.find_hashed(key, hash);
        if let Some(place) = held {
            self.remove(place.0);
        }
        let entry = self.make_room(key, record, now);
        if let Some(slot) = entry.and_then(|entry| self.slab.insert_protected(entry)) {
            let cost = cost(key, record);
            self.protected_bytes += cost;
            self.enter(slot, hash, cost, held);
            let room = self.max_bytes / PROTECTED_SHARE;
            self.settle(|protected_bytes, _| protected_bytes > room);
        }
    }

    /// Ends the protection of entries that have been protected long enough.
    pub(crate) fn on_time(&mut self, now: Moment) {
        self.settle(|_, read_until| read_until.age(now) > PROTECTED_MILLIS);
    }

    /// Ends the protection of the oldest entries while `is_due` holds for the protected bytes and the start of the oldest's
    /// protection.
    fn settle(&mut self, is_due: impl Fn(usize, Moment) -> bool) {
        while let Some(slot) = self.slab.oldest_protected()
            && let Some(entry) = self.slab.get(slot)
            && is_due(self.protected_bytes, entry.fetched)
        {
            self.protected_bytes -= cost(entry.key(), entry.record());
            self.slab.settle(slot);
        }
    }

    /// Builds an entry and makes room for it.
    fn make_room(&mut self, key: &[u8], record: &[u8], fetched: Moment) -> Option<Entry> {
        let cost = cost(key, record);
        if cost > self.max_bytes {
            return None;
        }
        let entry = Entry::new(key, record, fetched)?;
        while self.bytes + cost > self.max_bytes {
            match self.slab.next_to_go() {
                Some(slot) => self.remove(slot),
                None => break,
            }
        }
        Some(entry)
    }

    /// Indexes the entry now in that slot by the hash of its key. If it replaces an entry of that key, it counts as requested:
    /// only the record is new.
    fn enter(&mut self, slot: u32, hash: u64, cost: usize, held: Option<Place>) {
        self.bytes += cost;
        let (slab, hasher) = (&self.slab, &self.hasher);
        let hash_of = |slot| hasher.hash_one(slab.key(slot).unwrap_or_default());
        self.index.insert(hash, slot, hash_of);
        if held.is_some()
            && let Some(entry) = slab.get(slot)
        {
            entry.mark();
        }
    }

    fn remove(&mut self, slot: u32) {
        let Some(mut entry) = self.slab.remove(slot) else {
            return;
        };
        let clicks = LinkClicks::plain(entry.take_clicks().into());
        self.clicks.tally.add(entry.key(), clicks);
        let hash = self.hasher.hash_one(entry.key());
        self.index.remove(hash, slot);
        let cost = cost(entry.key(), entry.record());
        self.bytes -= cost;
        if entry.is_protected() {
            self.protected_bytes -= cost;
        }
    }
}

/// Moves the clicks of an entry to the tally.
fn tally(slab: &mut Slab, slot: u32, tally: &mut KeyTallies) {
    if let Some(entry) = slab.get_mut(slot) {
        let clicks = LinkClicks::plain(entry.take_clicks().into());
        tally.add(entry.key(), clicks);
    }
}

/// Bytes taken up by an entry.
fn cost(key: &[u8], record: &[u8]) -> usize {
    let allocation = (key.len() + record.len() + ALLOCATION_BYTES).next_multiple_of(8);
    allocation + slab::NODE_BYTES + TABLE_BYTES
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod zipf_tests;
