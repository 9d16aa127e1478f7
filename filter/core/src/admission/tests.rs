use super::*;
use crate::time::Moment;
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

fn snapshot(at: u64) -> Snapshot<'static> {
    Snapshot {
        position: position(at),
        bound: BOUND,
        length: CodeLength::DEFAULT,
        key: Some(PermutationKey::new(*b"0123456789abcdef")),
        domains: Vec::new(),
        aliases: AliasFilter::with_capacity(0).unwrap(),
        hot: Vec::new(),
    }
}

/// Both clocks at so many milliseconds after the start.
fn now(millis: u64) -> Now {
    Now {
        steady: millis,
        wall: Moment::from_millis(1_000_000_000 + millis),
    }
}

/// A gate that was begun at 10 and knows a snapshot of then, with a feed heard at 0.
fn gate() -> Gate {
    let mut gate = Gate::new(Some(SILENCE));
    gate.on_time(now(0), Some(0));
    gate.begin(position(10));
    assert!(gate.learn(snapshot(10)));
    assert!(gate.is_in_effect());
    gate
}

#[test]
fn a_number_at_or_above_the_bound_is_refused_and_one_below_is_not() {
    let gate = gate();
    assert!(gate.refuses(&code(BOUND)));
    assert!(gate.refuses(&code(BOUND + 12_345)));
    assert!(!gate.refuses(&code(BOUND - 1)));
    assert!(!gate.refuses(&code(0)));
}

#[test]
fn a_code_of_another_shape_is_not_refused() {
    for code in [
        &b"a"[..],
        b"spring-sale",
        b"abcdef",
        b"abcdefgh",
        b"abc_efg",
        b"",
    ] {
        assert!(!gate().refuses(code), "{code:?}");
    }
}

#[test]
fn nothing_is_refused_before_a_snapshot_without_a_feed_or_when_switched_off() {
    let mut gate = Gate::new(Some(SILENCE));
    gate.on_time(now(0), Some(0));
    assert!(!gate.refuses(&code(BOUND)), "no snapshot");
    gate.begin(position(10));
    assert!(gate.learn(snapshot(10)));
    gate.on_time(now(0), None);
    assert!(!gate.refuses(&code(BOUND)), "no feed");
    gate.on_time(now(0), Some(0));
    assert!(gate.refuses(&code(BOUND)));
    gate.configure(None);
    gate.on_time(now(0), Some(0));
    assert!(!gate.refuses(&code(BOUND)), "switched off");
}

#[test]
fn a_silent_feed_opens_it_and_a_sign_of_life_closes_it_again() {
    let mut gate = gate();
    gate.on_time(now(SILENCE - 1), Some(0));
    assert!(gate.refuses(&code(BOUND)));
    gate.on_time(now(SILENCE), Some(0));
    assert!(!gate.refuses(&code(BOUND)));
    gate.on_time(now(SILENCE + 1), Some(SILENCE + 1));
    assert!(gate.refuses(&code(BOUND)));
}

#[test]
fn neither_a_clock_that_was_set_back_nor_a_process_that_stood_still_hides_a_silence() {
    let mut gate = gate();
    let set_back = Now {
        wall: now(0).wall,
        ..now(SILENCE)
    };
    gate.on_time(set_back, Some(0));
    assert!(!gate.refuses(&code(BOUND)));
    let stood_still = Now {
        wall: now(SILENCE).wall,
        ..now(100)
    };
    gate.on_time(stood_still, Some(0));
    assert!(!gate.refuses(&code(BOUND)));
}

#[test]
fn a_new_alias_and_a_higher_bound_are_let_through_at_once() {
    let mut gate = gate();
    gate.on_link(&code(BOUND + 5));
    assert!(!gate.refuses(&code(BOUND + 5)));
    gate.on_bound(BOUND + 100);
    assert!(!gate.refuses(&code(BOUND + 99)));
    assert!(gate.refuses(&code(BOUND + 100)));
    gate.on_bound(5);
    assert!(!gate.refuses(&code(BOUND + 99)), "bounds only rise");
}

#[test]
fn what_the_feed_told_while_the_snapshot_was_on_its_way_counts() {
    let mut gate = Gate::new(Some(SILENCE));
    gate.on_time(now(0), Some(0));
    gate.begin(position(10));
    gate.on_link(&code(BOUND + 500));
    gate.on_bound(BOUND + 100);
    assert!(gate.learn(snapshot(10)));
    assert!(!gate.refuses(&code(BOUND + 500)));
    assert!(!gate.refuses(&code(BOUND + 99)));
    assert!(gate.refuses(&code(BOUND + 101)));
}

#[test]
fn a_snapshot_older_than_what_was_read_of_the_feed_is_of_no_use() {
    let mut gate = Gate::new(Some(SILENCE));
    assert!(!gate.wants_snapshot(), "the feed was never heard");
    assert!(!gate.learn(snapshot(10)));
    gate.begin(position(10));
    gate.begin(position(11));
    assert!(gate.wants_snapshot());
    assert!(!gate.learn(snapshot(9)));
    assert!(gate.learn(snapshot(10)));
    assert!(!gate.wants_snapshot());
}

#[test]
fn a_gap_opens_it_until_there_is_a_newer_snapshot() {
    let mut gate = gate();
    gate.restart();
    assert!(!gate.refuses(&code(BOUND)));
    gate.begin(position(20));
    assert!(!gate.learn(snapshot(10)));
    assert!(gate.learn(snapshot(20)));
    assert!(gate.refuses(&code(BOUND)));
}

#[test]
fn more_news_than_are_kept_make_it_begin_anew() {
    let mut gate = Gate::new(Some(SILENCE));
    gate.begin(position(10));
    for _ in 0..MAX_GATHERED {
        gate.on_link(b"abcdefg");
    }
    assert!(gate.wants_snapshot());
    gate.on_link(b"abcdefg");
    assert!(!gate.learn(snapshot(10)));
    gate.begin(position(30));
    assert!(!gate.learn(snapshot(20)) && gate.learn(snapshot(30)));
}

proptest! {
    /// Whatever is told in whatever order, before the snapshot or after it: no link is refused.
    #[test]
    fn no_link_is_ever_refused(
        early in prop::collection::vec(0u64..2 * BOUND, 0..20),
        late in prop::collection::vec(0u64..2 * BOUND, 0..20),
        bounds in prop::collection::vec(0u64..2 * BOUND, 0..5),
        issued in 0u64..2 * BOUND,
    ) {
        let mut gate = Gate::new(Some(SILENCE));
        gate.on_time(now(0), Some(0));
        gate.begin(position(10));
        early.iter().for_each(|number| gate.on_link(&code(*number)));
        prop_assert!(gate.learn(snapshot(10)));
        late.iter().for_each(|number| gate.on_link(&code(*number)));
        bounds.iter().for_each(|bound| gate.on_bound(*bound));
        let bound = bounds.iter().copied().fold(BOUND, u64::max);
        for number in early.iter().chain(&late) {
            prop_assert!(!gate.refuses(&code(*number)));
        }
        prop_assert!(!gate.refuses(&code(issued % bound)));
    }

    #[test]
    fn any_code_is_taken_without_a_panic(code in prop::collection::vec(any::<u8>(), 0..70)) {
        let mut gate = gate();
        let _ = gate.refuses(&code);
        gate.on_link(&code);
        prop_assert!(!gate.refuses(&code));
    }
}
