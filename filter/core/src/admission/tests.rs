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
fn code_when_its_number_reaches_the_bound_is_refused() {
    let gate = gate();
    assert!(gate.refuses(&code(BOUND), NOW));
    assert!(gate.refuses(&code(BOUND + 12_345), NOW));
    assert!(!gate.refuses(&code(BOUND - 1), NOW));
    assert!(!gate.refuses(&code(0), NOW));
}

#[test]
fn alias_when_not_in_snapshot_or_feed_is_refused() {
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
fn snapshot_when_of_another_generation_is_rejected() {
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
fn code_when_admission_is_not_ready_or_off_passes() {
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
fn admission_when_feed_is_silent_opens_until_feed_is_read() {
    let mut gate = gate();
    assert!(gate.refuses(&code(BOUND), at(SILENCE - 1)));
    assert!(!gate.refuses(&code(BOUND), at(SILENCE)));
    gate.on_time(Some(at(SILENCE + 1)));
    assert!(gate.refuses(&code(BOUND), at(SILENCE + 1)));
}

#[test]
fn code_when_fed_as_link_or_below_raised_bound_passes() {
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
fn link_when_fed_before_the_snapshot_is_applied_passes() {
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
fn snapshot_when_older_than_the_feed_is_rejected() {
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
fn admission_when_feed_has_a_gap_opens_until_newer_snapshot() {
    let mut gate = gate();
    gate.restart();
    assert!(!gate.refuses(&code(BOUND), NOW));
    gate.begin(place(20));
    assert!(!gate.apply_snapshot(snapshot(10)));
    assert!(gate.apply_snapshot(snapshot(20)));
    assert!(gate.refuses(&code(BOUND), NOW));
}

#[test]
fn admission_when_changes_exceed_the_bound_starts_over() {
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
    fn link_when_changes_come_in_any_order_passes(
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
    fn code_when_its_bytes_are_arbitrary_passes_once_linked(code in prop::collection::vec(any::<u8>(), 0..70)) {
        let mut gate = gate();
        let _ = gate.refuses(&code, NOW);
        gate.on_link(&code);
        prop_assert!(!gate.refuses(&code, NOW));
    }
}

#[test]
fn admission_when_switched_off_keeps_nothing() {
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
