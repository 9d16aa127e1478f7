//! Checks that requests are answered wherever they must be. A nonsensical answer is never right.

use super::super::history::{Ask, Micros, OperationOutcome, Purpose};
use super::effects::Question;
use super::{Attempt, Operation, Promise, Run, Verdict, Violation};
use std::collections::BTreeSet;

/// Longest wait of a visitor that no fault excuses. It is several times what development builds need that share two
/// processors with everything else, with a distant edge whose round trip to a control plane takes 160 ms.
const VISIT_IN: Micros = 2_000_000;
/// Longest wait of an API client that reads: a link takes two requests.
const READ_IN: Micros = 3_000_000;
/// Longest wait of an API client that writes, which waits for a row, and for workers to have acknowledged the change: 5 s for one
/// that is gone.
const WRITE_IN: Micros = 9_000_000;

pub(super) fn check(run: &Run, verdict: &mut Verdict) {
    for operation in run.operations.values() {
        let Some((at, outcome)) = &operation.end else {
            continue;
        };
        let question = Question::of(operation, None, (operation.invoked, *at));
        let failure = match outcome {
            OperationOutcome::Unavailable { status } => format!("status {status}"),
            OperationOutcome::NoAnswer { error } => error.clone(),
            OperationOutcome::Strange { answer } => {
                let text = format!("{:?}: {answer}", operation.ask);
                add(question, Promise::NothingStrange, text, verdict);
                continue;
            }
            OperationOutcome::Answer { .. } | OperationOutcome::Counted { .. } => {
                let text = format!("{:?}", operation.ask);
                judge_answer(run, question, (operation, text), verdict);
                continue;
            }
            _ => continue,
        };
        // Its visitor is asked to come again.
        let is_prefetch = matches!(
            operation.ask,
            Ask::Visit {
                purpose: Purpose::Prefetch,
                ..
            }
        );
        if !is_prefetch {
            let text = format!("{:?}: {failure}", operation.ask);
            judge_failure(run, question, (operation, text), verdict);
        }
    }
    for attempt in &run.attempts {
        if let Some(operation) = run.operations.get(&attempt.op) {
            check_attempt(run, attempt, operation, verdict);
        }
    }
}

fn check_attempt(run: &Run, attempt: &Attempt, operation: &Operation, verdict: &mut Verdict) {
    if attempt.is_closed() {
        return;
    }
    let question = Question::of(operation, Some(attempt.via), attempt.time);
    let text = format!("a write by {}: {}", attempt.via, attempt.end);
    if attempt.is_answered() {
        judge_answer(run, question, (operation, text), verdict);
    } else {
        judge_failure(run, question, (operation, text), verdict);
    }
}

/// Kind under which an operation is counted.
fn kind_of(operation: &Operation) -> String {
    match operation.ask {
        Ask::Write { .. } => "write".to_owned(),
        _ => operation.kind(),
    }
}

/// Longest time that an answer may take.
fn bound_of(ask: &Ask) -> Micros {
    match ask {
        Ask::Follow { .. } | Ask::Visit { .. } => VISIT_IN,
        Ask::Read { .. } | Ask::Count { .. } => READ_IN,
        Ask::Write { .. } | Ask::Limit { .. } => WRITE_IN,
    }
}

/// Judges whether an answer came in time.
fn judge_answer(
    run: &Run,
    question: Question<'_>,
    (operation, text): (&Operation, String),
    verdict: &mut Verdict,
) {
    note_pressed(run, question, &kind_of(operation), true, verdict);
    let (from, to) = question.time;
    if to - from > bound_of(question.ask) {
        let seconds = (to - from) as f64 / 1e6;
        let text = format!("{text}, answered after {seconds:.1} s");
        blame(run, question, text, verdict);
    }
}

/// Judges a request that was not answered.
fn judge_failure(
    run: &Run,
    question: Question<'_>,
    (operation, text): (&Operation, String),
    verdict: &mut Verdict,
) {
    note_pressed(run, question, &kind_of(operation), false, verdict);
    blame(run, question, text, verdict);
}

/// Adds a violation, unless a fault excuses it.
fn blame(run: &Run, question: Question<'_>, text: String, verdict: &mut Verdict) {
    if !question.must_be_answered(run) {
        return;
    }
    let faults: BTreeSet<&str> = question
        .faults(run)
        .map(|fault| fault.kind.as_str())
        .collect();
    let faults: Vec<&str> = faults.into_iter().collect();
    match faults.as_slice() {
        [] => add(question, Promise::Recovered, text, verdict),
        faults => {
            let text = format!("{text}, while there was only: {}", faults.join(", "));
            add(question, Promise::Available, text, verdict);
        }
    }
}

/// Counts requests made under load while nothing was broken.
fn note_pressed(
    run: &Run,
    question: Question<'_>,
    kind: &str,
    is_answered: bool,
    verdict: &mut Verdict,
) {
    let (from, to) = question.time;
    if !run.quiet.contain(question.code, from, to) {
        return;
    }
    for fault in question.faults(run).filter(|fault| fault.presses()) {
        let key = (fault.kind.clone(), kind.to_owned());
        let answers = verdict.pressed.entry(key).or_default();
        if is_answered {
            answers.times.push(to - from);
        } else {
            answers.failed += 1;
        }
    }
}

fn add(question: Question<'_>, promise: Promise, text: String, verdict: &mut Verdict) {
    let code = Some(question.code).filter(|code| !code.is_empty());
    verdict.violations.push(Violation {
        promise,
        code: code.map(str::to_owned),
        time: question.time,
        since: None,
        text,
    });
}
