//! Judges a history by the contract alone: it knows what clients asked and were answered, what was broken and when, and
//! nothing of how the product works.
//!
//! A link is written by one client at a time, so that what a code may stand for at a moment follows from the writes:
//! the value of a write is possible from its invocation on; the value before it is not, once the write is acknowledged.
//! A write without a definite answer leaves both possible. A database that is restored makes the values possible again
//! that were when it was copied.

mod answers;
mod clicks;
mod limits;
mod losses;
mod quiet;
mod spans;
mod story;
#[cfg(test)]
mod tests;
mod verdict;
mod webhooks;

use super::history::{Ask, Event, Micros, OperationOutcome, Value, Via, View, What};
use quiet::QuietTimes;
use std::collections::{BTreeMap, HashMap};

pub use story::print;
pub use verdict::{Promise, Verdict, Violation};

/// An answer is right for some moment that is no longer ago than this.
const WINDOW: Micros = 5_000_000;

/// An operation, put together from its events.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) ask: Ask,
    /// What a write was to write, where something else came of it.
    pub(crate) asked: Option<Value>,
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
            | (
                Ask::Read { code, .. }
                | Ask::Follow { code, .. }
                | Ask::Limit { code, .. }
                | Ask::Visit { code, .. }
                | Ask::Count { code, .. },
                _,
            )
            | (Ask::Write { .. }, Some((_, OperationOutcome::Done { code, .. }))) => Some(code),
            _ => None,
        }
    }

    fn complete(&mut self, at: Micros, outcome: OperationOutcome) {
        if let (
            Ask::Write { value, .. },
            OperationOutcome::Done {
                shown: Some(shown), ..
            },
        ) = (&mut self.ask, &outcome)
        {
            self.asked = Some(*value);
            *value = *shown;
        }
        self.end = Some((at, outcome));
    }

    /// Whether an answer said that a write has happened.
    fn is_answered(&self) -> bool {
        let answered = |outcome: &OperationOutcome| {
            matches!(
                outcome,
                OperationOutcome::Done {
                    is_answered: true,
                    ..
                }
            )
        };
        self.end.as_ref().is_some_and(|(_, end)| answered(end))
    }

    /// What a write writes.
    fn value(&self) -> Option<Value> {
        match self.ask {
            Ask::Write { value, .. } => Some(value),
            _ => None,
        }
    }

    /// What of a value the answer shows.
    fn view(&self) -> View {
        match self.ask {
            Ask::Follow { picks: true, .. } => View::Picked,
            Ask::Follow { .. } => View::Plain,
            _ => View::Whole,
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
            Ask::Limit { .. } => "limit".to_owned(),
            Ask::Visit {
                via: Via::Envoy(_), ..
            } => "visit (envoy)".to_owned(),
            Ask::Visit { .. } => "visit (control plane)".to_owned(),
            Ask::Count { .. } => "count".to_owned(),
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
    quiet: QuietTimes,
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
        let end = events.last().map_or(0, |event| event.at);
        run.quiet = QuietTimes::between(run.faults.values(), end);
        run
    }

    fn add(&mut self, event: &Event, copies: &mut HashMap<u64, (Micros, Micros)>) {
        let at = event.at;
        match &event.what {
            What::Invoke { op, ask } => {
                let operation = Operation {
                    ask: ask.clone(),
                    asked: None,
                    invoked: at,
                    end: None,
                };
                self.operations.insert(*op, operation);
            }
            What::Complete { op, outcome } => {
                if let Some(operation) = self.operations.get_mut(op) {
                    operation.complete(at, outcome.clone());
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
            What::Clicks { .. }
            | What::Unexpected { .. }
            | What::Subscribed
            | What::Delivered { .. } => {}
        }
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
            Some((_, OperationOutcome::Answer { .. } | OperationOutcome::Counted { .. })) => {
                "answered"
            }
            Some((_, OperationOutcome::Unavailable { .. })) => "unavailable",
            Some((_, OperationOutcome::NoAnswer { .. })) => "no answer",
            Some((_, OperationOutcome::Strange { .. })) => "strange",
        };
        let key = (operation.kind(), outcome.to_owned());
        *verdict.operations.entry(key).or_default() += 1;
    }
    webhooks::count(events, &mut verdict);
    for fault in run.faults.values() {
        *verdict.faults.entry(fault.kind.clone()).or_default() += 1;
    }
    let mut codes: Vec<&String> = run.by_code.keys().collect();
    codes.sort_unstable();
    for code in codes {
        answers::check(&run, code, &mut verdict);
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
    limits::check(&run, &mut verdict);
    webhooks::check(&run, events, &mut verdict);
    verdict.violations.sort_by_key(|v| (v.promise, v.time));
    verdict
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
        if promise == Promise::NothingStrange
            || run.quiet.contain(code.unwrap_or_default(), time.0, time.1)
        {
            add(promise, code, time, format!("{:?}: {what}", operation.ask));
        }
    }
    for (op, since, at, end) in &run.attempts {
        let is_answer = end.starts_with('2') || end.starts_with('4');
        let code = run.operations.get(op).and_then(Operation::code);
        if !is_answer && run.quiet.contain(code.unwrap_or_default(), *since, *at) {
            add(
                Promise::Recovered,
                code,
                (*since, *at),
                format!("a write: {end}"),
            );
        }
    }
}
