//! Causes of late changes while nothing is broken.

use super::super::verdict::Cause;
use super::*;

/// A change at ten seconds that an edge has not yet applied 400 ms later.
fn late() -> Story {
    changed().follow(Target(1), 10_410, 10_411)
}

impl Story {
    fn logged(mut self, part: &str, step: Step, at: u64) -> Self {
        let (part, micros) = (part.to_owned(), at * 1000);
        self.add(
            90_000,
            What::Logged {
                at: micros,
                part,
                step,
            },
        );
        self
    }

    fn published(self, woken: &str, (store_millis, redis_millis): (u64, u64), at: u64) -> Self {
        let step = Step::Published {
            key: "go.example/x".to_owned(),
            woken: woken.to_owned(),
            store_millis,
            redis_millis,
        };
        self.logged("cp-0", step, at)
    }

    fn acknowledged(self, wait: &str) -> Self {
        let (key, wait) = ("go.example/x".to_owned(), wait.to_owned());
        self.logged("cp-0", Step::Acknowledged { key, wait }, 10_009)
    }

    fn read_at(self, part: &str, at: u64) -> Self {
        let key = "go.example/x".to_owned();
        self.logged(part, Step::Read { key }, at)
    }

    fn poll_failed(self, why: &str, at: u64) -> Self {
        let why = why.to_owned();
        self.logged("envoy-0", Step::PollFailed { why }, at)
    }

    fn cause(self) -> Option<Cause> {
        let verdict = self.verdict();
        let [(change, cause)] = verdict.late.as_slice() else {
            return None;
        };
        assert_eq!((change.age, change.via), (400_000, Via::Envoy(0)));
        Some(*cause)
    }
}

#[test]
fn change_when_published_late_blames_publisher() {
    let published = |woken, waits| late().published(woken, waits, 10_400).cause();
    assert_eq!(published("poll", (2, 3)), Some(Cause::NudgeLost));
    assert_eq!(published("nudge", (350, 3)), Some(Cause::StoreQueue));
    assert_eq!(published("change", (3, 350)), Some(Cause::Reconnecting));
    assert_eq!(published("change", (3, 3)), Some(Cause::Else));
    let story = late().published("poll", (2, 3), 10_400);
    let story = story.logged("cp-1", Step::LeaseChanged, 10_200);
    assert_eq!(story.cause(), Some(Cause::LeaseGivenUp));
}

#[test]
fn change_when_published_in_time_blames_a_later_step() {
    let published = || late().published("change", (2, 3), 10_005);
    let read = || published().read_at("cp-0", 10_006).read_at("cp-1", 10_007);
    let late_reader = published().read_at("cp-0", 10_006).read_at("cp-1", 10_390);
    assert_eq!(late_reader.cause(), Some(Cause::Reconnecting));
    assert_eq!(read().cause(), Some(Cause::Else));
    assert_eq!(
        read().acknowledged("not_current").cause(),
        Some(Cause::NotAwaited)
    );
    assert_eq!(read().acknowledged("late").cause(), Some(Cause::Else));
    let paused = read().poll_failed("timed out; retrying", 9800);
    assert_eq!(paused.cause(), Some(Cause::EdgePaused));
    let refused = |why: &str| {
        let why = why.to_owned();
        read().poll_failed("status 503; retrying", 9800).logged(
            "cp-1",
            Step::PollRefused { why },
            9799,
        )
    };
    let behind = refused("the feed is behind that position");
    assert_eq!(behind.cause(), Some(Cause::ReplicaBehind));
    let silent = refused("the feed is not current");
    assert_eq!(silent.cause(), Some(Cause::EdgePaused));
    let works =
        read()
            .poll_failed("timed out; retrying", 9000)
            .logged("envoy-0", Step::PollWorks, 9500);
    assert_eq!(works.cause(), Some(Cause::Else));
}

#[test]
fn change_when_acknowledged_by_all_is_seen_by_all() {
    let old = |outcome: &str| {
        let story = changed().follow(Target(1), 10_011, 10_012);
        story.acknowledged(outcome).breaks()
    };
    for outcome in ["acknowledged", "expired"] {
        assert_eq!(old(outcome), [Promise::NothingOld], "{outcome}");
    }
    assert_eq!(old("late"), [], "it may be on its way");
    let new = changed().follow(Target(2), 10_011, 10_012);
    assert_eq!(new.acknowledged("acknowledged").breaks(), []);
}

#[test]
fn change_when_seen_in_time_has_no_cause() {
    assert_eq!(changed().follow(Target(1), 10_050, 10_051).cause(), None);
}
