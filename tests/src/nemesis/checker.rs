//! Judges a history by the contract alone: it knows what clients asked and were answered, what was broken and when, and
//! nothing of how the product works.
//!
//! A link is written by one client at a time, so that what a code may stand for at a moment follows from the writes: the
//! value of a write is possible from its invocation on; the value before it is not, once the write is acknowledged. A
//! write without a definite answer leaves both possible. A database that is restored makes the values possible again
//! that were when it was copied.

mod clicks;
mod spans;
mod story;
#[cfg(test)]
mod tests;

use super::history::{Ask, Event, Micros, OperationOutcome, Value, Via, What};
use spans::Spans;
use std::collections::{BTreeMap, HashMap};

pub use story::print;

/// An answer is right for some moment that is no longer ago than this.
const WINDOW: Micros = 5_000_000;
/// The tier of an answer that is served because asking fails. How old it may be is a setting, a day by default.
const STALE: &str = "stale";
/// So long after the last fault everything is as without faults.
const RECOVERY: Micros = 10_000_000;

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
    /// No answer is of a kind that the product does not give.
    NothingStrange,
}

impl Promise {
    /// All of them, in the order of the issue.
    pub const ALL: [Self; 7] = [
        Self::NothingOld,
        Self::NothingMissing,
        Self::NothingTwice,
        Self::NothingLost,
        Self::ClicksCounted,
        Self::Recovered,
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

/// An operation, put together from its events.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) ask: Ask,
    pub(crate) invoked: Micros,
    pub(crate) end: Option<(Micros, OperationOutcome)>,
}

impl Operation {
    pub(crate) fn code(&self) -> Option<&str> {
        match (&self.ask, &self.end) {
            (
                Ask::Write {
                    code: Some(code), ..
                },
                _,
            )
            | (Ask::Read { code, .. } | Ask::Follow { code, .. }, _)
            | (Ask::Write { .. }, Some((_, OperationOutcome::Done { code, .. }))) => Some(code),
            _ => None,
        }
    }

    fn kind(&self) -> String {
        match &self.ask {
            Ask::Write {
                kind, code: None, ..
            } => format!("{kind} (generated)"),
            Ask::Write { kind, .. } => kind.clone(),
            Ask::Read { .. } => "read".to_owned(),
            Ask::Follow {
                via: Via::Envoy(_), ..
            } => "follow (envoy)".to_owned(),
            Ask::Follow { .. } => "follow (control plane)".to_owned(),
        }
    }
}

/// A fault, put together from its events.
#[derive(Clone, Debug)]
pub(crate) struct FaultSpan {
    pub(crate) kind: String,
    pub(crate) detail: String,
    pub(crate) from: Micros,
    pub(crate) to: Micros,
}

/// A database that went back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restore {
    pub(crate) copied: (Micros, Micros),
    pub(crate) restored: (Micros, Micros),
}

/// A history, sorted by what its events are about.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) operations: BTreeMap<u64, Operation>,
    pub(crate) by_code: HashMap<String, Vec<u64>>,
    pub(crate) faults: BTreeMap<u64, FaultSpan>,
    pub(crate) restores: Vec<Restore>,
    /// Failed attempts of writes.
    attempts: Vec<(u64, Micros, Micros, String)>,
    sweep: Option<Micros>,
    /// Times in which nothing is broken and everything must be well.
    quiet: Vec<(Micros, Micros)>,
}

impl Run {
    fn of(events: &[Event]) -> Self {
        let mut run = Self::default();
        let mut copies = HashMap::new();
        for event in events {
            run.add(event, &mut copies);
        }
        for (number, operation) in &run.operations {
            if let Some(code) = operation.code() {
                let operations = run.by_code.entry(code.to_owned()).or_default();
                operations.push(*number);
            }
        }
        run.quiet = run.quiet_times(events.last().map_or(0, |event| event.at));
        run
    }

    fn add(&mut self, event: &Event, copies: &mut HashMap<u64, (Micros, Micros)>) {
        let at = event.at;
        match &event.what {
            What::Invoke { op, ask } => {
                let operation = Operation {
                    ask: ask.clone(),
                    invoked: at,
                    end: None,
                };
                self.operations.insert(*op, operation);
            }
            What::Complete { op, outcome } => {
                if let Some(operation) = self.operations.get_mut(op) {
                    operation.end = Some((at, outcome.clone()));
                }
            }
            What::Attempt { op, since, end, .. } => {
                self.attempts.push((*op, *since, at, end.clone()));
            }
            What::Break {
                fault,
                kind,
                detail,
            } => {
                let fault_seen = FaultSpan {
                    kind: kind.clone(),
                    detail: detail.clone(),
                    from: at,
                    to: Micros::MAX,
                };
                self.faults.insert(*fault, fault_seen);
            }
            What::Note { fault, text } => {
                if let Some(fault) = self.faults.get_mut(fault) {
                    let separator = if fault.detail.is_empty() { "" } else { "; " };
                    fault.detail = format!("{}{separator}{text}", fault.detail);
                }
            }
            What::Heal { fault } => {
                if let Some(fault) = self.faults.get_mut(fault) {
                    fault.to = at;
                }
            }
            What::Copied { copy, since } => {
                copies.insert(*copy, (*since, at));
            }
            What::Restored { copy, since } => {
                if let Some(&copied) = copies.get(copy) {
                    let restored = (*since, at);
                    self.restores.push(Restore { copied, restored });
                }
            }
            What::Sweep => self.sweep = Some(at),
            What::Clicks { .. } | What::Unexpected { .. } => {}
        }
    }

    /// Between faults, [`RECOVERY`] after the last one.
    fn quiet_times(&self, end: Micros) -> Vec<(Micros, Micros)> {
        let mut faults: Vec<(Micros, Micros)> = self
            .faults
            .values()
            .map(|fault| (fault.from, fault.to.saturating_add(RECOVERY)))
            .collect();
        faults.sort_unstable();
        let (mut quiet, mut since) = (Vec::new(), 0);
        for (from, to) in faults {
            if from > since {
                quiet.push((since, from));
            }
            since = since.max(to);
        }
        if since < end {
            quiet.push((since, end));
        }
        quiet
    }

    /// Whether all of that time was quiet.
    pub(crate) fn is_quiet(&self, from: Micros, to: Micros) -> bool {
        let index = self.quiet.partition_point(|&(_, end)| end < to);
        self.quiet
            .get(index)
            .is_some_and(|&(start, _)| start <= from)
    }
}

/// Judges a history.
#[must_use]
pub fn check(events: &[Event]) -> Verdict {
    let run = Run::of(events);
    let mut verdict = Verdict::default();
    for operation in run.operations.values() {
        let outcome = match &operation.end {
            Some((_, OperationOutcome::Done { .. })) => "done",
            Some((_, OperationOutcome::Undone { .. })) => "undone",
            Some((_, OperationOutcome::Unknown)) | None => "unknown",
            Some((_, OperationOutcome::Answer { .. })) => "answered",
            Some((_, OperationOutcome::Unavailable { .. })) => "unavailable",
            Some((_, OperationOutcome::NoAnswer { .. })) => "no answer",
            Some((_, OperationOutcome::Strange { .. })) => "strange",
        };
        let key = (operation.kind(), outcome.to_owned());
        *verdict.operations.entry(key).or_default() += 1;
    }
    for fault in run.faults.values() {
        *verdict.faults.entry(fault.kind.clone()).or_default() += 1;
    }
    let mut codes: Vec<&String> = run.by_code.keys().collect();
    codes.sort_unstable();
    for code in codes {
        check_code(&run, code, &mut verdict);
    }
    check_availability(&run, &mut verdict);
    for event in events {
        if let What::Unexpected { text } = &event.what {
            verdict.violations.push(Violation {
                promise: Promise::NothingStrange,
                code: None,
                time: (event.at, event.at),
                since: None,
                text: text.clone(),
            });
        }
    }
    clicks::check(&run, events, &mut verdict);
    verdict.violations.sort_by_key(|v| (v.promise, v.time));
    verdict
}

fn check_code(run: &Run, code: &str, verdict: &mut Verdict) {
    let operations: Vec<&Operation> = run.by_code[code]
        .iter()
        .map(|number| &run.operations[number])
        .collect();
    let spans = Spans::of(&operations, &run.restores);
    for &(invoked, completed) in spans.twice() {
        verdict.violations.push(Violation {
            promise: Promise::NothingTwice,
            code: Some(code.to_owned()),
            time: (invoked, completed),
            since: None,
            text: format!("'{code}' was given to a new link while it belonged to another one"),
        });
    }
    let mut late: BTreeMap<Micros, Micros> = spans
        .changes()
        .filter(|&at| run.is_quiet(at, at + WINDOW))
        .map(|at| (at, 0))
        .collect();
    for operation in operations {
        let Some((completed, OperationOutcome::Answer { value, tier })) = &operation.end else {
            continue;
        };
        let (invoked, completed) = (operation.invoked, *completed);
        let is_now = spans.is_possible(*value, invoked, completed);
        if is_now {
            continue;
        }
        let (promise, via, margin) = match (&operation.ask, *value) {
            (Ask::Follow { via, .. }, Value::Target(_)) => (Promise::NothingOld, via, WINDOW),
            (Ask::Follow { via, .. }, _) => (Promise::NothingMissing, via, WINDOW),
            (Ask::Read { via, .. }, _) => (Promise::NothingLost, via, 0),
            (Ask::Write { .. }, _) => continue,
        };
        let margin = if run.sweep.is_some_and(|sweep| sweep <= invoked) {
            0
        } else {
            margin
        };
        if spans.is_possible(*value, invoked.saturating_sub(margin), completed) {
            if let Some(end) = spans.last_end(*value, invoked)
                && let Some(age) = late.get_mut(&end)
            {
                *age = (*age).max(invoked - end);
            }
            continue;
        }
        // An Envoy serves known links as stale while no control plane answers it.
        let is_stale = tier.as_deref() == Some(STALE);
        if is_stale && spans.was_possible(*value, completed) && !run.is_quiet(invoked, completed) {
            verdict.stale += 1;
            continue;
        }
        let tier = tier
            .as_ref()
            .map_or(String::new(), |tier| format!(" (tier {tier})"));
        verdict.violations.push(Violation {
            promise,
            code: Some(code.to_owned()),
            time: (invoked, completed),
            since: spans.last_end(*value, invoked),
            text: format!(
                "{via} answered '{code}' with {value:?}{tier}; {}",
                spans.excuse(*value, invoked)
            ),
        });
    }
    verdict.propagation.extend(late.into_values());
}

/// While nothing is broken, everything is answered; an answer that makes no sense is never right.
fn check_availability(run: &Run, verdict: &mut Verdict) {
    let mut add = |promise, code: Option<&str>, time, text| {
        verdict.violations.push(Violation {
            promise,
            code: code.map(str::to_owned),
            time,
            since: None,
            text,
        });
    };
    for operation in run.operations.values() {
        let Some((at, outcome)) = &operation.end else {
            continue;
        };
        let time = (operation.invoked, *at);
        let code = operation.code();
        let (promise, what) = match outcome {
            OperationOutcome::Unavailable { status } => {
                (Promise::Recovered, format!("status {status}"))
            }
            OperationOutcome::NoAnswer { error } => (Promise::Recovered, error.clone()),
            OperationOutcome::Strange { answer } => (Promise::NothingStrange, answer.clone()),
            _ => continue,
        };
        if promise == Promise::NothingStrange || run.is_quiet(time.0, time.1) {
            add(promise, code, time, format!("{:?}: {what}", operation.ask));
        }
    }
    for (op, since, at, end) in &run.attempts {
        let is_answer = end.starts_with('2') || end.starts_with('4');
        if !is_answer && run.is_quiet(*since, *at) {
            let code = run.operations.get(op).and_then(Operation::code);
            add(
                Promise::Recovered,
                code,
                (*since, *at),
                format!("a write: {end}"),
            );
        }
    }
}
