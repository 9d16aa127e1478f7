//! The entries of the LRU: numbered slots, linked from the most to the least recently used.

use crate::time::Moment;

/// The number of no slot: the end of a list.
pub(super) const END: u32 = u32::MAX;

/// Slots are allocated by so many, so that growing moves nothing and leaves little unused.
const CHUNK: usize = 512;

/// The bytes of one slot.
pub(super) const SLOT_BYTES: usize = size_of::<Slot>();

#[cfg(target_arch = "wasm32")]
const _: () = assert!(SLOT_BYTES == 32, "every byte here is one a cached link");

/// A key, its encoded record, and when it was fetched.
pub(super) struct Entry {
    /// The key, then the record.
    bytes: Box<[u8]>,
    pub(super) fetched: Moment,
    /// Unix time in seconds; 0 for never.
    pub(super) failed: u32,
    key_length: u16,
    /// Clicks since the last batch.
    pub(super) clicks: u16,
}

/// The parts of an entry.
pub(super) struct Parts<'a> {
    pub(super) key: &'a [u8],
    pub(super) record: &'a [u8],
    pub(super) clicks: &'a mut u16,
}

impl Entry {
    /// Nothing for a key that is longer than any key is.
    pub(super) fn new(key: &[u8], record: &[u8], fetched: Moment) -> Option<Self> {
        Some(Self {
            bytes: [key, record].concat().into_boxed_slice(),
            fetched,
            failed: 0,
            clicks: 0,
            key_length: u16::try_from(key.len()).ok()?,
        })
    }

    pub(super) fn key(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.key_length))
            .unwrap_or_default()
    }

    pub(super) fn record(&self) -> &[u8] {
        self.bytes
            .get(usize::from(self.key_length)..)
            .unwrap_or_default()
    }

    pub(super) fn parts(&mut self) -> Parts<'_> {
        let length = usize::from(self.key_length);
        let (key, record) = self.bytes.split_at_checked(length).unwrap_or_default();
        Parts {
            key,
            record,
            clicks: &mut self.clicks,
        }
    }
}

struct Slot {
    entry: Option<Entry>,
    newer: u32,
    older: u32,
}

/// The slots, with a list through those in use and one through those that are free.
pub(super) struct Slab {
    chunks: Vec<Vec<Slot>>,
    newest: u32,
    oldest: u32,
    /// The first free slot; further ones follow through `older`.
    free: u32,
}

impl Default for Slab {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            newest: END,
            oldest: END,
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

    /// The least recently used slot, or [`END`].
    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// The record of an entry was fetched again, and is the same.
    pub(super) fn renew(&mut self, slot: u32, fetched: Moment) {
        if let Some(entry) = self.get_mut(slot) {
            entry.fetched = fetched;
            entry.failed = 0;
        }
    }

    /// Makes a slot the most recently used one.
    pub(super) fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
    }

    /// Puts an entry into a slot as the most recently used one. Nothing if there are no more numbers.
    pub(super) fn insert(&mut self, entry: Entry) -> Option<u32> {
        let slot = self.take_free()?;
        self.slot_mut(slot)?.entry = Some(entry);
        self.link(slot);
        Some(slot)
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Entry> {
        let entry = self.slot_mut(slot)?.entry.take()?;
        self.unlink(slot);
        let free = self.free;
        self.slot_mut(slot)?.older = free;
        self.free = slot;
        Some(entry)
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
        chunk.push(Slot {
            entry: None,
            newer: END,
            older: END,
        });
        Some(slot)
    }

    fn link(&mut self, slot: u32) {
        let second = std::mem::replace(&mut self.newest, slot);
        if let Some(first) = self.slot_mut(slot) {
            first.newer = END;
            first.older = second;
        }
        match self.slot_mut(second) {
            Some(second) => second.newer = slot,
            None => self.oldest = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Some(&Slot { newer, older, .. }) = self.slot(slot) else {
            return;
        };
        match self.slot_mut(newer) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.slot_mut(older) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn slot(&self, slot: u32) -> Option<&Slot> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        let slot = slot as usize;
        self.chunks.get_mut(slot / CHUNK)?.get_mut(slot % CHUNK)
    }
}
