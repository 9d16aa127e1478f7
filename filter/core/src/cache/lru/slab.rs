//! The entries of the cache: numbered slots in two lists, each linked from the newest to the oldest.

use crate::time::Moment;
use std::sync::atomic::{AtomicU16, Ordering};

/// The number of no slot: the end of a list.
const END: u32 = u32::MAX;

/// Maximum number of entries the hand examines before it drops a marked one. Without a bound it would go over all of them
/// if all are marked, and one visitor would wait for that.
pub(super) const MAX_STEPS: usize = 64;

/// The bit of an entry's marks that is set once it is requested, and cleared by the hand.
const ASKED: u16 = 1 << 15;

/// The bit of entries in the list of protected ones.
const PROTECTED: u16 = 1 << 14;

/// The other bits: the length of the key.
const KEY_LENGTH: u16 = PROTECTED - 1;

/// Number of slots allocated at once, so that growing moves nothing and leaves few unused.
const CHUNK: usize = 512;

/// The bytes of one slot.
pub(super) const NODE_BYTES: usize = size_of::<Node>();

#[cfg(target_arch = "wasm32")]
const _: () = assert!(NODE_BYTES == 32, "every byte here is one a cached link");

/// A key, its encoded record, and when it was fetched.
pub(crate) struct Entry {
    /// The key, then the record.
    bytes: Box<[u8]>,
    pub(crate) fetched: Moment,
    /// Last failed refresh, in seconds of the monotonic clock; 0 for never.
    pub(super) failed: u32,
    /// [`ASKED`], [`PROTECTED`] and the length of the key. Threads that read side by side set the first one.
    marks: AtomicU16,
    /// Clicks since the last batch. Threads that read side by side count them.
    pub(super) clicks: AtomicU16,
}

impl Entry {
    /// `None` if the key is longer than any valid one.
    pub(super) fn new(key: &[u8], record: &[u8], fetched: Moment) -> Option<Self> {
        let marks = u16::try_from(key.len()).ok();
        Some(Self {
            bytes: [key, record].concat().into_boxed_slice(),
            fetched,
            failed: 0,
            clicks: AtomicU16::new(0),
            marks: marks.filter(|length| *length <= KEY_LENGTH)?.into(),
        })
    }

    pub(super) fn key(&self) -> &[u8] {
        self.bytes.get(..self.key_length()).unwrap_or_default()
    }

    pub(crate) fn record(&self) -> &[u8] {
        self.bytes.get(self.key_length()..).unwrap_or_default()
    }

    fn key_length(&self) -> usize {
        usize::from(self.marks.load(Ordering::Relaxed) & KEY_LENGTH)
    }

    /// Key and record.
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        let parts = self.bytes.split_at_checked(self.key_length());
        parts.unwrap_or_default()
    }

    /// True for an entry in the list of protected ones.
    pub(super) fn is_protected(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & PROTECTED != 0
    }

    /// Marks it as requested. A mark that is set is not written again: threads would take its memory from one another.
    pub(super) fn mark(&self) {
        if self.marks.load(Ordering::Relaxed) & ASKED == 0 {
            self.marks.fetch_or(ASKED, Ordering::Relaxed);
        }
    }

    /// Takes the clicks since the last batch.
    pub(super) fn take_clicks(&mut self) -> u16 {
        std::mem::take(self.clicks.get_mut())
    }

    /// Clears the mark. Returns `true` if it was set.
    fn unmark(&mut self) -> bool {
        let marks = self.marks.get_mut();
        let is_marked = *marks & ASKED != 0;
        *marks &= !ASKED;
        is_marked
    }
}

struct Node {
    entry: Option<Entry>,
    newer: u32,
    older: u32,
}

/// The ends of a list.
#[derive(Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
}

impl Default for Ends {
    fn default() -> Self {
        Self {
            newest: END,
            oldest: END,
        }
    }
}

/// The slots, with two lists through the used ones and one through the free ones.
pub(super) struct Slab {
    chunks: Vec<Vec<Node>>,
    /// Entries that the hand goes over.
    settled: Ends,
    /// Entries that the hand skips.
    protected: Ends,
    /// The slot the hand examines next; [`END`] for the oldest.
    hand: u32,
    /// The first free slot; further ones follow through `older`.
    free: u32,
}

impl Default for Slab {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            settled: Ends::default(),
            protected: Ends::default(),
            hand: END,
            free: END,
        }
    }
}

impl Slab {
    pub(super) fn get(&self, slot: u32) -> Option<&Entry> {
        self.slot(slot)?.entry.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.slot_mut(slot)?.entry.as_mut()
    }

    pub(super) fn key(&self, slot: u32) -> Option<&[u8]> {
        Some(self.get(slot)?.key())
    }

    /// The record of an entry was fetched again and has not changed.
    pub(super) fn renew(&mut self, slot: u32, fetched: Moment) {
        if let Some(entry) = self.get_mut(slot) {
            entry.fetched = fetched;
            entry.failed = 0;
        }
    }

    /// Moves the hand to the slot to be emptied next. The oldest protected one only if there are no others.
    pub(super) fn next_to_go(&mut self) -> Option<u32> {
        if self.settled.oldest == END {
            return self.oldest_protected();
        }
        for _ in 0..MAX_STEPS {
            if !self.get_mut(self.at_hand())?.unmark() {
                break;
            }
            self.hand = self.slot(self.at_hand())?.newer;
        }
        Some(self.at_hand())
    }

    fn at_hand(&self) -> u32 {
        match self.hand {
            END => self.settled.oldest,
            slot => slot,
        }
    }

    /// The oldest protected entry.
    pub(super) fn oldest_protected(&self) -> Option<u32> {
        (self.protected.oldest != END).then_some(self.protected.oldest)
    }

    /// Ends the protection of an entry.
    pub(super) fn settle(&mut self, slot: u32) {
        self.unlink(slot);
        if let Some(entry) = self.get_mut(slot) {
            *entry.marks.get_mut() &= !PROTECTED;
        }
        self.link(slot);
    }

    /// Puts an entry into a slot as the newest one. `None` if there are no more numbers.
    pub(super) fn insert(&mut self, entry: Entry) -> Option<u32> {
        let slot = self.take_free()?;
        self.slot_mut(slot)?.entry = Some(entry);
        self.link(slot);
        Some(slot)
    }

    /// Puts an entry into a slot as the newest protected one. `None` if there are no more numbers.
    pub(super) fn insert_protected(&mut self, mut entry: Entry) -> Option<u32> {
        *entry.marks.get_mut() |= PROTECTED;
        self.insert(entry)
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Entry> {
        self.get(slot)?;
        self.unlink(slot);
        let free = std::mem::replace(&mut self.free, slot);
        let place = self.slot_mut(slot)?;
        place.older = free;
        place.entry.take()
    }

    fn take_free(&mut self) -> Option<u32> {
        if self.free == END {
            return self.grow();
        }
        let slot = self.free;
        self.free = self.slot(slot)?.older;
        Some(slot)
    }

    fn grow(&mut self) -> Option<u32> {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut()?;
        let slot = u32::try_from(before + chunk.len()).ok()?;
        if slot == END {
            return None;
        }
        chunk.push(Node {
            entry: None,
            newer: END,
            older: END,
        });
        Some(slot)
    }

    /// Puts a slot into the list of its entry, as the newest.
    fn link(&mut self, slot: u32) {
        let ends = self.ends_of(slot);
        let second = std::mem::replace(&mut ends.newest, slot);
        if second == END {
            ends.oldest = slot;
        }
        if let Some(first) = self.slot_mut(slot) {
            first.newer = END;
            first.older = second;
        }
        if let Some(second) = self.slot_mut(second) {
            second.newer = slot;
        }
    }

    /// Takes a slot out of the list of its entry; the hand moves to the next.
    fn unlink(&mut self, slot: u32) {
        let Some(&Node { newer, older, .. }) = self.slot(slot) else {
            return;
        };
        if self.hand == slot {
            self.hand = newer;
        }
        match self.slot_mut(newer) {
            Some(newer) => newer.older = older,
            None => self.ends_of(slot).newest = older,
        }
        match self.slot_mut(older) {
            Some(older) => older.newer = newer,
            None => self.ends_of(slot).oldest = newer,
        }
    }

    fn ends_of(&mut self, slot: u32) -> &mut Ends {
        if self.get(slot).is_some_and(Entry::is_protected) {
            &mut self.protected
        } else {
            &mut self.settled
        }
    }

    fn slot(&self, slot: u32) -> Option<&Node> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Node> {
        let slot = slot as usize;
        self.chunks.get_mut(slot / CHUNK)?.get_mut(slot % CHUNK)
    }
}
