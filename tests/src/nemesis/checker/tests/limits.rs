//! Links that have a limit of visits.

use super::*;

/// A link limited to three visits.
fn limited() -> Story {
    Story::default().limit(3, 1000, 1010)
}

impl Story {
    pub(super) fn limit(self, max: u64, from: u64, to: u64) -> Self {
        self.limit_with(max, None, from, to)
    }

    fn limit_with(mut self, max: u64, expired: Option<u64>, from: u64, to: u64) -> Self {
        let (code, target) = ("x".to_owned(), 1);
        let done = OperationOutcome::done("x", from * 1000, true);
        self.operation(
            from,
            to,
            Ask::Limit {
                code,
                target,
                max,
                expired,
            },
            done,
        );
        self
    }

    fn visit(mut self, value: Value, from: u64) -> Self {
        let (code, via) = ("x".to_owned(), Via::Envoy(0));
        let answer = OperationOutcome::Answer { value, tier: None };
        let purpose = Purpose::Click;
        self.operation(from, from + 1, Ask::Visit { code, via, purpose }, answer);
        self
    }

    pub(super) fn visits(mut self, count: u64, from: u64) -> Self {
        for number in 0..count {
            self = self.visit(Target(1), from + 2 * number);
        }
        self
    }

    fn unanswered(self, from: u64) -> Self {
        self.failed(Via::Envoy(0), OperationOutcome::Unknown, from)
    }

    fn failed(mut self, via: Via, outcome: OperationOutcome, from: u64) -> Self {
        let code = "x".to_owned();
        let purpose = Purpose::Click;
        self.operation(from, from + 1, Ask::Visit { code, via, purpose }, outcome);
        self
    }

    pub(super) fn count(mut self, used: u64, leased: u64, from: u64) -> Self {
        let (code, via) = ("x".to_owned(), Via::ControlPlane(0));
        let counted = OperationOutcome::Counted { used, leased };
        self.operation(from, from + 1, Ask::Count { code, via }, counted);
        self
    }
}

#[test]
fn link_when_served_beyond_its_limit_is_reported() {
    let story = limited().visits(3, 2000).visit(Disabled, 3000);
    assert_eq!(story.breaks(), []);
    assert_eq!(limited().visits(4, 2000).breaks(), [Promise::LimitsKept]);
    let raised = limited().visits(3, 2000).limit(5, 3000, 3010);
    assert_eq!(raised.visits(2, 4000).breaks(), []);
    let raised = limited().visits(3, 2000).limit(5, 3000, 3010);
    assert_eq!(raised.visits(3, 4000).breaks(), [Promise::LimitsKept]);
}

/// The largest block of the link of [`limited`]: all its visits.
const BLOCK: u64 = 3;

#[test]
fn worker_when_killed_costs_a_block() {
    let story = |count| {
        limited()
            .broken("kill", "envoy-0", 2010, 2020)
            .visits(count, 2000)
    };
    assert_eq!(story(3 + 2 * BLOCK).breaks(), []);
    assert_eq!(story(3 + 2 * BLOCK + 1).breaks(), [Promise::LimitsKept]);
    let other = limited().broken("kill", "cp-0", 2010, 2020);
    assert_eq!(other.visits(4, 2000).breaks(), [Promise::LimitsKept]);
}

#[test]
fn workers_when_cut_off_for_long_cost_a_block() {
    let story = |until, count| {
        limited()
            .broken("stop", "cp-0", 2000, 10_000)
            .broken("isolate", "cp-1", 2000, until)
            .visits(count, 2000)
    };
    assert_eq!(story(9000, 3 + 4 * BLOCK).breaks(), []);
    assert_eq!(
        story(9000, 3 + 4 * BLOCK + 1).breaks(),
        [Promise::LimitsKept]
    );
    assert_eq!(story(3000, 4).breaks(), [Promise::LimitsKept]);
    let unknown = limited().broken("certificate wrong", "envoy-0", 2000, 9000);
    assert_eq!(unknown.visits(3 + 2 * BLOCK, 2000).breaks(), []);
    let redis = limited().broken("stop", "redis-0", 2000, 40_000);
    assert_eq!(redis.visits(4, 2000).breaks(), [Promise::LimitsKept]);
}

#[test]
fn workers_when_drained_cost_nothing_unless_cut_off() {
    let story = || {
        limited().broken(
            "envoy reconfigured",
            "envoy-0 [(Second, 909)]",
            1500,
            26_000,
        )
    };
    assert_eq!(story().visits(4, 2000).breaks(), [Promise::LimitsKept]);
    let cut_off = || story().broken("kill", "mariadb", 2000, 2100);
    assert_eq!(cut_off().visits(3 + 2 * 4 * BLOCK, 2000).breaks(), []);
    let more = cut_off().visits(3 + 2 * 4 * BLOCK + 1, 2000);
    assert_eq!(more.breaks(), [Promise::LimitsKept]);
    let moved = limited().broken("clock moved", "mariadb +90 s", 2000, 2100);
    assert_eq!(moved.visits(3 + 2 * 4 * BLOCK, 2000).breaks(), []);
    let other = limited().broken("clock moved", "envoy-0 +90 s", 2000, 30_000);
    assert_eq!(other.visits(4, 2000).breaks(), [Promise::LimitsKept]);
}

#[test]
fn use_count_when_above_served_is_reported() {
    let story = || limited().visits(2, 2000).unanswered(2500);
    assert_eq!(story().count(3, 0, 3000).breaks(), []);
    assert_eq!(story().count(4, 0, 3000).breaks(), [Promise::LimitsKept]);
    let unavailable = |via| {
        let outcome = OperationOutcome::Unavailable { status: 503 };
        let story = story().fault(2550, 2700);
        story.failed(via, outcome, 2600).count(4, 0, 3000)
    };
    assert_eq!(unavailable(Via::ControlPlane(0)).breaks(), []);
    assert_eq!(unavailable(Via::Envoy(0)).breaks(), [Promise::LimitsKept]);
}

#[test]
fn use_when_limit_is_used_up_is_reported() {
    let story = |leased| {
        limited()
            .visits(2, 2000)
            .unanswered(2500)
            .count(3, leased, 3000)
    };
    let out = story(1).visit(Target(1), 4000);
    assert_eq!(out.breaks(), []);
    let over = story(0).visit(Target(1), 4000);
    assert_eq!(over.breaks(), [Promise::LimitsKept]);
    let raised = story(0).limit(4, 3500, 3600).visit(Target(1), 4000);
    assert_eq!(raised.breaks(), []);
}

#[test]
fn database_when_restored_forgets_uses() {
    let story = || {
        limited()
            .copied(5000, 5100)
            .visits(3, 10_000)
            .count(3, 0, 11_000)
    };
    let forgotten = story().restored(20_000, 22_000).visits(3, 30_000);
    assert_eq!(forgotten.breaks(), []);
    let more = story().restored(20_000, 22_000).visits(4, 30_000);
    assert_eq!(more.breaks(), [Promise::LimitsKept]);
}

#[test]
fn limited_link_when_absent_is_reported() {
    let missing = limited().visit(Absent, 6011);
    assert_eq!(missing.breaks(), [Promise::NothingMissing]);
}

#[test]
fn request_when_limit_is_reached_leads_to_expired_url() {
    let elsewhere = limited().visit(Target(2), 2000);
    assert_eq!(elsewhere.breaks(), [Promise::NothingOld]);
    let expiring = || Story::default().limit_with(3, Some(2), 1000, 1010);
    let right = expiring().visits(3, 2000).visit(Target(2), 3000);
    assert_eq!(right.clicks(3, 3).breaks(), []);
    let gone = expiring().visits(3, 2000).visit(Disabled, 3000);
    assert_eq!(gone.breaks(), [Promise::NothingMissing]);
    let counted = expiring().visits(3, 2000).visit(Target(2), 3000);
    let of_all_and_of_one = [Promise::ClicksCounted, Promise::ClicksCounted];
    assert_eq!(counted.clicks(4, 3).breaks(), of_all_and_of_one);
}

#[test]
fn block_when_limit_is_one_is_one_use() {
    let once = || {
        Story::default()
            .limit(1, 1000, 1010)
            .broken("kill", "envoy-0", 2005, 2020)
    };
    // One from each of its two workers.
    assert_eq!(
        once().visits(3, 2000).visits(1, 3000).breaks(),
        [Promise::LimitsKept]
    );
    assert_eq!(once().visits(2, 2000).visits(1, 3000).breaks(), []);
}

#[test]
fn first_use_when_refused_is_reported() {
    let refused = || limited().visit(Disabled, 2000);
    assert_eq!(refused().breaks(), [Promise::LimitsKept]);
    assert_eq!(limited().visits(1, 1900).visit(Disabled, 2000).breaks(), []);
    assert_eq!(
        limited().unanswered(1900).visit(Disabled, 2000).breaks(),
        []
    );
}

#[test]
fn edge_when_far_costs_no_block() {
    let story = limited().broken("edge far", "envoy-0", 1500, 40_000);
    assert_eq!(story.visits(4, 30_000).breaks(), [Promise::LimitsKept]);
}

#[test]
fn prefetch_when_without_target_uses_nothing() {
    let prefetch = |outcome, from| {
        let (code, via) = ("x".to_owned(), Via::Envoy(0));
        let purpose = Purpose::Prefetch;
        let mut story = limited();
        story.operation(from, from + 1, Ask::Visit { code, via, purpose }, outcome);
        story
    };
    let unavailable = OperationOutcome::Unavailable { status: 503 };
    let story = prefetch(unavailable.clone(), 2000);
    assert_eq!(story.count(0, 0, 3000).breaks(), []);
    let story = prefetch(unavailable, 2000);
    assert_eq!(story.count(1, 0, 3000).breaks(), [Promise::LimitsKept]);
}

#[test]
fn prefetch_when_answered_with_target_breaks_limit() {
    let prefetched = || {
        let (code, via) = ("x".to_owned(), Via::Envoy(0));
        let purpose = Purpose::Prefetch;
        let value = Target(1);
        let answer = OperationOutcome::Answer { value, tier: None };
        let mut story = limited();
        story.operation(2000, 2001, Ask::Visit { code, via, purpose }, answer);
        story
    };
    assert_eq!(prefetched().breaks(), [Promise::LimitsKept]);
    // Nor may it count as a used visit.
    let counted = prefetched().count(1, 0, 3000);
    assert_eq!(counted.breaks(), [Promise::LimitsKept, Promise::LimitsKept]);
    let visited = prefetched().visits(3, 2500);
    assert_eq!(visited.breaks(), [Promise::LimitsKept]);
}

#[test]
fn limited_link_when_restored_database_is_older_may_be_missing() {
    let missing_after = |copied: u64, restored: (u64, u64)| {
        let story = Story::default().limit(3, 10_000, 10_010);
        let story = story.copied(copied, copied + 100);
        let story = story.restored(restored.0, restored.1);
        story.visit(Absent, 40_000).breaks()
    };
    assert_eq!(missing_after(5000, (20_000, 22_000)), []);
    assert_eq!(missing_after(5000, (9000, 10_005)), []);
    let younger = missing_after(12_000, (20_000, 22_000));
    assert_eq!(younger, [Promise::NothingMissing]);
    let ended_before = missing_after(5000, (7000, 8000));
    assert_eq!(ended_before, [Promise::NothingMissing]);
    let begun_later = missing_after(5000, (50_000, 52_000));
    assert_eq!(begun_later, [Promise::NothingMissing]);
}
