//! Domains: the code `{name}/`, for which visitors see its root or, if they request an unknown code, the target for such
//! codes.

use super::*;

const NAME: &str = "d.example/";

fn targets(plain: u64) -> Value {
    let picked = plain + 1;
    Value::Ruled { plain, picked }
}

impl Story {
    fn domain(mut self, kind: &str, value: Value, from: u64, to: u64) -> Self {
        let ask = Ask::Write {
            kind: kind.to_owned(),
            code: Some(NAME.to_owned()),
            value,
        };
        let done = OperationOutcome::done(NAME, from * 1000, true);
        self.operation(from, to, ask, done);
        self
    }

    fn root(mut self, value: Value, from: u64, to: u64) -> Self {
        let answer = OperationOutcome::Answer { value, tier: None };
        self.operation(from, to, follow(NAME), answer);
        self
    }
}

fn changed() -> Story {
    Story::default()
        .domain("make domain", targets(1), 1000, 1010)
        .domain("change domain", targets(3), 30_000, 30_010)
}

#[test]
fn domain_when_old_and_nothing_is_broken_is_reported() {
    assert_eq!(changed().root(Target(1), 35_000, 35_001).breaks(), []);
    let late = changed().root(Target(1), 35_011, 35_012);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
    let missing = changed().root(Absent, 36_000, 36_001);
    assert_eq!(missing.breaks(), [Promise::NothingMissing]);
    let of_unknown_codes = changed().root(Target(4), 31_000, 31_001);
    assert_eq!(of_unknown_codes.breaks(), [Promise::NothingOld]);
}

#[test]
fn domain_when_a_fault_lasts_stays_in_effect() {
    let story = || changed().fault(29_000, 60_000);
    assert_eq!(story().root(Target(1), 50_000, 50_001).breaks(), []);
    assert_eq!(story().root(Absent, 50_000, 50_001).breaks(), []);
    let never = story().root(Target(9), 50_000, 50_001);
    assert_eq!(never.breaks(), [Promise::NothingOld]);
    let later = story().root(Target(1), 70_001, 70_002);
    assert_eq!(later.breaks(), [Promise::NothingOld]);
}

#[test]
fn domain_when_feed_is_silent_is_excused() {
    let story = || changed().broken("control plane without redis", "", 29_000, 40_000);
    assert_eq!(story().root(Target(1), 59_999, 60_000).breaks(), []);
    let later = story().root(Target(1), 60_001, 60_002);
    assert_eq!(later.breaks(), [Promise::NothingOld]);
}

#[test]
fn domain_when_removed_and_followed_is_reported() {
    let story = || changed().domain("remove domain", Absent, 40_000, 40_010);
    assert_eq!(story().root(Absent, 50_000, 50_001).breaks(), []);
    let late = story().root(Target(3), 45_011, 45_012);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
}
