//! Moves, restorations and rules.

use super::*;

const RULED: Value = Value::Ruled {
    plain: 1,
    picked: 2,
};

impl Story {
    /// A link is restored with another value than it had when it was deleted.
    fn restored_as(self, asked: Value, shown: Value, from: u64, to: u64) -> Self {
        self.found("restore", (asked, shown), true, from, to)
    }

    fn found(
        mut self,
        kind: &str,
        (asked, shown): (Value, Value),
        is_answered: bool,
        from: u64,
        to: u64,
    ) -> Self {
        let outcome = OperationOutcome::Done {
            code: "x".to_owned(),
            since: from * 1000,
            shown: Some(shown),
            is_answered,
        };
        self.operation(from, to, write(kind, asked), outcome);
        self
    }

    fn pick(mut self, value: Value, from: u64, to: u64) -> Self {
        let (code, via, picks) = ("x".to_owned(), Via::Envoy(0), true);
        let host = Host::Own;
        let ask = Ask::Follow {
            code,
            via,
            picks,
            host,
        };
        let answer = OperationOutcome::Answer { value, tier: None };
        self.operation(from, to, ask, answer);
        self
    }
}

fn deleted() -> Story {
    created().write("delete", Absent, 10_000, 10_010)
}

#[test]
fn link_when_moved_away_and_followed_is_reported() {
    let story = || created().write("move", Absent, 10_000, 10_010);
    assert_eq!(story().follow(Target(1), 15_000, 15_001).breaks(), []);
    let late = story().follow(Target(1), 15_011, 15_020);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
}

#[test]
fn link_when_moved_here_and_missing_is_reported() {
    let story = || Story::default().write("move here", Target(1), 1000, 1010);
    assert_eq!(story().follow(Target(1), 2000, 2001).breaks(), []);
    let missing = story().follow(Absent, 6011, 6012);
    assert_eq!(missing.breaks(), [Promise::NothingMissing]);
    let taken = created().write("move here", Target(3), 3000, 3010);
    assert_eq!(taken.breaks(), [Promise::NothingTwice]);
}

#[test]
fn link_when_restored_and_missing_is_reported() {
    let story = || deleted().write("restore", Target(1), 20_000, 20_010);
    assert_eq!(story().follow(Target(1), 40_000, 40_001).breaks(), []);
    let missing = story().follow(Absent, 40_000, 40_001);
    assert_eq!(missing.breaks(), [Promise::NothingMissing]);
    let over_another = deleted().write("create", Target(3), 12_000, 12_010).write(
        "restore",
        Target(1),
        20_000,
        20_010,
    );
    assert_eq!(over_another.breaks(), [Promise::NothingTwice]);
}

#[test]
fn link_when_brought_back_by_database_is_given_once() {
    for (away, kind) in [("delete", "restore"), ("move", "move here")] {
        let story = |is_answered| {
            let story = created().copied(5000, 5100);
            let story = story.write(away, Absent, 10_000, 10_010);
            let story = story.restored(20_000, 22_000);
            story.found(kind, (Target(1), Target(1)), is_answered, 30_000, 100_000)
        };
        assert_eq!(story(false).breaks(), []);
        assert_eq!(story(true).breaks(), [Promise::NothingTwice]);
    }
}

#[test]
fn link_when_restored_with_other_content_is_reported() {
    let story = || deleted().restored_as(Target(1), Target(7), 20_000, 20_010);
    assert_eq!(story().breaks(), [Promise::NothingLost]);
    // A restored database may have an older tombstone.
    let older = created()
        .write("delete", Absent, 2000, 2010)
        .copied(5000, 5100)
        .write("create", Target(3), 6000, 6010)
        .write("delete", Absent, 7000, 7010)
        .restored(12_000, 13_000)
        .restored_as(Target(3), Target(1), 20_000, 20_010)
        .follow(Target(1), 40_000, 40_001);
    assert_eq!(older.breaks(), []);
}

#[test]
fn link_when_restored_is_followed_until_database_goes_back() {
    let story = |restored: u64| {
        let story = Story::default().copied(500, 600);
        let story = story.write("create", Target(1), 1000, 1010);
        let story = story.write("delete", Absent, 2000, 2010);
        let story = story.follow(Target(1), 20_100, 20_101);
        let story = story.restored(restored, restored + 100);
        story.restored_as(Target(1), Absent, 20_000, 21_000)
    };
    assert_eq!(story(20_500).breaks(), []);
    let late = story(15_000).follow(Target(1), 26_001, 26_002);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
}

#[test]
fn rule_when_condition_is_met_leads_elsewhere() {
    let story = || created().write("rules", RULED, 10_000, 10_010);
    let right = story()
        .follow(Target(1), 20_000, 20_001)
        .pick(Target(2), 20_000, 20_001)
        .read(RULED, 20_000, 20_001);
    assert_eq!(right.breaks(), []);
    let ignored = story().pick(Target(1), 15_011, 15_012);
    assert_eq!(ignored.breaks(), [Promise::NothingOld]);
    let for_all = story().follow(Target(2), 20_000, 20_001);
    assert_eq!(for_all.breaks(), [Promise::NothingOld]);
    let lost = story().read(Target(1), 20_000, 20_001);
    assert_eq!(lost.breaks(), [Promise::NothingLost]);
}

#[test]
fn rule_when_removed_leads_nowhere() {
    let story = || {
        created()
            .write("rules", RULED, 10_000, 10_010)
            .write("rules", Target(1), 20_000, 20_010)
    };
    assert_eq!(story().pick(Target(2), 25_000, 25_001).breaks(), []);
    assert_eq!(story().pick(Target(1), 40_000, 40_001).breaks(), []);
    let late = story().pick(Target(2), 25_011, 25_012);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
}
