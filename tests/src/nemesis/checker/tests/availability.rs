//! Questions that must be answered despite faults and load.

use super::*;

const UNAVAILABLE: OperationOutcome = OperationOutcome::Unavailable { status: 503 };

/// A link that the first Envoy has already answered for.
fn known() -> Story {
    created().follow(Target(1), 20_000, 20_001)
}

impl Story {
    fn follow_by(mut self, via: Via, host: Host, outcome: OperationOutcome, at: u64) -> Self {
        let ask = Ask::Follow {
            code: "x".to_owned(),
            via,
            picks: false,
            host,
        };
        self.operation(at, at + 1, ask, outcome);
        self
    }

    fn unavailable(self, via: Via, at: u64) -> Vec<Promise> {
        self.follow_by(via, Host::Own, UNAVAILABLE, at).breaks()
    }

    fn attempt(mut self, via: Via, end: &str, at: u64) -> Self {
        self = self.unknown("change", Target(2), at, at + 2);
        let (op, since, end) = (self.number, at * 1000, end.to_owned());
        self.add(
            at + 1,
            What::Attempt {
                op,
                since,
                via,
                end,
            },
        );
        self
    }

    /// A question at 35 s, answered that many milliseconds later.
    fn answered_after(mut self, ask: Ask, outcome: OperationOutcome, millis: u64) -> Self {
        self.operation(35_000, 35_000 + millis, ask, outcome);
        self
    }

    fn started(mut self, part: &str, from: u64, to: u64, is_ready: bool) -> Self {
        let (part, since) = (part.to_owned(), from * 1000);
        self.add(
            to,
            What::Started {
                part,
                since,
                is_ready,
            },
        );
        self
    }
}

#[test]
fn pressure_when_alone_excuses_nothing() {
    for kind in [
        "row crowded",
        "row locked",
        "bodies silent",
        "snapshot open",
        "edge far",
        "limited links crowd",
    ] {
        let story = || created().broken(kind, "envoy-0", 30_000, 40_000);
        let broken = story().unavailable(Via::Envoy(0), 35_000);
        assert_eq!(broken, [Promise::Available], "{kind}");
        let write = story().attempt(Via::ControlPlane(0), "503", 35_000);
        assert_eq!(write.breaks(), [Promise::Available], "{kind}");
        let old = story().write("change", Target(2), 31_000, 31_010);
        let old = old.follow(Target(1), 37_000, 37_001);
        assert_eq!(old.breaks(), [Promise::NothingOld], "{kind}");
    }
}

#[test]
fn pressure_when_beside_a_fault_excuses_as_the_fault() {
    let story = known().broken("row locked", "", 30_000, 40_000).broken(
        "database restored",
        "",
        31_000,
        33_000,
    );
    assert_eq!(story.unavailable(Via::Envoy(0), 35_000), []);
}

#[test]
fn answers_when_under_pressure_are_counted_by_kind() {
    let story = created()
        .broken("row locked", "", 30_000, 40_000)
        .follow(Target(1), 31_000, 31_020)
        .follow(Target(1), 45_000, 45_020)
        .attempt(Via::ControlPlane(0), "503", 35_000);
    let pressed = story.verdict().pressed;
    let of = |kind: &str| &pressed[&("row locked".to_owned(), kind.to_owned())];
    assert_eq!(of("follow (envoy)").times, [20_000]);
    assert_eq!((of("write").times.len(), of("write").failed), (0, 1));
    assert_eq!(of("follow (envoy)").p99(), Some(20_000));
    assert_eq!(of("write").p99(), None);
}

#[test]
fn change_when_under_pressure_is_not_measured() {
    let story = changed().broken("edge far", "envoy-0", 9000, 12_000);
    assert_eq!(
        story
            .follow(Target(1), 10_100, 10_101)
            .verdict()
            .propagation,
        [0]
    );
}

#[test]
fn failure_when_only_redis_is_broken_is_reported() {
    for (kind, part) in [
        ("redis full", ""),
        ("redis failover", "; redis-0 to redis-1"),
        ("kill", "redis-0"),
        ("stop", "redis-1"),
        ("cut", "cp-0>redis [Requests]"),
        ("cut", ">redis-3 [Answers]"),
        ("refuse connections", "envoy-0>redis"),
    ] {
        for via in [Via::Envoy(0), Via::ControlPlane(1)] {
            let story = created().broken(kind, part, 30_000, 40_000);
            let broken = story.unavailable(via, 49_000);
            assert_eq!(broken, [Promise::Available], "{kind} {part}");
        }
    }
}

#[test]
fn failure_when_host_is_unknown_is_reported() {
    let story = created().broken("stop", "redis-0", 30_000, 40_000);
    let story = story.follow_by(Via::Envoy(0), Host::Unknown, UNAVAILABLE, 35_000);
    assert_eq!(story.breaks(), [Promise::Available]);
}

#[test]
fn faults_when_two_harmless_ones_overlap_excuse() {
    let story = known()
        .broken("stop", "redis-0", 30_000, 40_000)
        .broken("kill", "cp-0", 32_000, 36_000);
    assert_eq!(story.unavailable(Via::Envoy(0), 35_000), []);
}

#[test]
fn failure_when_other_control_plane_works_is_reported() {
    for (kind, part) in [
        ("kill", "cp-0"),
        ("stop", "cp-0"),
        ("cut", "cp-0>mariadb []"),
    ] {
        let story = || created().broken(kind, part, 30_000, 40_000);
        let other = story().unavailable(Via::ControlPlane(1), 35_000);
        assert_eq!(other, [Promise::Available], "{kind} {part}");
        assert_eq!(story().unavailable(Via::ControlPlane(0), 35_000), []);
        let write = story().attempt(Via::ControlPlane(1), "timed out", 35_000);
        assert_eq!(write.breaks(), [Promise::Available], "{kind} {part}");
    }
}

#[test]
fn failure_when_edge_knows_the_link_is_reported() {
    for (kind, part) in [
        ("kill", "mariadb"),
        ("database copied", "copy 7"),
        ("stop", "cp-1"),
        ("isolate", "cp-0"),
        ("rolling restart", ""),
        ("cut", "envoy-0>cp-1 [Requests]"),
    ] {
        let unknown = created().broken(kind, part, 30_000, 40_000);
        assert_eq!(unknown.unavailable(Via::Envoy(0), 35_000), [], "{kind}");
        let of_other = known().broken(kind, part, 30_000, 40_000);
        let of_other = of_other.unavailable(Via::Envoy(1), 35_000);
        let untouched = part.starts_with("envoy-0>");
        let expected: &[Promise] = if untouched {
            &[Promise::Available]
        } else {
            &[]
        };
        assert_eq!(of_other, expected, "{kind} {part}");
        let known = known().broken(kind, part, 30_000, 40_000);
        let known = known.unavailable(Via::Envoy(0), 35_000);
        assert_eq!(known, [Promise::Available], "{kind} {part}");
    }
}

#[test]
fn failure_when_link_was_known_before_a_fault_is_excused() {
    let story = known()
        .broken("flushed", "", 21_000, 22_000)
        .broken("kill", "mariadb", 40_000, 50_000);
    assert_eq!(story.unavailable(Via::Envoy(0), 45_000), []);
}

#[test]
fn failure_when_another_edge_is_broken_is_reported() {
    for (kind, part) in [("stop", "envoy-1"), ("envoy reconfigured", "envoy-1 []")] {
        let story = || {
            created().broken(kind, part, 30_000, 40_000).broken(
                "cut",
                "envoy-1>redis []",
                31_000,
                39_000,
            )
        };
        assert_eq!(
            story().unavailable(Via::Envoy(0), 35_000),
            [Promise::Available]
        );
        assert_eq!(story().unavailable(Via::Envoy(1), 35_000), []);
    }
}

#[test]
fn part_when_it_starts_late_is_reported() {
    let story = || created().broken("kill", "cp-0", 10_000, 80_000);
    let soon = story().started("cp-0", 12_000, 41_000, true);
    assert_eq!(soon.breaks(), []);
    let late = story().started("cp-0", 12_000, 43_000, true);
    assert_eq!(late.breaks(), [Promise::Available]);
    let never = story().started("cp-0", 12_000, 20_000, false);
    assert_eq!(never.breaks(), [Promise::Available]);
    let pressed = story().broken("row locked", "", 11_000, 20_000);
    let pressed = pressed.started("cp-0", 12_000, 43_000, true);
    assert_eq!(pressed.breaks(), [Promise::Available]);
    let without_database = story().broken("stop", "mariadb", 11_000, 20_000);
    let without_database = without_database.started("cp-0", 12_000, 43_000, true);
    assert_eq!(without_database.breaks(), []);
}

#[test]
fn late_start_when_a_dependency_is_broken_is_excused() {
    let late = |part: &str, (kind, of): (&str, &str), (from, to)| {
        Story::default()
            .broken("kill", part, 10_000, 80_000)
            .broken(kind, of, from, to)
            .started(part, 12_000, 43_000, true)
            .breaks()
    };
    for (part, fault) in [
        ("cp-0", ("database copied", "copy 7")),
        ("cp-0", ("database restored", "")),
        ("cp-0", ("isolate", "mariadb")),
        ("cp-0", ("isolate", "cp-0")),
        ("cp-0", ("cut", "cp-0>mariadb [Requests]")),
        ("cp-0", ("cut", "cp-0>redis [Requests]")),
        ("cp-0", ("certificate wrong", "cp-0")),
        ("redis-0", ("redis failover", "; redis-1 to redis-0")),
        ("envoy-0", ("clock moved", "envoy-0 +90 s")),
    ] {
        assert_eq!(late(part, fault, (13_000, 14_000)), [], "{part} {fault:?}");
        // Including faults that last through the whole start.
        assert_eq!(late(part, fault, (11_000, 60_000)), [], "{part} {fault:?}");
        let before = late(part, fault, (10_500, 11_500));
        assert_eq!(before, [Promise::Available], "{part} {fault:?}");
        let after_the_bound = late(part, fault, (42_500, 42_800));
        assert_eq!(after_the_bound, [Promise::Available], "{part} {fault:?}");
    }
}

#[test]
fn late_start_when_something_else_is_broken_is_reported() {
    for (part, (kind, of)) in [
        ("cp-0", ("stop", "cp-1")),
        ("cp-0", ("cut", "cp-1>mariadb [Requests]")),
        ("cp-0", ("stop", "redis-0")),
        ("cp-0", ("cut", "cp-1>redis [Requests]")),
        ("cp-0", ("envoy reconfigured", "envoy-0 []")),
        ("cp-0", ("certificate rotated", "Redis")),
        ("cp-0", ("token rotated", "")),
        ("cp-0", ("flushed", "")),
        ("envoy-0", ("stop", "envoy-1")),
        ("envoy-0", ("stop", "mariadb")),
        ("envoy-0", ("rolling restart", "")),
        ("mariadb", ("stop", "cp-0")),
        ("redis-0", ("stop", "mariadb")),
    ] {
        let story = Story::default()
            .broken("kill", part, 10_000, 80_000)
            .broken(kind, of, 13_000, 14_000)
            .started(part, 12_000, 43_000, true);
        assert_eq!(story.breaks(), [Promise::Available], "{part} {kind} {of}");
    }
}

#[test]
fn late_restart_when_nothing_else_is_broken_is_reported() {
    for kind in ["rolling restart", "control plane without redis"] {
        let story = Story::default().broken(kind, "", 10_000, 80_000);
        let story = story.started("cp-0", 12_000, 43_000, true);
        assert_eq!(story.breaks(), [Promise::Available], "{kind}");
    }
}

#[test]
fn attempt_when_nothing_is_broken_is_judged_by_its_end() {
    let broken = |end| {
        let story = created().attempt(Via::ControlPlane(0), end, 35_000);
        story.breaks()
    };
    for end in [
        "200",
        "201",
        "204",
        "400",
        "404",
        "409",
        "410",
        "412",
        "422",
        "499 connection reset",
    ] {
        assert_eq!(broken(end), [], "{end}");
    }
    for end in [
        "401",
        "403",
        "408",
        "429",
        "500",
        "503",
        "connection reset",
        "unexpected end of file",
        "timed out",
    ] {
        assert_eq!(broken(end), [Promise::Recovered], "{end}");
    }
}

#[test]
fn closed_connection_when_answers_are_counted_is_left_out() {
    let story = created().broken("row locked", "", 30_000, 40_000).attempt(
        Via::ControlPlane(0),
        "499 broken pipe",
        35_000,
    );
    assert_eq!(story.verdict().pressed.len(), 0);
}

#[test]
fn answer_when_slower_than_its_bound_is_reported() {
    let (code, via) = (|| "x".to_owned(), Via::ControlPlane(0));
    let answer = OperationOutcome::Answer {
        value: Target(1),
        tier: None,
    };
    let counted = OperationOutcome::Counted { used: 0, leased: 0 };
    let read = Ask::Read { code: code(), via };
    let count = Ask::Count { code: code(), via };
    for (ask, outcome, bound) in [
        (follow("x"), answer.clone(), 2000),
        (read, answer, 3000),
        (count, counted, 3000),
    ] {
        let after = |millis| created().answered_after(ask.clone(), outcome.clone(), millis);
        assert_eq!(after(bound).breaks(), [], "{ask:?}");
        assert_eq!(after(bound + 1).breaks(), [Promise::Recovered], "{ask:?}");
        let pressed = after(bound + 1).broken("edge far", "envoy-0", 34_000, 36_000);
        assert_eq!(pressed.breaks(), [Promise::Available], "{ask:?}");
        let harmed = after(bound + 1)
            .broken("kill", "cp-0", 34_000, 36_000)
            .broken("stop", "mariadb", 34_000, 36_000);
        assert_eq!(harmed.breaks(), [], "{ask:?}");
    }
}

#[test]
fn attempt_when_answered_after_nine_seconds_is_reported() {
    let attempt = |millis: u64| {
        let mut story = created().unknown("change", Target(2), 35_000, 46_000);
        let (op, since, via) = (story.number, 35_000_000, Via::ControlPlane(0));
        let end = "200".to_owned();
        story.add(
            35_000 + millis,
            What::Attempt {
                op,
                since,
                via,
                end,
            },
        );
        story.breaks()
    };
    assert_eq!(attempt(9000), []);
    assert_eq!(attempt(9001), [Promise::Recovered]);
}
