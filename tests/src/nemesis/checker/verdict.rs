//! What is promised, and what the checker found.

use crate::nemesis::history::Micros;
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
    /// No answer is of a kind that the product does not give.
    NothingStrange,
}

impl Promise {
    /// All of them, in the order of the issue.
    pub const ALL: [Self; 9] = [
        Self::NothingOld,
        Self::NothingMissing,
        Self::NothingTwice,
        Self::NothingLost,
        Self::ClicksCounted,
        Self::Recovered,
        Self::WebhooksTold,
        Self::LimitsKept,
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
    /// Acknowledged changes while nothing was broken, each with the age, in microseconds, of the oldest answer that a
    /// visitor had after it: 0 where all answers were new.
    pub propagation: Vec<Micros>,
}

impl Verdict {
    /// The age that one change of a hundred exceeded.
    #[must_use]
    pub fn propagation_p99(&self) -> Option<Micros> {
        let mut ages = self.propagation.clone();
        ages.sort_unstable();
        let index = (ages.len() * 99).div_ceil(100);
        ages.get(index.checked_sub(1)?).copied()
    }
}
