//! Handwritten histories, including those that must fail.

mod availability;
mod causes;
mod domains;
mod identities;
mod limits;
mod moves;
mod webhooks;

use super::super::history::{
    Ask, Event, Host, Micros, OperationOutcome, Purpose, Step, Value, Via, What,
};
use super::super::rollups::WrittenClicks;
use super::{Promise, Verdict, check};
use Value::{Absent, Disabled, Target};

const SECOND: Micros = 1_000_000;

/// A history under construction; times are in milliseconds.
#[derive(Default)]
struct Story {
    events: Vec<Event>,
    number: u64,
}

impl Story {
    fn add(&mut self, millis: u64, what: What) {
        let at = millis * 1000;
        self.events.push(Event { at, what });
    }

    fn operation(&mut self, from: u64, to: u64, ask: Ask, outcome: OperationOutcome) {
        self.number += 1;
        let op = self.number;
        self.add(from, What::Invoke { op, ask });
        self.add(to, What::Complete { op, outcome });
    }

    fn write(mut self, kind: &str, value: Value, from: u64, to: u64) -> Self {
        let ask = write(kind, value);
        let done = OperationOutcome::done("x", from * 1000, true);
        self.operation(from, to, ask, done);
        self
    }

    fn unknown(mut self, kind: &str, value: Value, from: u64, to: u64) -> Self {
        self.operation(from, to, write(kind, value), OperationOutcome::Unknown);
        self
    }

    fn undone(mut self, kind: &str, value: Value, from: u64, to: u64) -> Self {
        let since = from * 1000;
        self.operation(
            from,
            to,
            write(kind, value),
            OperationOutcome::Undone { since },
        );
        self
    }

    fn generated(mut self, code: &str, from: u64, to: u64) -> Self {
        let ask = Ask::Write {
            kind: "create".to_owned(),
            code: None,
            value: Target(from),
        };
        let done = OperationOutcome::done(code, from * 1000, true);
        self.operation(from, to, ask, done);
        self
    }

    fn follow(mut self, value: Value, from: u64, to: u64) -> Self {
        let answer = OperationOutcome::Answer { value, tier: None };
        self.operation(from, to, follow("x"), answer);
        self
    }

    fn follow_stale(mut self, value: Value, from: u64, to: u64) -> Self {
        let tier = Some("stale".to_owned());
        self.operation(
            from,
            to,
            follow("x"),
            OperationOutcome::Answer { value, tier },
        );
        self
    }

    fn ends(mut self, outcome: OperationOutcome, from: u64, to: u64) -> Self {
        self.operation(from, to, follow("x"), outcome);
        self
    }

    fn read(mut self, value: Value, from: u64, to: u64) -> Self {
        let ask = Ask::Read {
            code: "x".to_owned(),
            via: Via::ControlPlane(0),
        };
        self.operation(
            from,
            to,
            ask,
            OperationOutcome::Answer { value, tier: None },
        );
        self
    }

    fn fault(self, from: u64, to: u64) -> Self {
        self.broken("kill", "cp-0", from, to)
    }

    fn broken(mut self, kind: &str, detail: &str, from: u64, to: u64) -> Self {
        self.number += 1;
        let fault = self.number;
        let (kind, detail) = (kind.to_owned(), detail.to_owned());
        self.add(
            from,
            What::Break {
                fault,
                kind,
                detail,
            },
        );
        self.add(to, What::Heal { fault });
        self
    }

    fn copied(mut self, from: u64, to: u64) -> Self {
        let since = from * 1000;
        self.add(to, What::Copied { copy: 1, since });
        self
    }

    fn restored(mut self, from: u64, to: u64) -> Self {
        let since = from * 1000;
        self.add(to, What::Restored { copy: 1, since });
        self
    }

    fn sweep(mut self, at: u64) -> Self {
        self.add(at, What::Sweep);
        self
    }

    fn clicks(self, counted: u64, acknowledged: u64) -> Self {
        let written = WrittenClicks {
            clicks: counted,
            by_attribute: vec![(0, 1), (14, counted), (16, counted)],
            uneven: Vec::new(),
        };
        self.written_clicks(counted, acknowledged, written, 0)
    }

    fn written_clicks(
        mut self,
        counted: u64,
        acknowledged: u64,
        written: WrittenClicks,
        waiting: u64,
    ) -> Self {
        let by_code = vec![("x".to_owned(), counted)];
        let clicks = What::Clicks {
            counted,
            acknowledged,
            by_code,
            written: Box::new(written),
            waiting,
            by_worker: [counted; 4],
            by_hour: [counted; 4],
        };
        self.add(90_000, clicks);
        self
    }

    fn verdict(mut self) -> Verdict {
        self.events.sort_by_key(|event| event.at);
        check(&self.events)
    }

    fn breaks(self) -> Vec<Promise> {
        let verdict = self.verdict();
        verdict.violations.iter().map(|v| v.promise).collect()
    }
}

fn write(kind: &str, value: Value) -> Ask {
    Ask::Write {
        kind: kind.to_owned(),
        code: Some("x".to_owned()),
        value,
    }
}

fn follow(code: &str) -> Ask {
    Ask::Follow {
        code: code.to_owned(),
        via: Via::Envoy(0),
        picks: false,
        host: Host::Own,
    }
}

fn created() -> Story {
    Story::default().write("create", Target(1), 1000, 1010)
}

fn changed() -> Story {
    created().write("change", Target(2), 10_000, 10_010)
}

#[test]
fn answer_when_at_most_five_seconds_old_is_right() {
    let story = changed().follow(Target(1), 15_000, 15_020);
    assert_eq!(story.breaks(), []);
    // The time to ask counts in favour of the answering part.
    let story = changed().follow(Target(2), 9990, 10_005);
    assert_eq!(story.breaks(), []);
}

#[test]
fn answer_when_too_old_is_reported() {
    let story = changed().follow(Target(1), 15_011, 17_000);
    assert_eq!(story.breaks(), [Promise::NothingOld]);
}

#[test]
fn stale_answer_when_a_fault_lasts_is_excused() {
    let story = || changed().fault(9000, 30_000);
    let stale = story().follow_stale(Target(1), 25_000, 25_001);
    let verdict = stale.verdict();
    assert_eq!((verdict.violations.len(), verdict.stale), (0, 1));
    let never = story().follow_stale(Target(3), 25_000, 25_001);
    assert_eq!(never.breaks(), [Promise::NothingOld]);
    let late = story().follow_stale(Target(1), 40_001, 40_002);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
}

#[test]
fn answer_when_ahead_of_its_write_is_reported() {
    let story = changed().follow(Target(2), 9000, 9999);
    assert_eq!(story.breaks(), [Promise::NothingOld]);
}

#[test]
fn link_when_acknowledged_and_missing_is_reported() {
    assert_eq!(created().follow(Absent, 6000, 6010).breaks(), []);
    let story = created().follow(Absent, 6011, 6020);
    assert_eq!(story.breaks(), [Promise::NothingMissing]);
    let story = created().follow(Disabled, 2000, 2010);
    assert_eq!(story.breaks(), [Promise::NothingMissing]);
}

#[test]
fn link_when_deleted_and_followed_is_reported() {
    let story = || created().write("delete", Absent, 10_000, 10_010);
    assert_eq!(story().follow(Target(1), 15_000, 15_001).breaks(), []);
    let late = story().follow(Target(1), 15_011, 15_020);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
}

#[test]
fn write_when_unanswered_permits_both_values() {
    let story = || created().unknown("change", Target(2), 10_000, 15_000);
    let both = story()
        .follow(Target(1), 40_000, 40_001)
        .follow(Target(2), 40_000, 40_001)
        .follow(Target(1), 50_000, 50_001);
    assert_eq!(both.breaks(), []);
    let neither = story().follow(Absent, 40_000, 40_001);
    assert_eq!(neither.breaks(), [Promise::NothingMissing]);
}

#[test]
fn write_when_seen_undone_counts_no_longer() {
    let story = || created().undone("change", Target(2), 10_000, 15_000);
    assert_eq!(story().follow(Target(2), 19_000, 19_001).breaks(), []);
    assert_eq!(story().follow(Target(1), 40_000, 40_001).breaks(), []);
    let late = story().follow(Target(2), 20_001, 20_010);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
}

#[test]
fn api_answer_when_old_is_reported() {
    assert_eq!(changed().read(Target(1), 10_005, 10_020).breaks(), []);
    let story = changed().read(Target(1), 10_011, 10_020);
    assert_eq!(story.breaks(), [Promise::NothingLost]);
    let story = created().read(Absent, 2000, 2010);
    assert_eq!(story.breaks(), [Promise::NothingLost]);
}

#[test]
fn answer_when_old_at_the_end_is_reported() {
    let story = changed().sweep(12_000).follow(Target(1), 12_100, 12_110);
    assert_eq!(story.breaks(), [Promise::NothingOld]);
}

#[test]
fn code_when_given_twice_is_reported() {
    let free = created()
        .write("delete", Absent, 2000, 2010)
        .write("create", Target(3), 3000, 3010);
    assert_eq!(free.breaks(), []);
    let taken = created().write("create", Target(3), 3000, 3010);
    assert_eq!(taken.breaks(), [Promise::NothingTwice]);
    let generated = Story::default()
        .generated("x", 1000, 1010)
        .generated("y", 1000, 1010)
        .generated("x", 3000, 3010);
    assert_eq!(generated.breaks(), [Promise::NothingTwice]);
}

#[test]
fn generated_code_when_given_after_delete_is_reported() {
    let story = Story::default()
        .generated("x", 1000, 1010)
        .write("delete", Absent, 2000, 2010)
        .generated("x", 3000, 3010);
    assert_eq!(story.breaks(), [Promise::NothingTwice]);
}

#[test]
fn database_when_restored_takes_back_later_writes() {
    let story = || {
        created()
            .copied(5000, 5100)
            .write("change", Target(2), 10_000, 10_010)
            .restored(20_000, 22_000)
    };
    assert_eq!(story().follow(Target(2), 19_000, 19_001).breaks(), []);
    assert_eq!(story().follow(Target(2), 26_999, 27_001).breaks(), []);
    assert_eq!(story().follow(Target(1), 40_000, 40_001).breaks(), []);
    let lost = story().follow(Target(2), 27_001, 27_002);
    assert_eq!(lost.breaks(), [Promise::NothingOld]);
    // Links written before the copy are not lost.
    let missing = story().follow(Absent, 40_000, 40_001);
    assert_eq!(missing.breaks(), [Promise::NothingMissing]);
}

#[test]
fn write_when_under_way_at_restore_may_be_lost() {
    let story = || {
        created()
            .copied(5000, 5100)
            .write("change", Target(2), 19_990, 20_010)
            .restored(20_000, 22_000)
    };
    assert_eq!(story().follow(Target(1), 40_000, 40_001).breaks(), []);
    assert_eq!(story().follow(Target(2), 40_000, 40_001).breaks(), []);
    let then = story().write("change", Target(3), 30_000, 30_010);
    let late = then.follow(Target(1), 40_000, 40_001);
    assert_eq!(late.breaks(), [Promise::NothingOld]);
}

#[test]
fn rotation_when_under_way_excuses_nothing() {
    let meanwhile = |kind| {
        let unavailable = OperationOutcome::Unavailable { status: 503 };
        let story = created().broken(kind, "envoy-0", 5000, 8000);
        story.ends(unavailable, 6000, 6001).breaks()
    };
    assert_eq!(meanwhile("certificate rotated"), [Promise::Available]);
    assert_eq!(meanwhile("token rotated"), [Promise::Available]);
    assert_eq!(meanwhile("certificate wrong"), []);
}

#[test]
fn failure_when_a_fault_lasts_is_excused() {
    let unavailable = || OperationOutcome::Unavailable { status: 503 };
    let story = created().fault(5000, 8000);
    assert_eq!(story.ends(unavailable(), 17_000, 17_500).breaks(), []);
    let story = created().fault(5000, 8000);
    let late = story.ends(unavailable(), 18_001, 18_002);
    assert_eq!(late.breaks(), [Promise::Recovered]);
    let story = created().fault(5000, 8000).fault(20_000, 21_000);
    let again = story.ends(unavailable(), 19_000, 20_001);
    assert_eq!(again.breaks(), []);
    let silence = OperationOutcome::NoAnswer {
        error: "timed out".to_owned(),
    };
    let story = created().fault(5000, 8000).ends(silence, 18_001, 18_002);
    assert_eq!(story.breaks(), [Promise::Recovered]);
}

#[test]
fn fault_when_never_healed_excuses_until_the_end() {
    let mut story = created();
    let (kind, detail) = ("stop".to_owned(), "cp-0".to_owned());
    story.add(
        5000,
        What::Break {
            fault: 99,
            kind,
            detail,
        },
    );
    let unavailable = OperationOutcome::Unavailable { status: 503 };
    assert_eq!(story.ends(unavailable, 60_000, 60_001).breaks(), []);
}

#[test]
fn answer_when_of_unknown_kind_is_reported() {
    let strange = OperationOutcome::Strange {
        answer: "200 None".to_owned(),
    };
    let story = created().fault(1000, 3000).ends(strange, 2000, 2001);
    assert_eq!(story.breaks(), [Promise::NothingStrange]);
}

#[test]
fn click_count_when_out_of_bounds_is_reported() {
    let story = || {
        let silence = OperationOutcome::NoAnswer {
            error: "reset".to_owned(),
        };
        created()
            .fault(500, 3000)
            .follow(Target(1), 2000, 2001)
            .follow(Target(1), 2001, 2002)
            .follow(Absent, 2002, 2003)
            .ends(silence, 2003, 2004)
    };
    assert_eq!(story().clicks(3, 2).breaks(), []);
    assert_eq!(story().clicks(1, 0).breaks(), []);
    assert_eq!(story().clicks(1, 2).breaks(), [Promise::ClicksCounted]);
    let of_all_and_of_one = [Promise::ClicksCounted, Promise::ClicksCounted];
    assert_eq!(story().clicks(4, 2).breaks(), of_all_and_of_one);
    let written = |clicks, link, domain, uneven: &[u8]| WrittenClicks {
        clicks,
        by_attribute: vec![(14, link), (16, domain)],
        uneven: uneven.to_vec(),
    };
    let breaks = |written, waiting| story().written_clicks(3, 2, written, waiting).breaks();
    assert_eq!(breaks(written(3, 3, 3, &[]), 0), []);
    let mut story_of_hours = story().clicks(3, 2);
    if let Some(Event {
        what: What::Clicks { by_hour, .. },
        ..
    }) = story_of_hours.events.last_mut()
    {
        by_hour[2] += 1;
    }
    assert_eq!(story_of_hours.breaks(), [Promise::ClicksCounted]);
    for (written, waiting) in [
        (written(3, 3, 3, &[]), 1),
        (written(2, 2, 2, &[]), 0),
        (written(3, 2, 3, &[]), 0),
        (written(3, 3, 4, &[]), 0),
        (written(3, 3, 3, &[5]), 0),
    ] {
        let broken = breaks(written.clone(), waiting);
        assert_eq!(broken, [Promise::ClicksCounted], "{written:?}");
    }
}

#[test]
fn propagation_when_nothing_is_broken_is_measured() {
    let story = changed()
        .follow(Target(1), 10_110, 10_111)
        .write("change", Target(3), 30_000, 30_010)
        .follow(Target(3), 30_020, 30_021)
        .fault(50_000, 50_100)
        .write("change", Target(4), 51_000, 51_010)
        .follow(Target(3), 52_000, 52_001);
    let verdict = story.verdict();
    assert_eq!(verdict.violations.len(), 0);
    assert_eq!(verdict.propagation, [0, SECOND / 10, 0]);
    assert_eq!(verdict.propagation_p99(), Some(SECOND / 10));
}
