//! Tier 3: a fixed number of slots in the proxy's shared data.
//!
//! The store never forgets a key, so its keys name slots, not links. A slot holds one entry with the key inside; two links
//! that share a slot displace each other.
//!
//! Layout of a slot's value: 1 byte version, 8 bytes fetch time (milliseconds of the machine's monotonic clock,
//! little-endian), the encoded [`Entry`].

use crate::freshness::{HeldRevision, Precedence};
use crate::host::{NEVER_WRITTEN, SLOT_PREFIX, SharedData, SharedValue, Version};
use crate::time::Moment;
use edgelink_wire::record::RecordKind;
use edgelink_wire::{Entry, Record};
use std::ops::Deref;

/// Version 1 had times of the wall clock.
const VERSION: u8 = 2;

/// The slots of one plugin.
#[derive(Debug)]
pub(crate) struct Slots {
    count: u64,
    max_value_bytes: usize,
    name: String,
    value: Vec<u8>,
}

/// Content of the slot of a key.
pub(crate) enum CacheSlot<V> {
    /// A record of that key.
    Record(SharedRecord<V>),
    /// The record of another key, or none.
    Other(Version),
}

/// A record that was found in a slot.
#[derive(Debug)]
pub(crate) struct SharedRecord<V> {
    value: V,
    start: usize,
    /// Time at which the worker that wrote it had fetched it.
    pub(crate) fetched: Moment,
}

impl<V: Deref<Target = [u8]>> SharedRecord<V> {
    /// The encoded record, known to decode.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.value.get(self.start..).unwrap_or_default()
    }

    /// Copies the record out of the value of the slot.
    pub(crate) fn to_owned_record(&self) -> SharedRecord<Vec<u8>> {
        SharedRecord {
            value: self.bytes().to_vec(),
            start: 0,
            fetched: self.fetched,
        }
    }
}

/// A record to be written into the slot of its key.
#[derive(Clone, Copy)]
pub(crate) struct Offer<'a> {
    pub(crate) key: &'a [u8],
    /// The record, encoded.
    pub(crate) record: &'a [u8],
    /// Its revision.
    pub(crate) rev: u64,
    pub(crate) kind: RecordKind,
    pub(crate) fetched: Moment,
}

/// The newer record of the same key that a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newer {
    pub(crate) rev: u64,
    pub(crate) kind: RecordKind,
}

impl Slots {
    /// `count` slots, none for 0; values above `max_value_bytes` are not written.
    pub(crate) fn new(count: u32, max_value_bytes: usize) -> Self {
        Self {
            count: u64::from(count),
            max_value_bytes,
            name: SLOT_PREFIX.to_owned(),
            value: Vec::new(),
        }
    }

    /// Reads the slot of `key`.
    pub(crate) fn read<D: SharedData>(&mut self, data: &mut D, key: &[u8]) -> CacheSlot<D::Value> {
        let held = self.name_slot_of(key).and_then(|name| data.get(name));
        let Some(SharedValue { value, cas }) = held else {
            return CacheSlot::Other(NEVER_WRITTEN);
        };
        match record_of(&value, key) {
            Some((fetched, record)) if Record::decode(record).is_ok() => {
                let start = value.len() - record.len();
                CacheSlot::Record(SharedRecord {
                    value,
                    start,
                    fetched,
                })
            }
            _ => CacheSlot::Other(cas),
        }
    }

    /// Writes a record into its slot. An absence never takes the slot from a link: requests for absent links must not evict
    /// requested ones. If another worker writes at the same time, either record is as good, so a mismatch is not retried.
    ///
    /// # Errors
    /// [`Newer`] if the slot holds a newer record of the same key, which stays.
    pub(crate) fn write(
        &mut self,
        data: &mut impl SharedData,
        offer: Offer<'_>,
        precedence: Precedence,
    ) -> Result<(), Newer> {
        let Some(name) = self.name_slot_of(offer.key) else {
            return Ok(());
        };
        let held = data.get(name);
        if let Some(SharedValue { value, .. }) = &held {
            match Holder::of(value, offer.key) {
                Holder::Same { rev, kind, fetched } => {
                    if !precedence.may_replace(offer.rev, HeldRevision { rev, fetched }) {
                        return Err(Newer { rev, kind });
                    }
                    if rev == offer.rev && fetched > offer.fetched {
                        return Ok(());
                    }
                }
                Holder::OtherLink if offer.kind == RecordKind::Absent => return Ok(()),
                Holder::OtherLink | Holder::Other => {}
            }
        }
        let cas = held.map_or(NEVER_WRITTEN, |held| held.cas);
        let _lost_to_another_worker = self.set(data, offer, cas);
        Ok(())
    }

    /// Writes a record into its slot, which had no record of that key at `version`. Returns `false` if it was not written: the slot
    /// has changed since, or the version is not known, or the record is an absence, so that the current content of the slot
    /// matters.
    pub(crate) fn write_over(
        &mut self,
        data: &mut impl SharedData,
        offer: Offer<'_>,
        version: Version,
    ) -> bool {
        version != NEVER_WRITTEN
            && offer.kind == RecordKind::Link
            && self.name_slot_of(offer.key).is_some()
            && self.set(data, offer, version)
    }

    /// Writes a record only if its slot has that key already, unlike [`Self::write`]: a change of a link that was not requested
    /// must not evict a link that was.
    pub(crate) fn renew(
        &mut self,
        data: &mut impl SharedData,
        offer: Offer<'_>,
        precedence: Precedence,
    ) {
        let held = self.name_slot_of(offer.key).and_then(|name| data.get(name));
        let holder = held.map(|held| Holder::of(&held.value, offer.key));
        if matches!(holder, Some(Holder::Same { .. })) {
            let _newer_stays = self.write(data, offer, precedence);
        }
    }

    /// Writes to the slot that was named last. Returns `true` on success.
    fn set(&mut self, data: &mut impl SharedData, offer: Offer<'_>, cas: Version) -> bool {
        self.value.clear();
        self.value.push(VERSION);
        self.value
            .extend_from_slice(&offer.fetched.millis().to_le_bytes());
        Entry::join(offer.key, offer.record, &mut self.value);
        self.value.len() <= self.max_value_bytes && data.set(&self.name, &self.value, cas).is_ok()
    }

    fn name_slot_of(&mut self, key: &[u8]) -> Option<&str> {
        let slot = fnv_1a(key).checked_rem(self.count)?;
        self.name.truncate(SLOT_PREFIX.len());
        push_hexadecimal(slot, &mut self.name);
        Some(&self.name)
    }
}

fn parse(value: &[u8]) -> Option<(Moment, &[u8])> {
    let ([version, fetched @ ..], entry) = value.split_first_chunk::<9>()?;
    let fetched = Moment::from_millis(u64::from_le_bytes(*fetched));
    (*version == VERSION).then_some((fetched, entry))
}

/// Fetch time and encoded record in a slot, if it is a record of `key`.
fn record_of<'v>(value: &'v [u8], key: &[u8]) -> Option<(Moment, &'v [u8])> {
    let (fetched, entry) = parse(value)?;
    let (found, record) = Entry::split(entry).ok()?;
    (found == key).then_some((fetched, record))
}

/// Current content of a slot that a record is to be written into.
enum Holder {
    /// A record of the key itself.
    Same {
        rev: u64,
        kind: RecordKind,
        fetched: Moment,
    },
    /// The link of another key.
    OtherLink,
    /// An absence of another key, or an unreadable value.
    Other,
}

impl Holder {
    fn of(value: &[u8], key: &[u8]) -> Self {
        let Some((fetched, entry)) = parse(value) else {
            return Self::Other;
        };
        let Ok((found, record)) = Entry::split(entry) else {
            return Self::Other;
        };
        match Record::decode(record) {
            Ok(record) if found == key => Self::Same {
                rev: record.rev(),
                kind: RecordKind::of(&record),
                fetched,
            },
            Ok(Record::Link(_)) => Self::OtherLink,
            Ok(Record::Absent { .. }) | Err(_) => Self::Other,
        }
    }
}

/// Appends a number without leading zeros, much faster than `{:x}`.
fn push_hexadecimal(number: u64, out: &mut String) {
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        let digit = (number >> (4 * place)) as u8 & 15;
        out.push(char::from(match digit {
            0..10 => b'0' + digit,
            _ => b'a' + digit - 10,
        }));
    }
}

/// FNV-1a, 64 bit: stable across workers and builds. For slots, an attacker who finds links that share a slot only causes more lookups of
/// these two.
pub(crate) fn fnv_1a(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
