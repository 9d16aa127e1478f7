use super::*;
use crate::fake::{Store, link};
use crate::freshness::{Freshness, Lifetimes};
use proptest::prelude::*;

const LIFETIMES: Lifetimes = Lifetimes {
    fresh_millis: 5_000,
    absent_fresh_millis: 5_000,
    with_feed_millis: 5_000,
    stale_millis: 60_000,
};

fn by_revision(now: Moment) -> Precedence {
    Precedence {
        freshness: Freshness::default(),
        lifetimes: LIFETIMES,
        now,
        asked: None,
    }
}
const NOW: Moment = at(1_000_000);

const fn at(millis: u64) -> Moment {
    Moment::from_millis(millis)
}

fn write(slots: &mut Slots, store: &mut Store, key: &str, record: Record<&str>) {
    write_at(slots, store, key, record, NOW);
}

fn write_at(slots: &mut Slots, store: &mut Store, key: &str, record: Record<&str>, now: Moment) {
    let bytes = record.to_bytes();
    let _newer_stays = slots.write(store, offer(key, &bytes, now), by_revision(now));
}

fn offer<'a>(key: &'a str, record: &'a [u8], fetched: Moment) -> Offer<'a> {
    let decoded = Record::decode(record).unwrap();
    Offer {
        key: key.as_bytes(),
        record,
        rev: decoded.rev(),
        kind: RecordKind::of(&decoded),
        fetched,
    }
}

fn found(slots: &mut Slots, store: &mut Store, key: &str) -> Option<SharedRecord<Vec<u8>>> {
    match slots.read(store, key.as_bytes()) {
        CacheSlot::Record(record) => Some(record),
        CacheSlot::Other(_) => None,
    }
}

fn rev(slots: &mut Slots, store: &mut Store, key: &str) -> Option<u64> {
    let found = found(slots, store, key)?;
    Some(Record::decode(found.bytes()).unwrap().rev())
}

#[test]
fn hash_when_given_published_vectors_is_fnv_1a() {
    // Test vectors of FNV-1a, 64 bit, by its authors.
    for (key, hash) in [
        (&b""[..], 0xcbf2_9ce4_8422_2325),
        (b"a", 0xaf63_dc4c_8601_ec8c),
        (b"foobar", 0x8594_4171_f739_67e8),
    ] {
        assert_eq!(fnv_1a(key), hash);
    }
}

#[test]
fn slot_when_contended_prefers_a_link_to_an_absence() {
    let (mut slots, mut store) = (Slots::new(1, 2048), Store::default());
    write(&mut slots, &mut store, "d/link", link("https://e/", 1));
    write(&mut slots, &mut store, "d/none", Record::Absent { rev: 9 });
    assert_eq!(rev(&mut slots, &mut store, "d/link"), Some(1));
    let CacheSlot::Other(version) = slots.read(&mut store, b"d/none") else {
        panic!("the slot has another link");
    };
    let absence = Record::<&str>::Absent { rev: 9 }.to_bytes();
    let none = offer("d/none", &absence, NOW);
    assert!(!slots.write_over(&mut store, none, version));
    write(&mut slots, &mut store, "d/link", Record::Absent { rev: 2 });
    assert_eq!(rev(&mut slots, &mut store, "d/link"), Some(2), "its own");
    write(&mut slots, &mut store, "d/none", Record::Absent { rev: 9 });
    assert_eq!(rev(&mut slots, &mut store, "d/none"), Some(9));
    write(&mut slots, &mut store, "d/link", link("https://e/", 3));
    assert_eq!(rev(&mut slots, &mut store, "d/link"), Some(3));
}

#[test]
fn slot_when_offered_an_earlier_fetch_keeps_the_later() {
    let (mut slots, mut store) = (Slots::new(1, 2048), Store::default());
    write_at(
        &mut slots,
        &mut store,
        "d/a",
        link("https://e/", 1),
        at(999_000),
    );
    write_at(
        &mut slots,
        &mut store,
        "d/a",
        link("https://e/", 1),
        at(998_000),
    );
    let held = found(&mut slots, &mut store, "d/a").unwrap();
    assert_eq!(held.fetched, at(999_000));
}

#[test]
fn record_when_written_by_one_worker_is_read_with_its_age() {
    let mut store = Store::default();
    let fetched = at(999_000);
    let record = link("https://e/", 1).to_bytes();
    let offer = offer("d/a", &record, fetched);
    let written = Slots::new(64, 2048).write(&mut store, offer, by_revision(NOW));
    assert_eq!(written, Ok(()));
    let found = found(&mut Slots::new(64, 2048), &mut store, "d/a").unwrap();
    assert_eq!(found.fetched, fetched);
    assert_eq!(Record::decode(found.bytes()), Ok(link("https://e/", 1)));
}

#[test]
fn slot_when_links_collide_holds_the_last() {
    let (mut store, mut slots) = (Store::default(), Slots::new(1, 2048));
    write(&mut slots, &mut store, "d/a", link("https://e/", 9));
    write(&mut slots, &mut store, "d/b", link("https://e/", 1));
    assert_eq!(rev(&mut slots, &mut store, "d/a"), None);
    assert_eq!(rev(&mut slots, &mut store, "d/b"), Some(1));
    assert_eq!(store.keys(), ["edgelink.slot.0"]);
}

#[test]
fn record_when_of_lower_rev_replaces_only_the_unusable() {
    let (mut store, mut slots) = (Store::default(), Slots::new(8, 2048));
    write(&mut slots, &mut store, "d/a", link("https://e/", 5));
    write(&mut slots, &mut store, "d/a", Record::Absent { rev: 4 });
    assert_eq!(rev(&mut slots, &mut store, "d/a"), Some(5));
    let later = at(NOW.millis() + LIFETIMES.stale_millis);
    let absent = Record::Absent { rev: 4 };
    write_at(&mut slots, &mut store, "d/a", absent, later);
    assert_eq!(rev(&mut slots, &mut store, "d/a"), Some(4));
}

#[test]
fn write_when_overtaken_by_another_worker_is_given_up() {
    let (mut store, mut slots) = (Store::default(), Slots::new(8, 2048));
    write(&mut slots, &mut store, "d/a", link("https://e/", 1));
    store.overtake_next_write();
    write(&mut slots, &mut store, "d/a", link("https://e/", 2));
    assert_eq!(rev(&mut slots, &mut store, "d/a"), Some(1));
    assert_eq!(store.mismatches, 1);
}

#[test]
fn slot_when_unchanged_since_read_is_written_over() {
    let (mut store, mut slots) = (Store::default(), Slots::new(1, 100));
    let version = |slots: &mut Slots, store: &mut Store| match slots.read(store, b"d/a") {
        CacheSlot::Other(version) => version,
        CacheSlot::Record(_) => panic!("there is a record"),
    };
    let record = link("https://e/", 5).to_bytes();
    let ours = offer("d/a", &record, NOW);
    let unknown = version(&mut slots, &mut store);
    assert!(
        !slots.write_over(&mut store, ours, unknown),
        "never written"
    );

    write(&mut slots, &mut store, "d/b", link("https://e/", 1));
    let known = version(&mut slots, &mut store);
    write(&mut slots, &mut store, "d/b", link("https://e/", 2));
    assert!(!slots.write_over(&mut store, ours, known), "overtaken");
    assert_eq!(rev(&mut slots, &mut store, "d/b"), Some(2));

    let known = version(&mut slots, &mut store);
    let long = link(&"u".repeat(100), 5).to_bytes();
    assert!(!slots.write_over(&mut store, offer("d/a", &long, NOW), known));
    assert!(slots.write_over(&mut store, ours, known));
    assert_eq!(rev(&mut slots, &mut store, "d/a"), Some(5));
}

#[test]
fn slot_name_when_formatted_is_hexadecimal() {
    for number in [0, 1, 15, 16, 0xfffff, 0x100_000, u64::MAX] {
        let mut name = String::new();
        push_hexadecimal(number, &mut name);
        assert_eq!(name, format!("{number:x}"));
    }
}

#[test]
fn value_when_above_the_bound_is_not_written() {
    let (mut store, mut slots) = (Store::default(), Slots::new(8, 100));
    let fits = "u".repeat(100 - 1 - 8 - 4 - 3);
    write(&mut slots, &mut store, "d/b", link(&fits, 1));
    assert_eq!(rev(&mut slots, &mut store, "d/b"), Some(1));
    write(
        &mut slots,
        &mut store,
        "d/b",
        link(&[&fits, "u"].concat(), 2),
    );
    assert_eq!(rev(&mut slots, &mut store, "d/b"), Some(1));
}

#[test]
fn record_when_there_are_no_slots_is_not_shared() {
    let (mut store, mut slots) = (Store::default(), Slots::new(0, 2048));
    write(&mut slots, &mut store, "d/a", link("https://e/", 1));
    assert_eq!(rev(&mut slots, &mut store, "d/a"), None);
    assert!(store.keys().is_empty());
}

proptest! {
    #[test]
    fn slot_when_its_bytes_are_arbitrary_yields_whole_records(value in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut store = Store::default();
        store.put("edgelink.slot.0", &value);
        if let Some(found) = found(&mut Slots::new(1, 2048), &mut store, "d/a") {
            prop_assert!(Record::decode(found.bytes()).is_ok());
        }
    }

    #[test]
    fn slot_when_cut_or_corrupted_never_yields_another_key(
        cut in 0usize..40, change in any::<u8>(),
    ) {
        let (mut store, mut slots) = (Store::default(), Slots::new(1, 2048));
        write(&mut slots, &mut store, "d/a", link("https://example.com/", 7));
        let mut value = store.value("edgelink.slot.0").unwrap();
        let at = cut % value.len();
        value[at] = change;
        store.put("edgelink.slot.0", &value);
        prop_assert!(found(&mut slots, &mut store, "d/b").is_none() || value[10..13] == *b"d/b");
        store.put("edgelink.slot.0", &value[..at]);
        prop_assert!(found(&mut slots, &mut store, "d/b").is_none());
    }
}
