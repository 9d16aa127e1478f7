use super::*;
use foldhash::SharedSeed;
use proptest::prelude::*;
use std::collections::HashMap;

fn lru(max_bytes: usize) -> Lru {
    let hasher = SeedableRandomState::with_seed(7, SharedSeed::global_fixed());
    Lru::new(max_bytes, hasher)
}

fn at(millis: u64) -> Moment {
    Moment::from_millis(millis)
}

/// Cost of one entry with a key of 4 bytes and a record of 4 bytes.
fn one() -> usize {
    cost(b"d/aa", b"1234")
}

#[test]
fn entry_when_not_requested_is_evicted_first() {
    let mut lru = lru(2 * one());
    lru.put(b"d/aa", b"1234", at(1));
    lru.put(b"d/bb", b"1234", at(1));
    lru.find(b"d/aa").unwrap();
    lru.put(b"d/cc", b"1234", at(1));
    assert_eq!(lru.find(b"d/bb"), None);
    assert!(lru.find(b"d/aa").is_some() && lru.find(b"d/cc").is_some());
}

#[test]
fn entry_when_requested_survives_a_scan() {
    let mut lru = lru(20 * one());
    lru.put(b"d/aa", b"1234", at(1));
    for code in 0u8..=255 {
        lru.put(&[b'd', b'/', b's', code], b"1234", at(1));
        assert!(lru.find(b"d/aa").is_some(), "{code}");
    }
}

#[test]
fn entry_when_replaced_counts_as_requested() {
    let mut lru = lru(2 * one());
    lru.put(b"d/aa", b"1234", at(1));
    lru.put(b"d/aa", b"4321", at(2));
    lru.put(b"d/bb", b"1234", at(2));
    lru.put(b"d/cc", b"1234", at(2));
    assert!(lru.find(b"d/aa").is_some());
}

#[test]
fn eviction_when_all_are_requested_stops_at_the_step_bound() {
    let count = 3 * slab::MAX_STEPS;
    let mut lru = lru(count * one());
    let key = |number: usize| [b'd', b'/', (number / 64) as u8, (number % 64) as u8];
    for number in 0..count {
        lru.put(&key(number), b"1234", at(1));
        lru.find(&key(number)).unwrap();
    }
    lru.put(b"d/xx", b"1234", at(1));
    assert_eq!(lru.len(), count);
    let dropped = (0..count).filter(|number| lru.find(&key(*number)).is_none());
    assert_eq!(dropped.collect::<Vec<_>>(), [slab::MAX_STEPS]);
}

/// Inserts many entries, all of which are requested.
fn flood(lru: &mut Lru) {
    for number in 0..1_000_u16 {
        let key = [b"f/", &number.to_be_bytes()[..]].concat();
        lru.put(&key, b"1234", at(1));
        lru.find(&key).unwrap();
    }
}

#[test]
fn entry_when_protected_survives_floods_for_a_while() {
    let mut lru = lru(20 * one());
    lru.put_protected(b"d/aa", b"1234", at(1_000));
    flood(&mut lru);
    lru.on_time(at(1_000 + PROTECTED_MILLIS));
    flood(&mut lru);
    assert!(lru.find(b"d/aa").is_some());
    lru.on_time(at(1_001 + PROTECTED_MILLIS));
    flood(&mut lru);
    assert_eq!(lru.find(b"d/aa"), None);
}

#[test]
fn entry_when_held_then_protected_survives_a_flood() {
    let mut lru = lru(20 * one());
    lru.put(b"d/aa", b"1234", at(1));
    lru.put_protected(b"d/aa", b"1234", at(1_000));
    flood(&mut lru);
    assert!(lru.find(b"d/aa").is_some());
}

#[test]
fn protected_entries_when_many_leave_half_of_the_cache() {
    let mut lru = lru(20 * one());
    let asked: Vec<_> = (0..9).map(|number| [b'd', b'/', b'a', number]).collect();
    for key in &asked {
        lru.put(key, b"1234", at(1));
    }
    for number in 0..1_000_u16 {
        let key = [b"n/", &number.to_be_bytes()[..]].concat();
        lru.put_protected(&key, b"1234", at(2));
        for key in &asked {
            assert!(lru.find(key).is_some(), "{number}");
        }
    }
    assert!(lru.protected_bytes <= 10 * one());
}

#[test]
fn record_when_larger_than_the_cache_is_not_kept() {
    let mut lru = lru(one());
    lru.put(b"d/aa", b"1234", at(1)).unwrap();
    assert_eq!(lru.put(b"d/bb", &[0; 99], at(1)), None);
    assert!(lru.find(b"d/aa").is_some());
    // But the old record of that key is outdated.
    assert_eq!(lru.put(b"d/aa", &[0; 99], at(1)), None);
    assert_eq!((lru.find(b"d/aa"), lru.len(), lru.bytes()), (None, 0, 0));
}

#[test]
fn cache_when_it_has_no_bytes_keeps_nothing() {
    assert_eq!(lru(0).put(b"", b"", at(1)), None);
}

#[test]
fn failure_when_marked_lasts_until_the_next_fetch() {
    let mut lru = lru(9 * one());
    let place = lru.put(b"d/aa", b"1234", at(1)).unwrap();
    assert_eq!(lru.failed(place), None);
    lru.mark_failed(place, at(9_500));
    assert_eq!(lru.failed(place), Some(at(9_000)));
    let place = lru.put(b"d/aa", b"1234", at(10_000)).unwrap();
    assert_eq!((lru.failed(place), lru.fetched(place)), (None, at(10_000)));
}

#[test]
fn entry_when_on_wasm32_adds_at_most_96_bytes() {
    // On wasm32, where pointers have four bytes; a record without times and with a rev below 128 has three bytes more
    // than its target.
    let pointers = 2 * size_of::<usize>();
    let slot = slab::NODE_BYTES - pointers + 8;
    assert!(slot <= 40, "{slot}");
    let cost = slot + TABLE_BYTES + ALLOCATION_BYTES + 7 + 3;
    assert!(cost <= 96, "{cost}");
}

#[test]
fn key_when_too_long_is_not_kept() {
    assert_eq!(lru(1 << 20).put(&[b'k'; 70_000], b"", at(1)), None);
}

/// Reference model of the cache, as simple as possible: the newest entry last.
#[derive(Default)]
struct Model {
    entries: Vec<ModelEntry>,
    hand: usize,
}

struct ModelEntry {
    key: Vec<u8>,
    record: Vec<u8>,
    fetched: u64,
    is_marked: bool,
}

impl Model {
    fn bytes(&self) -> usize {
        let entries = self.entries.iter();
        entries.map(|entry| cost(&entry.key, &entry.record)).sum()
    }

    fn find(&mut self, key: &[u8]) -> Option<&mut ModelEntry> {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key)?;
        entry.is_marked = true;
        Some(entry)
    }

    fn remove(&mut self, at: usize) {
        self.entries.remove(at);
        self.hand -= usize::from(at < self.hand);
        self.hand %= self.entries.len().max(1);
    }

    fn drop_one(&mut self) {
        while std::mem::take(&mut self.entries[self.hand].is_marked) {
            self.hand = (self.hand + 1) % self.entries.len();
        }
        self.remove(self.hand);
    }

    fn put(&mut self, key: &[u8], record: &[u8], fetched: u64, max_bytes: usize) {
        let held = self.entries.iter().position(|entry| entry.key == key);
        if let Some(entry) = self.find(key).filter(|entry| entry.record == record) {
            entry.fetched = fetched;
            return;
        }
        if let Some(at) = held {
            self.remove(at);
        }
        if cost(key, record) > max_bytes {
            return;
        }
        while self.bytes() + cost(key, record) > max_bytes {
            self.drop_one();
        }
        self.entries.push(ModelEntry {
            key: key.to_vec(),
            record: record.to_vec(),
            fetched,
            is_marked: held.is_some(),
        });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Find(u8),
    Put(u8, usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u8..20).prop_map(Step::Find),
        (0u8..20, prop_oneof![Just(50), 0usize..300], any::<u64>())
            .prop_map(|(key, size, fetched)| Step::Put(key, size, fetched)),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn cache_when_entries_are_protected_holds_latest_in_bounds(
        steps in prop::collection::vec((0u8..20, 0usize..100, any::<bool>(), 0u64..100_000), 0..200),
        max_bytes in 0usize..2_000,
    ) {
        let mut lru = lru(max_bytes);
        let mut last: HashMap<u8, Vec<u8>> = HashMap::new();
        for (key, size, is_protected, now) in steps {
            let record = vec![key; size];
            if is_protected {
                lru.put_protected(&[key], &record, at(now));
            } else {
                lru.put(&[key], &record, at(now));
            }
            last.insert(key, record);
            lru.on_time(at(now));
            prop_assert!(lru.bytes() <= max_bytes && lru.protected_bytes <= lru.bytes());
        }
        let mut bytes = 0;
        for (key, record) in last {
            if let Some(place) = lru.find(&[key]) {
                prop_assert_eq!(lru.record(place), &record[..]);
                bytes += cost(&[key], &record);
            }
        }
        prop_assert_eq!(bytes, lru.bytes());
    }

    #[test]
    fn cache_when_compared_with_the_model_behaves_alike(steps in steps(), max_bytes in 0usize..2_000) {
        let (mut lru, mut model) = (lru(max_bytes), Model::default());
        for step in steps {
            match step {
                Step::Find(key) => {
                    let found = lru.find(&[key]).map(|place| (lru.record(place).to_vec(), lru.fetched(place).millis()));
                    let expected = model.find(&[key]).map(|entry| (entry.record.clone(), entry.fetched));
                    prop_assert_eq!(found, expected);
                }
                Step::Put(key, size, fetched) => {
                    let record = vec![key; size];
                    lru.put(&[key], &record, at(fetched));
                    model.put(&[key], &record, fetched, max_bytes);
                }
            }
            prop_assert_eq!(lru.len(), model.entries.len());
            prop_assert_eq!(lru.bytes(), model.bytes());
            prop_assert!(lru.bytes() <= max_bytes);
        }
    }
}
