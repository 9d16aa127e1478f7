use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn tally(clicks: u64, bots: u64) -> Tally {
    Tally { clicks, bots }
}

fn rollup(values: &[(Attribute, &'static str, Tally)]) -> Rollup<'static> {
    let mut rollup = Rollup::new(1);
    let mut clicks: BTreeMap<Attribute, Tally> = BTreeMap::new();
    for (by, value, tally) in values {
        rollup.values[*by as usize].push((value, *tally));
        clicks.entry(*by).or_default().add(*tally);
    }
    for values in &mut rollup.values {
        values.sort_unstable_by(|one, other| one.0.cmp(other.0));
    }
    rollup.slots[0] = clicks
        .into_values()
        .max_by_key(|tally| tally.clicks)
        .unwrap_or_default();
    rollup
}

fn added<'a>(rollup: &Rollup<'a>) -> Added<'a> {
    Added {
        sum: rollup.sum(),
        values: rollup.values.clone(),
        visitors: Vec::new(),
    }
}

fn bounds(values: usize, bytes: usize) -> RollupBounds {
    RollupBounds { values, bytes }
}

#[test]
fn rollup_when_bytes_exceed_the_bound_merges_rest_into_other() {
    let texts: Vec<String> = (0..900).map(|n| format!("{n:0100}")).collect();
    let mut rollup = Rollup::new(1);
    for by in [Attribute::UtmTerm, Attribute::UtmSource] {
        let added = texts
            .iter()
            .zip(1..)
            .map(|(text, clicks)| (text.as_str(), tally(clicks, 0)));
        rollup.values[by as usize] = added.collect();
    }
    let sum = sum(&rollup.values[Attribute::UtmTerm as usize]
        .iter()
        .map(|it| it.1)
        .collect::<Vec<_>>());
    rollup.values[Attribute::Country as usize] = vec![("DE", sum)];
    rollup.slots[0] = sum;
    let mut all = Rollup::new(1);
    all.add(0, &added(&rollup), bounds(1000, 10_000));
    let bytes = all.encode();
    assert!((8_000..10_000).contains(&bytes.len()), "{}", bytes.len());
    let read = Rollup::decode(&bytes).unwrap();
    assert_eq!(read.values[Attribute::Country as usize], [("DE", sum)]);
    for by in [Attribute::UtmTerm, Attribute::UtmSource] {
        let values = &read.values[by as usize];
        let all: Vec<Tally> = values.iter().map(|(_, tally)| *tally).collect();
        assert_eq!(self::sum(&all), sum);
        assert_eq!(values.last(), Some(&(texts[899].as_str(), tally(900, 0))));
        assert_eq!(values[0].0, OTHER);
    }
}

#[test]
fn rollup_when_clicks_lack_a_value_counts_them_as_empty() {
    let mut rollup = rollup(&[
        (Attribute::Country, "DE", tally(3, 1)),
        (Attribute::Browser, "Firefox", tally(1, 0)),
    ]);
    rollup.slots[0] = tally(5, 2);
    rollup.visitors.insert(7);
    let bytes = rollup.encode();
    let read = EncodedRollup::open(&bytes).unwrap();
    let values = |by| read.values(by).unwrap();
    assert_eq!(
        values(Attribute::Country),
        [("", tally(2, 1)), ("DE", tally(3, 1))]
    );
    assert_eq!(values(Attribute::City), [("", tally(5, 2))]);
    assert_eq!(values(Attribute::Tag), []);
    assert_eq!(read.visitors().unwrap().estimate(), 1);
}

#[test]
fn rollup_when_values_exceed_the_bound_merges_rest_into_other() {
    let (de, at, ch) = ("DE", "AT", "CH");
    let country = |value, clicks| (Attribute::Country, value, tally(clicks, 1));
    let mut all = rollup(&[country(de, 5), country(at, 3)]);
    let bounds = bounds(2, usize::MAX);
    all.add(
        0,
        &added(&rollup(&[country(ch, 4), country(de, 1)])),
        bounds,
    );
    let kept = [(OTHER, tally(3, 1)), (ch, tally(4, 1)), (de, tally(6, 2))];
    assert_eq!(all.values[0], kept);
    all.add(0, &added(&rollup(&[country(at, 9)])), bounds);
    let kept = [(OTHER, tally(7, 2)), (at, tally(9, 1)), (de, tally(6, 2))];
    assert_eq!(all.values[0], kept);
    assert_eq!(all.sum(), tally(22, 5));
}

#[test]
fn day_rollup_when_hours_are_merged_keeps_their_slots() {
    let mut day = Rollup::new(MAX_SLOTS);
    let hour = rollup(&[(Attribute::Os, "Linux", tally(2, 0))]);
    day.merge_hour(3, &hour, bounds(10, usize::MAX));
    day.merge_hour(23, &hour, bounds(10, usize::MAX));
    let bytes = day.encode();
    let read = Rollup::decode(&bytes).unwrap();
    assert_eq!((read.slots[3], read.slots[4]), (tally(2, 0), tally(0, 0)));
    assert_eq!(read.sum(), tally(4, 0));
    assert_eq!(
        read.values[Attribute::Os as usize],
        [("Linux", tally(4, 0))]
    );
}

#[test]
fn rollup_when_bytes_are_malformed_is_refused() {
    let bytes = rollup(&[(Attribute::Country, "DE", tally(3, 1))]).encode();
    assert!(matches!(
        Rollup::decode(&[3, 0, 0]),
        Err(RollupError::Version(3))
    ));
    for cut in 0..bytes.len() {
        assert!(Rollup::decode(&bytes[..cut]).is_err(), "{cut}");
    }
    assert!(Rollup::decode(&[2, 25]).is_err());
    assert!(Rollup::decode(&[2, 0, 0, 1, 17, 0]).is_err());
}

#[test]
fn rollup_when_split_reads_head_and_values_alone() {
    let mut rollup = rollup(&[(Attribute::Country, "DE", tally(3, 1))]);
    rollup.visitors.insert(7);
    let bytes = rollup.encode();
    let (sum, head, values) = split(&bytes).unwrap();
    assert_eq!(sum, tally(3, 1));
    assert_eq!([head, values].concat(), bytes);
    let read = EncodedRollup::open_head(head).unwrap();
    assert_eq!((read.sum(), read.visitors().unwrap().estimate()), (sum, 1));
    let read = EncodedRollup::open_values(tally(5, 1), values).unwrap();
    let expected = [("", tally(2, 0)), ("DE", tally(3, 1))];
    assert_eq!(read.values(Attribute::Country).unwrap(), expected);
    assert!(EncodedRollup::open_head(&bytes).is_err());
    assert!(EncodedRollup::open_values(sum, &bytes).is_err());
    assert!(split(&values[..1]).is_err());
}

#[test]
fn rollup_when_without_a_head_of_its_own_is_read() {
    let mut visitors = Sketch::default();
    visitors.insert(7);
    let old = [
        &b"\x01\x01\x05\x02\x01\x00\x06\x01\x02DE\x03\x02"[..],
        &visitors.to_bytes(),
    ]
    .concat();
    for read in [EncodedRollup::open(&old), EncodedRollup::open_head(&old)] {
        let read = read.unwrap();
        assert_eq!(
            (read.sum(), read.visitors().unwrap().estimate()),
            (tally(5, 2), 1)
        );
        let expected = [("", tally(2, 0)), ("DE", tally(3, 2))];
        assert_eq!(read.values(Attribute::Country).unwrap(), expected);
    }
    let new = Rollup::decode(&old).unwrap().encode();
    assert_eq!(split(&new).unwrap().0, tally(5, 2));
    assert!(matches!(split(&old), Err(RollupError::Version(WHOLE))));
}

fn any_rollup() -> impl Strategy<Value = Vec<(u8, u8, u64)>> {
    prop::collection::vec((0..17_u8, 0..6_u8, 1..9_u64), 0..40)
}

fn of(values: &[(u8, u8, u64)]) -> Rollup<'static> {
    const TEXTS: [&str; 6] = ["a", "bb", "ccc", "dddd", "eeeee", "é"];
    let mut sums: BTreeMap<(u8, u8), u64> = BTreeMap::new();
    for (by, text, clicks) in values {
        *sums.entry((*by, *text)).or_default() += clicks;
    }
    let mut rollup = Rollup::new(1);
    for ((by, text), clicks) in sums {
        let tally = tally(clicks, clicks / 2);
        rollup.values[usize::from(by)].push((TEXTS[usize::from(text)], tally));
    }
    rollup.slots[0] = tally(1000, 500);
    rollup
}

proptest! {
    #[test]
    fn rollup_when_encoded_and_decoded_is_equal(values in any_rollup()) {
        let rollup = of(&values);
        let bytes = rollup.encode();
        let read = Rollup::decode(&bytes).unwrap();
        prop_assert_eq!(read.values, rollup.values);
        prop_assert_eq!(read.slots, rollup.slots);
    }

    #[test]
    fn rollup_when_merged_equals_that_of_all_clicks(one in any_rollup(), other in any_rollup()) {
        let both: Vec<_> = one.iter().chain(&other).copied().collect();
        let mut merged = of(&one);
        merged.add(0, &added(&of(&other)), bounds(10, usize::MAX));
        let clicks = |rollup: &Rollup<'_>| rollup.values.clone().map(|values| {
            values.into_iter().map(|(value, tally)| (value.to_owned(), tally.clicks)).collect::<Vec<_>>()
        });
        prop_assert_eq!(clicks(&merged), clicks(&of(&both)));
        let mut bounded = Rollup::new(1);
        bounded.add(0, &added(&of(&one)), bounds(2, usize::MAX));
        bounded.add(0, &added(&of(&other)), bounds(2, usize::MAX));
        for (values, all) in bounded.values.iter().zip(&merged.values) {
            prop_assert!(values.len() <= 3);
            let sum = |values: &Values<'_>| values.iter().map(|(_, tally)| tally.clicks).sum::<u64>();
            prop_assert_eq!(sum(values), sum(all));
        }
    }

    #[test]
    fn rollup_when_bytes_are_arbitrary_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Rollup::decode(&bytes);
        let _ = Rollup::decode(&[&[VERSION, 1], &bytes[..]].concat());
    }
}
