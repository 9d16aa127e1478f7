//! What is promised, and what the checker found.

use crate::nemesis::history::{Micros, Via};
use std::collections::BTreeMap;

/// What a promise is about.
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
    /// (f) Soon after the last fault everything is as without faults.
    Recovered,
    /// (g) Webhooks are told of every acknowledged change.
    WebhooksTold,
    /// (h) Links with a limit of visits are served so often, and not more often.
    LimitsKept,
    /// (i) What no fault touches is answered, whatever presses, and so is what a fault may not harm that is the only one.
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

    /// As the report names it.
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
    /// Which.
    pub promise: Promise,
    /// The code, where it is about one.
    pub code: Option<String>,
    /// From when to when.
    pub time: (Micros, Micros),
    /// When what was answered had ceased to be so, where it once was.
    pub since: Option<Micros>,
    /// What was seen.
    pub text: String,
}

/// What the checker found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// Operations by kind and outcome.
    pub operations: BTreeMap<(String, String), u64>,
    /// Older answers that say that they are stale, while something was broken.
    pub stale: u64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// What was asked while nothing was broken and something pressed, by that and by the kind of operation.
    pub pressed: BTreeMap<(String, String), PressedAnswers>,
    /// Acknowledged changes while nothing was broken, each with the age, in microseconds, of the oldest answer that a
    /// visitor had after it: 0 where all answers were new.
    pub propagation: Vec<Micros>,
    /// Those of them that were late, and why.
    pub late: Vec<(LateChange, Cause)>,
}

/// A change counts as late when an answer is older than this.
pub(super) const LATE: Micros = 50_000;

/// A change that was seen late while nothing was broken.
#[derive(Clone, Debug)]
pub struct LateChange {
    /// The code.
    pub code: String,
    /// When it was acknowledged.
    pub at: Micros,
    /// The age of the oldest answer after that.
    pub age: Micros,
    /// Who gave it.
    pub via: Via,
}

impl LateChange {
    pub(super) fn new(code: &str, (at, age): (Micros, Micros), via: Via) -> Self {
        let code = code.to_owned();
        Self { code, at, age, via }
    }
}

/// Why a change is late while nothing is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// (1) A control plane reads Redis again a while after it could.
    Reconnecting,
    /// (2) The publisher was not nudged, and found the change when it looked.
    NudgeLost,
    /// (3) The publisher's lease changed hands.
    LeaseGivenUp,
    /// (4) The edge paused after polls that had failed.
    EdgePaused,
    /// (5) The poll came to a control plane that is behind.
    ReplicaBehind,
    /// (6) The change was acknowledged without waiting, for the feed was not current where it was made.
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

    /// As the report names it.
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

/// How operations of a kind were answered.
#[derive(Clone, Debug, Default)]
pub struct PressedAnswers {
    /// How long each answer took, in microseconds.
    pub times: Vec<Micros>,
    /// Operations without an answer, or with one that says nothing.
    pub failed: u64,
}

impl PressedAnswers {
    /// The time that one answer of a hundred took longer than.
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
    /// The age that one change of a hundred exceeded.
    #[must_use]
    pub fn propagation_p99(&self) -> Option<Micros> {
        percentile_99(&self.propagation)
    }
}
