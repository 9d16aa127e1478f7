use super::*;
use foldhash::SharedSeed;
use proptest::prelude::*;

fn lru(max_bytes: usize) -> Lru {
    let hasher = SeedableRandomState::with_seed(7, SharedSeed::global_fixed());
    Lru::new(max_bytes, hasher)
}

fn at(millis: u64) -> Moment {
    Moment::from_millis(millis)
}

/// What one entry with a key of 4 bytes and a record of 4 bytes costs.
fn one() -> usize {
    cost(b"d/aa", b"1234")
}

#[test]
fn the_least_recently_used_entry_goes_first() {
    let mut lru = lru(2 * one());
    lru.put(b"d/aa", b"1234", at(1));
    lru.put(b"d/bb", b"1234", at(1));
    lru.find(b"d/aa").unwrap();
    lru.put(b"d/cc", b"1234", at(1));
    assert_eq!(lru.find(b"d/bb"), None);
    assert!(lru.find(b"d/aa").is_some() && lru.find(b"d/cc").is_some());
}

#[test]
fn what_is_larger_than_the_whole_cache_is_not_kept_and_drops_nothing_else() {
    let mut lru = lru(one());
    lru.put(b"d/aa", b"1234", at(1)).unwrap();
    assert_eq!(lru.put(b"d/bb", &[0; 99], at(1)), None);
    assert!(lru.find(b"d/aa").is_some());
    // But the old record of the same key is no longer true.
    assert_eq!(lru.put(b"d/aa", &[0; 99], at(1)), None);
    assert_eq!((lru.find(b"d/aa"), lru.len(), lru.bytes()), (None, 0, 0));
}

#[test]
fn a_cache_of_no_bytes_keeps_nothing() {
    assert_eq!(lru(0).put(b"", b"", at(1)), None);
}

#[test]
fn a_failure_is_remembered_until_the_record_is_fetched_again() {
    let mut lru = lru(9 * one());
    let place = lru.put(b"d/aa", b"1234", at(1)).unwrap();
    assert_eq!(lru.failed(place), None);
    lru.mark_failed(place, at(9_500));
    assert_eq!(lru.failed(place), Some(at(9_000)));
    let place = lru.put(b"d/aa", b"1234", at(10_000)).unwrap();
    assert_eq!((lru.failed(place), lru.fetched(place)), (None, at(10_000)));
}

#[test]
fn an_entry_costs_less_than_96_bytes_besides_key_and_target() {
    // On wasm32, where pointers have four bytes; a record without times and with a rev below 128 has three bytes more
    // than its target.
    let pointers = 2 * size_of::<usize>();
    let slot = slab::SLOT_BYTES - pointers + 8;
    assert!(slot <= 40, "{slot}");
    let cost = slot + TABLE_BYTES + ALLOCATION_BYTES + 7 + 3;
    assert!(cost <= 96, "{cost}");
}

#[test]
fn a_long_key_is_no_entry() {
    assert_eq!(lru(1 << 20).put(&[b'k'; 70_000], b"", at(1)), None);
}

/// The same cache, as simple as can be: the most recently used entry last.
#[derive(Default)]
struct Model(Vec<(Vec<u8>, Vec<u8>, u64)>);

impl Model {
    fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(key, record, _)| cost(key, record))
            .sum()
    }

    fn find(&mut self, key: &[u8]) -> Option<(Vec<u8>, u64)> {
        let at = self.0.iter().position(|(each, ..)| each == key)?;
        let entry = self.0.remove(at);
        self.0.push(entry.clone());
        Some((entry.1, entry.2))
    }

    fn put(&mut self, key: &[u8], record: &[u8], fetched: u64, max_bytes: usize) {
        self.0.retain(|(each, ..)| each != key);
        if cost(key, record) > max_bytes {
            return;
        }
        while self.bytes() + cost(key, record) > max_bytes {
            self.0.remove(0);
        }
        self.0.push((key.to_vec(), record.to_vec(), fetched));
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
        (0u8..20, 0usize..300, any::<u64>())
            .prop_map(|(key, size, fetched)| Step::Put(key, size, fetched)),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn it_behaves_like_the_simplest_cache_there_is(steps in steps(), max_bytes in 0usize..2_000) {
        let (mut lru, mut model) = (lru(max_bytes), Model::default());
        for step in steps {
            match step {
                Step::Find(key) => {
                    let found = lru.find(&[key]).map(|place| (lru.record(place).to_vec(), lru.fetched(place).millis()));
                    prop_assert_eq!(found, model.find(&[key]));
                }
                Step::Put(key, size, fetched) => {
                    let record = vec![key; size];
                    lru.put(&[key], &record, at(fetched));
                    model.put(&[key], &record, fetched, max_bytes);
                }
            }
            prop_assert_eq!(lru.len(), model.0.len());
            prop_assert_eq!(lru.bytes(), model.bytes());
            prop_assert!(lru.bytes() <= max_bytes);
        }
    }
}
