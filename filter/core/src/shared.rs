//! Tier 2: a fixed number of slots in the proxy's shared data.
//!
//! The store never forgets a key, so the keys are the slots' and not the links'. A slot holds one entry with the key
//! inside; two links that share a slot take it from each other.
//!
//! Layout of a slot's value: 1 byte version, 8 bytes when it was fetched (unix milliseconds, little-endian), the
//! encoded [`Entry`].

use crate::host::{NEVER_WRITTEN, SharedData};
use crate::time::{Lives, Moment};
use edgelink_wire::{Entry, Record};
use std::fmt::Write;

const VERSION: u8 = 1;
const PREFIX: &str = "edgelink.slot.";

/// The slots of one plugin.
#[derive(Debug)]
pub(crate) struct Slots {
    count: u64,
    max_value_bytes: usize,
    name: String,
    value: Vec<u8>,
}

/// A record that was found in a slot.
#[derive(Debug)]
pub(crate) struct SharedRecord {
    value: Vec<u8>,
    start: usize,
    /// When the worker that wrote it had fetched it.
    pub(crate) fetched: Moment,
}

impl SharedRecord {
    /// The encoded record. It decodes: that was tried.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.value.get(self.start..).unwrap_or_default()
    }
}

impl Slots {
    /// As many slots as `count`, none of them for 0; values above `max_value_bytes` are not written.
    pub(crate) fn new(count: u32, max_value_bytes: usize) -> Self {
        Self {
            count: u64::from(count),
            max_value_bytes,
            name: String::new(),
            value: Vec::new(),
        }
    }

    /// What the slot of `key` holds, if it is that key's. Whatever else is there is as good as nothing.
    pub(crate) fn read(&mut self, data: &mut impl SharedData, key: &[u8]) -> Option<SharedRecord> {
        let value = data.get(self.name_slot_of(key)?)?.value;
        let (fetched, entry) = parse(&value)?;
        let (found, record) = Entry::split(entry).ok()?;
        if found != key || Record::decode(record).is_err() {
            return None;
        }
        Some(SharedRecord {
            start: value.len().checked_sub(record.len())?,
            fetched,
            value,
        })
    }

    /// Writes a record into the slot of `key`. Whether that may be: not if the slot holds a newer one of the same key.
    /// A worker that writes at the same time wins or loses: either record is as good, so a mismatch is not retried.
    pub(crate) fn write(
        &mut self,
        data: &mut impl SharedData,
        key: &[u8],
        record: Record<&str>,
        fetched: Moment,
        lives: &Lives,
        now: Moment,
    ) -> bool {
        let Some(name) = self.name_slot_of(key) else {
            return true;
        };
        let held = data.get(name);
        if let Some((held, at)) = held.as_ref().and_then(|held| rev_of(&held.value, key))
            && !lives.may_replace(record.rev(), held, at, now)
        {
            return false;
        }
        self.encode(key, record, fetched);
        if self.value.len() <= self.max_value_bytes {
            let cas = held.map_or(NEVER_WRITTEN, |held| held.cas);
            let _lost_to_another_worker = data.set(&self.name, &self.value, cas);
        }
        true
    }

    /// As [`Self::write`], but only if the slot is that key's already: news of a link that nobody asked for must not
    /// drive out one that somebody did.
    pub(crate) fn renew(
        &mut self,
        data: &mut impl SharedData,
        key: &[u8],
        record: Record<&str>,
        fetched: Moment,
        lives: &Lives,
        now: Moment,
    ) {
        let held = self.name_slot_of(key).and_then(|name| data.get(name));
        if held.is_some_and(|held| rev_of(&held.value, key).is_some()) {
            self.write(data, key, record, fetched, lives, now);
        }
    }

    fn encode(&mut self, key: &[u8], record: Record<&str>, fetched: Moment) {
        self.value.clear();
        self.value.push(VERSION);
        self.value
            .extend_from_slice(&fetched.millis().to_le_bytes());
        Entry { key, record }.encode(&mut self.value);
    }

    fn name_slot_of(&mut self, key: &[u8]) -> Option<&str> {
        let slot = fnv_1a(key).checked_rem(self.count)?;
        self.name.clear();
        self.name.push_str(PREFIX);
        write!(self.name, "{slot:x}").ok()?;
        Some(&self.name)
    }
}

fn parse(value: &[u8]) -> Option<(Moment, &[u8])> {
    let ([version, fetched @ ..], entry) = value.split_first_chunk::<9>()?;
    let fetched = Moment::from_millis(u64::from_le_bytes(*fetched));
    (*version == VERSION).then_some((fetched, entry))
}

/// The rev of what a slot holds, and when it was fetched, if that is the record of `key`.
fn rev_of(value: &[u8], key: &[u8]) -> Option<(u64, Moment)> {
    let (fetched, entry) = parse(value)?;
    let entry = Entry::decode(entry).ok()?;
    (entry.key == key).then_some((entry.record.rev(), fetched))
}

/// FNV-1a, 64 bit: the same in every worker and every build. Whoever finds links that share a slot gains nothing but
/// that these two are asked for more often.
fn fnv_1a(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
