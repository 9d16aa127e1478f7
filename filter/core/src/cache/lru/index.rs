//! The slots of entries, by the hashes of their keys.
//!
//! Many small tables instead of a large one: a table that grows moves all its slots at once, and with a million entries
//! every request of the worker would wait for more than a tenth of a second.

use hashbrown::HashTable;

/// The number of tables. With a million entries, one that grows moves some ten thousand.
const TABLES: usize = 64;

/// The table of a hash is selected by the bits from this one on: hashbrown uses the lowest and the highest itself.
const SHIFT: u32 = 32;

/// Slot numbers by hash.
pub(super) struct Index {
    tables: Box<[HashTable<u32>; TABLES]>,
    len: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            tables: Box::new([const { HashTable::new() }; TABLES]),
            len: 0,
        }
    }
}

impl Index {
    /// Number of slots.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot with that hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let table = self.tables.get(place(hash))?;
        table.find(hash, |slot| is_it(*slot)).copied()
    }

    /// Adds a slot that is not there yet. `hash_of` gives the hashes of those that are, should the table grow.
    pub(super) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        if let Some(table) = self.tables.get_mut(place(hash)) {
            table.insert_unique(hash, slot, |slot| hash_of(*slot));
            self.len += 1;
        }
    }

    /// Removes a slot.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let table = self.tables.get_mut(place(hash));
        let found = table.and_then(|table| table.find_entry(hash, |each| *each == slot).ok());
        if let Some(found) = found {
            found.remove();
            self.len -= 1;
        }
    }
}

fn place(hash: u64) -> usize {
    (hash >> SHIFT) as usize % TABLES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::hasher;
    use std::hash::BuildHasher;

    #[test]
    fn slot_when_inserted_is_found_in_a_small_table() {
        let (hasher, mut index) = (hasher(), Index::default());
        let hash_of = |slot: u32| hasher.hash_one(slot);
        let slots = 0..100_000;
        for slot in slots.clone() {
            index.insert(hash_of(slot), slot, hash_of);
        }
        for slot in slots.clone() {
            assert_eq!(index.find(hash_of(slot), |each| each == slot), Some(slot));
        }
        assert_eq!(index.find(hash_of(7), |each| each == 8), None);
        let largest = index.tables.iter().map(HashTable::len).max();
        assert!(largest < Some(2 * slots.len() / TABLES), "{largest:?}");
        for slot in slots.clone() {
            assert_eq!(index.len(), slots.len() - slot as usize);
            index.remove(hash_of(slot), slot);
            index.remove(hash_of(slot), slot);
            assert_eq!(index.find(hash_of(slot), |each| each == slot), None);
        }
        assert_eq!(index.len(), 0);
    }
}
