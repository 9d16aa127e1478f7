//! Promises, and the checker's findings.

use crate::nemesis::history::{Micros, Via};
use std::collections::BTreeMap;

/// Subject of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// (a) No answer is older than the contract allows.
    NothingOld,
    /// (b) An acknowledged link is not 404 or 410.
    NothingMissing,
    /// (c) No number and no alias is given twice.
    NothingTwice,
    /// (d) Nothing acknowledged is lost.
    NothingLost,
    /// (e) Counted clicks are at least the acknowledged and at most the served ones.
    ClicksCounted,
    /// (f) Soon after the last fault everything works as without faults.
    Recovered,
    /// (g) Webhooks are notified of every acknowledged change.
    WebhooksTold,
    /// (h) Links with a limit of visits are served up to it, and no further.
    LimitsKept,
    /// (i) Requests that no fault affects are answered under any load, and so are requests during a single fault that
    /// must not affect them.
    Available,
    /// No answer is of a kind that the product does not give.
    NothingStrange,
}

impl Promise {
    /// All of them, in the order of the issue.
    pub const ALL: [Self; 10] = [
        Self::NothingOld,
        Self::NothingMissing,
        Self::NothingTwice,
        Self::NothingLost,
        Self::ClicksCounted,
        Self::Recovered,
        Self::WebhooksTold,
        Self::LimitsKept,
        Self::Available,
        Self::NothingStrange,
    ];

    /// Name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingOld => "(a) nothing old",
            Self::NothingMissing => "(b) nothing missing",
            Self::NothingTwice => "(c) nothing twice",
            Self::NothingLost => "(d) nothing lost",
            Self::ClicksCounted => "(e) clicks counted",
            Self::Recovered => "(f) recovered",
            Self::WebhooksTold => "(g) webhooks told",
            Self::LimitsKept => "(h) limits kept",
            Self::Available => "(i) available",
            Self::NothingStrange => "nothing strange",
        }
    }
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// The code, if the promise is about one.
    pub code: Option<String>,
    /// Start and end.
    pub time: (Micros, Micros),
    /// Time when the answered value had ceased to hold, if it ever held.
    pub since: Option<Micros>,
    /// Description of the observation.
    pub text: String,
}

/// Findings of the checker.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// Operations by kind and outcome.
    pub operations: BTreeMap<(String, String), u64>,
    /// Outdated answers marked stale, while something was broken.
    pub stale: u64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// Answers under load while nothing was broken, by the load and the kind of operation.
    pub pressed: BTreeMap<(String, String), PressedAnswers>,
    /// Acknowledged changes while nothing was broken, each with the age, in microseconds, of the oldest answer to a
    /// visitor after it: 0 if all answers were current.
    pub propagation: Vec<Micros>,
    /// The late ones among them, with their causes.
    pub late: Vec<(LateChange, Cause)>,
}

/// Age of an answer from which its change counts as late.
pub(super) const LATE: Micros = 50_000;

/// A change that was seen late while nothing was broken.
#[derive(Clone, Debug)]
pub struct LateChange {
    /// The code.
    pub code: String,
    /// Time of its acknowledgement.
    pub at: Micros,
    /// Age of the oldest answer after that.
    pub age: Micros,
    /// The part that gave it.
    pub via: Via,
}

impl LateChange {
    pub(super) fn new(code: &str, (at, age): (Micros, Micros), via: Via) -> Self {
        let code = code.to_owned();
        Self { code, at, age, via }
    }
}

/// Cause of a late change while nothing was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// (1) A control plane resumed reading Redis some time after it could.
    Reconnecting,
    /// (2) The publisher was not nudged, and found the change when it looked.
    NudgeLost,
    /// (3) The publisher's lease changed hands.
    LeaseGivenUp,
    /// (4) The edge paused after polls that had failed.
    EdgePaused,
    /// (5) The poll came to a control plane that is behind.
    ReplicaBehind,
    /// (6) The change was acknowledged without waiting, because the feed was not current where it was made.
    NotAwaited,
    /// (7) The publisher waited for the database.
    StoreQueue,
    /// The logs do not say.
    Else,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Reconnecting,
        Self::NudgeLost,
        Self::LeaseGivenUp,
        Self::EdgePaused,
        Self::ReplicaBehind,
        Self::NotAwaited,
        Self::StoreQueue,
        Self::Else,
    ];

    /// Name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reconnecting => "(1) a reader of Redis was connecting",
            Self::NudgeLost => "(2) the publisher was not nudged",
            Self::LeaseGivenUp => "(3) the lease changed hands",
            Self::EdgePaused => "(4) the edge paused after failed polls",
            Self::ReplicaBehind => "(5) a control plane was behind",
            Self::NotAwaited => "(6) the feed was not current there",
            Self::StoreQueue => "(7) the publisher waited for the database",
            Self::Else => "another one",
        }
    }
}

/// Answers to operations of a kind.
#[derive(Clone, Debug, Default)]
pub struct PressedAnswers {
    /// Time that each answer took, in microseconds.
    pub times: Vec<Micros>,
    /// Operations without an answer, or with an uninformative one.
    pub failed: u64,
}

impl PressedAnswers {
    /// 99th percentile of the answer times.
    #[must_use]
    pub fn p99(&self) -> Option<Micros> {
        percentile_99(&self.times)
    }
}

fn percentile_99(times: &[Micros]) -> Option<Micros> {
    let mut times = times.to_vec();
    times.sort_unstable();
    let index = (times.len() * 99).div_ceil(100);
    times.get(index.checked_sub(1)?).copied()
}

impl Verdict {
    /// 99th percentile of the ages of changes.
    #[must_use]
    pub fn propagation_p99(&self) -> Option<Micros> {
        percentile_99(&self.propagation)
    }
}
