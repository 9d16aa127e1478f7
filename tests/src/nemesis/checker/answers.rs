//! Checks the answers for a code: none older than allowed, none missing or lost, no code assigned twice.

use super::super::history::{Ask, Micros, OperationOutcome, Value, Via};
use super::spans::{Seen, Spans};
use super::verdict::{LATE, LateChange};
use super::{Operation, Promise, Run, Verdict, Violation, WINDOW, causes};
use std::collections::BTreeMap;

/// Tier of an answer served because the lookup fails. Its maximum age is a setting, a day by default.
const STALE: &str = "stale";

/// Evidence collected about a code.
struct Judge<'a> {
    run: &'a Run,
    code: &'a str,
    spans: Spans,
    /// Changes while nothing was broken, with the oldest answer after each: its age, and who gave it.
    late: BTreeMap<Micros, Option<(Micros, Via)>>,
}

/// The judged parts of an answer.
struct Judged<'a> {
    seen: Seen,
    via: Via,
    tier: Option<&'a str>,
    invoked: Micros,
    completed: Micros,
    /// The promise that a wrong answer breaks, and the age it may have.
    promise: Promise,
    margin: Micros,
}

pub(super) fn check(run: &Run, code: &str, verdict: &mut Verdict) {
    let numbers = run.by_code[code].iter();
    let operations: Vec<&Operation> = numbers.map(|number| &run.operations[number]).collect();
    let spans = Spans::of(&operations, &run.restores);
    let text = format!("'{code}' was given to a new link while it belonged to another one");
    let twice = spans.twice().iter();
    let twice = twice.map(|&time| violation(Promise::NothingTwice, code, time, text.clone()));
    verdict.violations.extend(twice);
    check_restored(run, code, &operations, verdict);
    let changes = spans.changes();
    let changes = changes.filter(|&at| run.undisturbed.contain(code, at, at + WINDOW));
    let mut judge = Judge {
        run,
        code,
        late: changes.map(|at| (at, None)).collect(),
        spans,
    };
    for operation in operations {
        if let Some(answer) = judge.answer(operation) {
            judge.check(&answer, verdict);
        }
    }
    for (at, oldest) in judge.late {
        let age = oldest.map_or(0, |(age, _)| age);
        verdict.propagation.push(age);
        let Some((age, via)) = oldest else {
            continue;
        };
        let change = LateChange::new(code, (at, age), via);
        if causes::was_acknowledged(run, &change) {
            let text = format!(
                "{via} answered '{code}' as before a change, {age} us after every worker had acknowledged that"
            );
            let time = (at + age, at + age);
            let violation = violation(Promise::NothingOld, code, time, text);
            verdict.violations.push(violation);
        }
        if age > LATE {
            let cause = causes::of(run, &change);
            verdict.late.push((change, cause));
        }
    }
}

impl Judge<'_> {
    /// `None` if it is not an answer, or is judged elsewhere.
    fn answer<'o>(&self, operation: &'o Operation) -> Option<Judged<'o>> {
        let (completed, OperationOutcome::Answer { value, tier }) = operation.end.as_ref()? else {
            return None;
        };
        let (promise, via, margin) = match (&operation.ask, *value) {
            (Ask::Follow { via, .. }, Value::Target(_)) => (Promise::NothingOld, via, WINDOW),
            (Ask::Follow { via, .. }, _) => (Promise::NothingMissing, via, WINDOW),
            (Ask::Read { via, .. }, _) => (Promise::NothingLost, via, 0),
            _ => return None,
        };
        let invoked = operation.invoked;
        let is_at_end = self.run.sweep.is_some_and(|sweep| sweep <= invoked);
        Some(Judged {
            seen: Seen(*value, operation.view()),
            via: *via,
            tier: tier.as_deref(),
            invoked,
            completed: *completed,
            promise,
            margin: if is_at_end { 0 } else { margin },
        })
    }

    fn check(&mut self, answer: &Judged<'_>, verdict: &mut Verdict) {
        let (seen, invoked, completed) = (answer.seen, answer.invoked, answer.completed);
        let is_possible = |from| self.spans.is_possible(seen, from, completed);
        if is_possible(invoked) {
            return;
        }
        if is_possible(invoked.saturating_sub(answer.margin)) {
            if let Some(end) = self.spans.last_end(seen, invoked)
                && let Some(oldest) = self.late.get_mut(&end)
            {
                *oldest = (*oldest).max(Some((invoked - end, answer.via)));
            }
            return;
        }
        if !self.run.quiet.contain(self.code, invoked, completed) {
            let was_so = self.spans.was_possible(seen, completed);
            // A domain stays in effect until an edge or control plane receives its change, and a new edge has none at
            // first.
            if self.code.ends_with('/') && (was_so || seen.0 == Value::Absent) {
                return;
            }
            // An Envoy serves known links as stale while no control plane answers it.
            if was_so && answer.tier == Some(STALE) {
                verdict.stale += 1;
                return;
            }
        }
        verdict.violations.push(self.wrong(answer));
    }

    fn wrong(&self, answer: &Judged<'_>) -> Violation {
        let &Judged {
            seen, via, invoked, ..
        } = answer;
        let (code, value) = (self.code, seen.0);
        let tier = answer.tier.map(|tier| format!(" (tier {tier})"));
        let text = format!(
            "{via} answered '{code}' with {value:?}{}; {}",
            tier.unwrap_or_default(),
            self.spans.excuse(seen, invoked)
        );
        Violation {
            since: self.spans.last_end(seen, invoked),
            ..violation(answer.promise, code, (invoked, answer.completed), text)
        }
    }
}

/// A restored link is as it was when it was deleted. Only a database that was itself restored may have lost that deletion
/// and have an earlier one.
fn check_restored(run: &Run, code: &str, operations: &[&Operation], verdict: &mut Verdict) {
    for operation in operations {
        let (Some(asked), Some((at, _))) = (operation.asked, &operation.end) else {
            continue;
        };
        if run.restores.iter().any(|restore| restore.restored.0 <= *at) {
            continue;
        }
        let shown = operation.value();
        let text =
            format!("'{code}' was restored as {shown:?}, and was {asked:?} when it was deleted");
        let time = (operation.invoked, *at);
        verdict
            .violations
            .push(violation(Promise::NothingLost, code, time, text));
    }
}

fn violation(promise: Promise, code: &str, time: (Micros, Micros), text: String) -> Violation {
    Violation {
        promise,
        code: Some(code.to_owned()),
        time,
        since: None,
        text,
    }
}
