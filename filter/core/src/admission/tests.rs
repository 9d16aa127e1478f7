use super::*;
use edgelink_wire::{CodeLength, PermutationKey};
use proptest::prelude::*;

const SILENCE: u64 = 5_000;
const BOUND: u64 = 1_000_000;

fn space() -> CodeSpace {
    let key = PermutationKey::new(*b"0123456789abcdef");
    CodeSpace::new(CodeLength::DEFAULT, Some(key))
}

fn code(number: u64) -> Vec<u8> {
    space().mint(number).unwrap().as_str().as_bytes().to_vec()
}

fn position(millis: u64) -> FeedPosition {
    FeedPosition::new(millis, 0)
}

const GENERATION: u64 = 7;

fn place(millis: u64) -> FeedPlace {
    FeedPlace {
        generation: GENERATION,
        position: position(millis),
    }
}

/// A snapshot with the alias `spring-sale`.
fn snapshot(at: u64) -> Snapshot<'static> {
    let mut codes = CodeFilter::with_capacity(0).unwrap();
    codes.insert(b"spring-sale");
    Snapshot {
        generation: GENERATION,
        position: position(at),
        bound: BOUND,
        length: CodeLength::DEFAULT,
        key: Some(PermutationKey::new(*b"0123456789abcdef")),
        domains: Vec::new(),
        codes,
        hot: Vec::new(),
    }
}

/// The moment `millis` milliseconds after the start.
fn at(millis: u64) -> Moment {
    Moment::from_millis(1_000_000 + millis)
}

const NOW: Moment = Moment::from_millis(1_000_000);

/// A gate that began at 10 with a snapshot of that position, and a feed read up to 0.
fn gate() -> Gate {
    let mut gate = Gate::new(Some(SILENCE));
    gate.on_time(Some(NOW));
    gate.begin(place(10));
    assert!(gate.apply_snapshot(snapshot(10)));
    assert!(gate.is_in_effect(NOW));
    gate
}

#[test]
fn a_number_at_or_above_the_bound_is_refused_and_one_below_is_not() {
    let gate = gate();
    assert!(gate.refuses(&code(BOUND), NOW));
    assert!(gate.refuses(&code(BOUND + 12_345), NOW));
    assert!(!gate.refuses(&code(BOUND - 1), NOW));
    assert!(!gate.refuses(&code(0), NOW));
}

#[test]
fn an_alias_of_any_shape_is_refused_unless_the_filter_or_the_feed_knows_it() {
    let mut gate = gate();
    for code in [
        &b"a"[..],
        b"winter-sale",
        b"abcdef",
        b"abcdefgh",
        b"abc_efg",
        b"",
    ] {
        assert!(gate.refuses(code, NOW), "{code:?}");
        gate.on_link(code);
        assert!(!gate.refuses(code, NOW), "{code:?}");
    }
    assert!(!gate.refuses(b"spring-sale", NOW));
}

#[test]
fn a_snapshot_of_another_incarnation_of_the_feed_is_of_no_use() {
    let mut gate = Gate::new(Some(SILENCE));
    gate.on_time(Some(NOW));
    gate.begin(place(10));
    let other = Snapshot {
        generation: GENERATION + 1,
        ..snapshot(99)
    };
    assert!(!gate.apply_snapshot(other));
    assert!(gate.apply_snapshot(snapshot(10)));
}

#[test]
fn nothing_is_refused_before_a_snapshot_without_a_feed_or_when_switched_off() {
    let mut gate = Gate::new(Some(SILENCE));
    gate.on_time(Some(NOW));
    assert!(!gate.refuses(&code(BOUND), NOW), "no snapshot");
    gate.begin(place(10));
    assert!(gate.apply_snapshot(snapshot(10)));
    gate.on_time(None);
    assert!(!gate.refuses(&code(BOUND), NOW), "no feed");
    gate.on_time(Some(NOW));
    assert!(gate.refuses(&code(BOUND), NOW));
    gate.configure(None);
    gate.on_time(Some(NOW));
    assert!(!gate.refuses(&code(BOUND), NOW), "switched off");
}

#[test]
fn a_silent_feed_opens_it_and_a_sign_of_life_closes_it_again() {
    let mut gate = gate();
    assert!(gate.refuses(&code(BOUND), at(SILENCE - 1)));
    assert!(!gate.refuses(&code(BOUND), at(SILENCE)));
    gate.on_time(Some(at(SILENCE + 1)));
    assert!(gate.refuses(&code(BOUND), at(SILENCE + 1)));
}

#[test]
fn a_new_alias_and_a_higher_bound_are_let_through_at_once() {
    let mut gate = gate();
    gate.on_link(&code(BOUND + 5));
    assert!(!gate.refuses(&code(BOUND + 5), NOW));
    gate.on_bound(BOUND + 100);
    assert!(!gate.refuses(&code(BOUND + 99), NOW));
    assert!(gate.refuses(&code(BOUND + 100), NOW));
    gate.on_bound(5);
    assert!(!gate.refuses(&code(BOUND + 99), NOW), "bounds only rise");
}

#[test]
fn a_link_on_the_feed_while_the_snapshot_was_on_its_way_counts() {
    let mut gate = Gate::new(Some(SILENCE));
    gate.on_time(Some(NOW));
    gate.begin(place(10));
    gate.on_link(&code(BOUND + 500));
    gate.on_bound(BOUND + 100);
    assert!(gate.apply_snapshot(snapshot(10)));
    assert!(!gate.refuses(&code(BOUND + 500), NOW));
    assert!(!gate.refuses(&code(BOUND + 99), NOW));
    assert!(gate.refuses(&code(BOUND + 101), NOW));
}

#[test]
fn a_snapshot_older_than_what_was_read_of_the_feed_is_of_no_use() {
    let mut gate = Gate::new(Some(SILENCE));
    assert!(!gate.wants_snapshot(), "the feed was never read");
    assert!(!gate.apply_snapshot(snapshot(10)));
    gate.begin(place(10));
    gate.begin(place(11));
    assert!(gate.wants_snapshot());
    assert!(!gate.apply_snapshot(snapshot(9)));
    assert!(gate.apply_snapshot(snapshot(10)));
    assert!(!gate.wants_snapshot());
}

#[test]
fn a_gap_opens_it_until_there_is_a_newer_snapshot() {
    let mut gate = gate();
    gate.restart();
    assert!(!gate.refuses(&code(BOUND), NOW));
    gate.begin(place(20));
    assert!(!gate.apply_snapshot(snapshot(10)));
    assert!(gate.apply_snapshot(snapshot(20)));
    assert!(gate.refuses(&code(BOUND), NOW));
}

#[test]
fn more_changes_than_are_kept_make_it_begin_again() {
    let mut gate = Gate::new(Some(SILENCE));
    gate.begin(place(10));
    for _ in 0..MAX_GATHERED {
        gate.on_link(b"abcdefg");
    }
    assert!(gate.wants_snapshot());
    gate.on_link(b"abcdefg");
    assert!(!gate.apply_snapshot(snapshot(10)));
    gate.begin(place(30));
    assert!(!gate.apply_snapshot(snapshot(20)) && gate.apply_snapshot(snapshot(30)));
}

proptest! {
    /// With any changes in any order, before the snapshot or after it, no link is refused.
    #[test]
    fn no_link_is_ever_refused(
        early in prop::collection::vec(0u64..2 * BOUND, 0..20),
        late in prop::collection::vec(0u64..2 * BOUND, 0..20),
        bounds in prop::collection::vec(0u64..2 * BOUND, 0..5),
        issued in 0u64..2 * BOUND,
    ) {
        let mut gate = Gate::new(Some(SILENCE));
        gate.on_time(Some(NOW));
        gate.begin(place(10));
        early.iter().for_each(|number| gate.on_link(&code(*number)));
        prop_assert!(gate.apply_snapshot(snapshot(10)));
        late.iter().for_each(|number| gate.on_link(&code(*number)));
        bounds.iter().for_each(|bound| gate.on_bound(*bound));
        let bound = bounds.iter().copied().fold(BOUND, u64::max);
        for number in early.iter().chain(&late) {
            prop_assert!(!gate.refuses(&code(*number), NOW));
        }
        prop_assert!(!gate.refuses(&code(issued % bound), NOW));
    }

    #[test]
    fn any_code_is_taken_without_a_panic(code in prop::collection::vec(any::<u8>(), 0..70)) {
        let mut gate = gate();
        let _ = gate.refuses(&code, NOW);
        gate.on_link(&code);
        prop_assert!(!gate.refuses(&code, NOW));
    }
}

#[test]
fn without_admission_nothing_is_kept() {
    let mut gate = gate();
    gate.configure(None);
    gate.begin(place(11));
    gate.on_link(b"summer-sale");
    assert!(!gate.apply_snapshot(snapshot(11)));
    let Knowledge::Gathering { since, codes } = &gate.knowledge else {
        panic!("{:?}", gate.knowledge);
    };
    assert!(since.is_none() && codes.is_empty());
    gate.configure(Some(SILENCE));
    gate.begin(place(12));
    assert!(gate.wants_snapshot() && gate.apply_snapshot(snapshot(12)));
}
