//! Whether there is an answer where there has to be one. An answer that makes no sense is never right.

use super::super::history::{Ask, OperationOutcome, Purpose};
use super::effects::Question;
use super::{Attempt, Operation, Promise, Run, Verdict, Violation};
use std::collections::BTreeSet;

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
                note_pressed(run, question, &operation.kind(), true, verdict);
                continue;
            }
            _ => continue,
        };
        // It is told to come again.
        let is_prefetch = matches!(
            operation.ask,
            Ask::Visit {
                purpose: Purpose::Prefetch,
                ..
            }
        );
        if !is_prefetch {
            let text = format!("{:?}: {failure}", operation.ask);
            judge(run, question, (operation, text), verdict);
        }
    }
    for attempt in &run.attempts {
        if let Some(operation) = run.operations.get(&attempt.op) {
            check_attempt(run, attempt, operation, verdict);
        }
    }
}

fn check_attempt(run: &Run, attempt: &Attempt, operation: &Operation, verdict: &mut Verdict) {
    let question = Question::of(operation, Some(attempt.via), attempt.time);
    match attempt.is_answered() {
        true => note_pressed(run, question, WRITE, true, verdict),
        false => {
            let text = format!("a write by {}: {}", attempt.via, attempt.end);
            judge(run, question, (operation, text), verdict);
        }
    }
}

const WRITE: &str = "write";

/// Judges something that was not answered.
fn judge(
    run: &Run,
    question: Question<'_>,
    (operation, text): (&Operation, String),
    verdict: &mut Verdict,
) {
    let kind = match operation.ask {
        Ask::Write { .. } => WRITE.to_owned(),
        _ => operation.kind(),
    };
    note_pressed(run, question, &kind, false, verdict);
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

/// Counts what was asked while nothing was broken and something pressed.
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
        match is_answered {
            true => answers.times.push(to - from),
            false => answers.failed += 1,
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
