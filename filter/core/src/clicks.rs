//! Clicks that are counted but in no batch yet.
//!
//! Clicks on a record in the LRU are counted in its entry, so that a hit costs one addition; others, and the clicks of
//! dropped entries, in a [`KeyTallies`].

mod counting;
mod events;
mod visitor_tokens;
mod wanted;

pub(crate) use counting::Counting;
pub(crate) use events::{Answered, ClickEvents, EventRules, Gathered, Noted, RedirectNotes};

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;
use std::sync::atomic::{AtomicU16, Ordering};

/// Cost of a link in a tally besides its key, in bytes: the count, the pointer to the key, and its part of the table.
const LINK_BYTES: usize = 64;

/// Maximum number of entries of the LRU with clicks. Clicks on further ones go to the tally.
pub(crate) const MAX_TOUCHED: usize = 8_192;

/// Maximum clicks of an entry. Further ones go to the tally, but for one of each thread that counts at that moment.
const MAX_COUNT: u16 = u16::MAX - 1_024;

/// The clicks on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkClicks {
    pub(crate) count: u64,
    /// Number of them without attributes, which were lost.
    pub(crate) undescribed: u64,
}

/// Clicks by key, bounded in bytes.
#[derive(Debug)]
pub(crate) struct KeyTallies {
    counts: HashMap<Box<[u8]>, LinkClicks, SeedableRandomState>,
    bytes: usize,
    max_bytes: usize,
    lost: u64,
}

/// Content of a tally.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tallied {
    pub(crate) clicks: Vec<(Box<[u8]>, LinkClicks)>,
    /// Clicks for which there was no room.
    pub(crate) lost: u64,
}

/// Counts and events to be reported.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) tallied: Tallied,
    /// The events of each thread.
    pub(crate) gathered: Vec<Gathered>,
}

/// Counter of the next click on a record.
pub(crate) struct Clicker<'a> {
    pub(crate) entry: Option<EntryClicks<'a>>,
    pub(crate) key: &'a [u8],
    pub(crate) tally: &'a mut KeyTallies,
}

/// The clicks on an entry of the LRU.
pub(crate) struct EntryClicks<'a> {
    pub(crate) count: &'a AtomicU16,
    pub(crate) slot: u32,
    /// The slots of entries with clicks.
    pub(crate) touched: &'a mut Vec<u32>,
}

impl LinkClicks {
    /// Clicks of which none has lost its attributes.
    pub(crate) fn plain(count: u64) -> Self {
        Self {
            count,
            undescribed: 0,
        }
    }

    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.undescribed = self.undescribed.saturating_add(other.undescribed);
    }
}

impl Clicker<'_> {
    /// Counts a redirect, if it is to be counted.
    #[inline(always)]
    pub(crate) fn count(self, counting: Counting) {
        match counting {
            Counting::Plain => self.click(),
            Counting::Undescribed => self.click_undescribed(),
            Counting::No => {}
        }
    }

    /// Counts a click in the tally, which counts undescribed clicks separately.
    #[cold]
    #[inline(never)]
    fn click_undescribed(self) {
        let clicks = LinkClicks {
            count: 1,
            undescribed: 1,
        };
        self.tally.add(self.key, clicks);
    }

    fn click(self) {
        let has_room = |entry: &EntryClicks<'_>| match entry.count.load(Ordering::Relaxed) {
            0 => entry.touched.len() < MAX_TOUCHED,
            count => count < MAX_COUNT,
        };
        let Some(entry) = self.entry.filter(has_room) else {
            self.tally.add(self.key, LinkClicks::plain(1));
            return;
        };
        if entry.count.fetch_add(1, Ordering::Relaxed) == 0 {
            entry.touched.push(entry.slot);
        }
    }
}

impl KeyTallies {
    /// An empty one for at most `max_bytes`.
    pub(crate) fn new(max_bytes: usize, hasher: SeedableRandomState) -> Self {
        Self {
            counts: HashMap::with_hasher(hasher),
            bytes: 0,
            max_bytes,
            lost: 0,
        }
    }

    /// Changes the bound, for links added from now on.
    pub(crate) fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// Counts clicks.
    pub(crate) fn add(&mut self, key: &[u8], clicks: LinkClicks) {
        if clicks.count == 0 {
            return;
        }
        if let Some(counted) = self.counts.get_mut(key) {
            counted.add(clicks);
            return;
        }
        let cost = key.len() + LINK_BYTES;
        if self.bytes + cost > self.max_bytes {
            self.lost = self.lost.saturating_add(clicks.count);
            return;
        }
        self.bytes += cost;
        self.counts.insert(key.into(), clicks);
    }

    /// Takes over the clicks of another tally.
    pub(crate) fn take_over(&mut self, other: &mut Self) {
        let Tallied { clicks, lost } = other.take();
        self.lost = self.lost.saturating_add(lost);
        for (key, clicks) in clicks {
            self.add(&key, clicks);
        }
    }

    /// Empties it.
    pub(crate) fn take(&mut self) -> Tallied {
        self.bytes = 0;
        Tallied {
            clicks: self.counts.drain().collect(),
            lost: std::mem::take(&mut self.lost),
        }
    }
}

#[cfg(test)]
mod tests;
