//! Judges a history by the contract alone: from the requests of clients and their answers, and from faults and their
//! times, without knowing how the product works.
//!
//! Each link is written by one client at a time, so that the values a code may have at a moment follow from the writes:
//! the value of a write is possible from its invocation on; the previous value is not, once the write is acknowledged. A
//! write without a definite answer leaves both possible. Restoring the database makes the values possible again that were
//! possible when it was copied.

mod answers;
mod availability;
mod causes;
mod clicks;
mod effects;
mod identities;
mod limits;
mod losses;
mod quiet;
mod spans;
mod starts;
mod story;
#[cfg(test)]
mod tests;
mod verdict;
mod webhooks;

use super::faults::is_pressure;
use super::history::{
    Ask, CLOSED, Event, Micros, OperationOutcome, Purpose, Step, Value, Via, View, What,
};
use quiet::QuietTimes;
use std::collections::{BTreeMap, HashMap};

pub use story::print;
pub use verdict::{Promise, Verdict, Violation};

/// An answer must be right for some moment at most this long ago.
const WINDOW: Micros = 5_000_000;

/// An operation, assembled from its events.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) ask: Ask,
    /// Value that a write requested, if another one was written.
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

    /// True if an answer confirmed a write.
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

    /// Value of a write.
    fn value(&self) -> Option<Value> {
        match self.ask {
            Ask::Write { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Part of a value that the answer shows.
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
                purpose: Purpose::Prefetch,
                ..
            } => "prefetch".to_owned(),
            Ask::Visit {
                via: Via::Envoy(_), ..
            } => "visit (envoy)".to_owned(),
            Ask::Visit { .. } => "visit (control plane)".to_owned(),
            Ask::Count { .. } => "count".to_owned(),
        }
    }
}

/// A fault, assembled from its events.
#[derive(Clone, Debug)]
pub(crate) struct FaultSpan {
    pub(crate) kind: String,
    pub(crate) detail: String,
    pub(crate) from: Micros,
    pub(crate) to: Micros,
}

impl FaultSpan {
    /// The broken part or connection.
    fn part(&self) -> &str {
        let part = self.detail.split([' ', ';']).next();
        part.unwrap_or_default()
    }

    /// True if it breaks nothing, and only loads shared resources.
    fn presses(&self) -> bool {
        is_pressure(&self.kind)
    }
}

/// A restore of the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restore {
    pub(crate) copied: (Micros, Micros),
    pub(crate) restored: (Micros, Micros),
}

/// A history, sorted by the subjects of its events.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) operations: BTreeMap<u64, Operation>,
    pub(crate) by_code: HashMap<String, Vec<u64>>,
    pub(crate) faults: BTreeMap<u64, FaultSpan>,
    pub(crate) restores: Vec<Restore>,
    /// Attempts of writes.
    attempts: Vec<Attempt>,
    /// Starts of parts.
    starts: Vec<Start>,
    /// Log lines, in the order of their times.
    logged: Vec<Logged>,
    sweep: Option<Micros>,
    /// Times without faults, with or without load.
    quiet: QuietTimes,
    /// Times without load as well.
    undisturbed: QuietTimes,
}

/// One attempt to write.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) op: u64,
    pub(crate) via: Via,
    pub(crate) time: (Micros, Micros),
    /// The status, or the reason why there was none.
    pub(crate) end: String,
}

impl Attempt {
    /// True if it was accepted, or rejected with a reason. No rate limit is set, so that 429 is no answer either.
    fn is_answered(&self) -> bool {
        let status = self.end.parse::<u16>();
        matches!(status, Ok(200..=399 | 400 | 404 | 409 | 410 | 412 | 422))
    }

    /// True if it used a kept connection that had been closed meanwhile, which is neither an answer nor a failure.
    fn is_closed(&self) -> bool {
        self.end.split(' ').next() == Some(CLOSED)
    }
}

/// A line of a log.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) at: Micros,
    pub(crate) part: String,
    pub(crate) step: Step,
}

/// The start of a part.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) part: String,
    pub(crate) time: (Micros, Micros),
    pub(crate) is_ready: bool,
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
        run.logged.sort_by_key(|logged| logged.at);
        let end = events.last().map_or(0, |event| event.at);
        let faults = run.faults.values();
        run.quiet = QuietTimes::between(faults.clone().filter(|one| !one.presses()), end);
        run.undisturbed = QuietTimes::between(faults, end);
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
            What::Attempt {
                op,
                since,
                end,
                via,
            } => self.attempts.push(Attempt {
                op: *op,
                via: *via,
                time: (*since, at),
                end: end.clone(),
            }),
            What::Started {
                part,
                since,
                is_ready,
            } => self.starts.push(Start {
                part: part.clone(),
                time: (*since, at),
                is_ready: *is_ready,
            }),
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
            What::Logged { at, part, step } => self.logged.push(Logged {
                at: *at,
                part: part.clone(),
                step: step.clone(),
            }),
            What::Clicks { .. }
            | What::Identified { .. }
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
    availability::check(&run, &mut verdict);
    starts::check(&run, &mut verdict);
    identities::check(events, &mut verdict);
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
