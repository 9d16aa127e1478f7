//! Records of links in memory that all workers share, and that outlives reloads: a worker finds there what another one has fetched.
//!
//! A slot is read without a lock: a reader that sees its version change meanwhile has read nothing. A writer marks the slot with its
//! process, so that others go on when it dies amid a write.

use crate::processes;
use edgelink_filter_core::host::{
    CasMismatch, FEED_KEY, NEVER_WRITTEN, SLOT_PREFIX, SharedValue, Version,
};
use edgelink_process::SharedTable;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering, fence};

const WORDS: usize = 61;

/// The longest value of a slot in bytes; longer records are not shared.
pub(crate) const MAX_VALUE_BYTES: usize = WORDS * size_of::<u64>();

/// A slot. Memory of zeros is an empty one.
#[repr(C)]
pub(crate) struct SharedSlot {
    /// In the upper half the version, in the lower half the process that writes, or 0.
    state: AtomicU64,
    /// The owner of its value ([`SharedSlots::owner`]).
    owner: AtomicU64,
    length: AtomicU64,
    words: [AtomicU64; WORDS],
}

const PROCESS: u64 = u32::MAX as u64;

impl SharedSlot {
    fn read(&self, owner: u64) -> Option<SharedValue<Vec<u8>>> {
        let state = self.state.load(Ordering::Acquire);
        let (version, writer) = ((state >> 32) as Version, state & PROCESS);
        if writer != 0 || version == NEVER_WRITTEN || self.owner.load(Ordering::Relaxed) != owner {
            return None;
        }
        let length = usize::try_from(self.length.load(Ordering::Relaxed)).ok()?;
        let words = self.words.get(..length.div_ceil(size_of::<u64>()))?;
        let mut value = Vec::with_capacity(words.len() * size_of::<u64>());
        for word in words {
            value.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        value.truncate(length);
        fence(Ordering::Acquire);
        let is_whole = self.state.load(Ordering::Relaxed) == state;
        is_whole.then_some(SharedValue {
            value,
            cas: version,
        })
    }

    fn write(&self, owner: u64, value: &[u8], cas: Version) -> Result<(), CasMismatch> {
        let state = self.state.load(Ordering::Relaxed);
        let (version, writer) = (state >> 32, state & PROCESS);
        if writer != 0 && processes::is_alive(writer) {
            return Err(CasMismatch);
        }
        if cas != NEVER_WRITTEN && u64::from(cas) != version {
            return Err(CasMismatch);
        }
        let marked = version << 32 | (processes::own() & PROCESS);
        let (acquired, missed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.state
            .compare_exchange(state, marked, acquired, missed)
            .map_err(|_| CasMismatch)?;
        fence(Ordering::Release);
        self.owner.store(owner, Ordering::Relaxed);
        self.length.store(value.len() as u64, Ordering::Relaxed);
        for (word, bytes) in self.words.iter().zip(value.chunks(size_of::<u64>())) {
            let mut filled = [0; size_of::<u64>()];
            for (to, from) in filled.iter_mut().zip(bytes) {
                *to = *from;
            }
            word.store(u64::from_ne_bytes(filled), Ordering::Relaxed);
        }
        let next = (version as Version).wrapping_add(1).max(NEVER_WRITTEN + 1);
        self.state.store(u64::from(next) << 32, Ordering::Release);
        Ok(())
    }
}

/// Slots for places of the feed. Edges of one nginx that fall upon the same one do without.
pub(crate) type FeedSlots = [SharedSlot; 16];

/// The slots of an edge, among whose values may be those of other edges.
pub(crate) struct SharedSlots {
    slots: &'static [SharedSlot],
    feeds: &'static FeedSlots,
    owner: u64,
}

impl SharedSlots {
    /// The slots of edges that are alike by `identity`, which may read each other's records.
    pub(crate) fn of(
        (slots, feeds): (&'static [SharedSlot], &'static FeedSlots),
        identity: impl Hash,
    ) -> Self {
        let mut owner = DefaultHasher::new();
        identity.hash(&mut owner);
        Self {
            slots,
            feeds,
            owner: owner.finish(),
        }
    }

    fn slot(&self, key: &str) -> Option<&SharedSlot> {
        if key == FEED_KEY {
            return self.feeds.get(self.owner as usize % self.feeds.len());
        }
        let number = key.strip_prefix(SLOT_PREFIX)?;
        self.slots.get(usize::from_str_radix(number, 16).ok()?)
    }
}

impl SharedTable for SharedSlots {
    fn get(&self, key: &str) -> Option<SharedValue<Vec<u8>>> {
        self.slot(key)?.read(self.owner)
    }

    fn set(&self, key: &str, value: &[u8], cas: Version) -> Result<(), CasMismatch> {
        let slot = self.slot(key).filter(|_| value.len() <= MAX_VALUE_BYTES);
        slot.ok_or(CasMismatch)?.write(self.owner, value, cas)
    }
}
