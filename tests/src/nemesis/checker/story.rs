//! The report: tables, and the full story of the first violation for each promise and set of faults.

use super::super::history::{Ask, Event, Host, Micros, OperationOutcome};
use super::verdict::{Cause, LateChange};
use super::{Promise, Run, Verdict, Violation};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Most violations of a promise reported in full: the first of each group with equal faults around.
const STORIES: usize = 5;
/// Most sets of faults shown around violations of a promise, those with the most violations first.
const GROUPS: usize = 12;
/// Longest time between a fault and a change for the fault to count as around it.
const SOON: Micros = 3_000_000;
/// Length of a story before its violation.
const BEFORE: Micros = 40_000_000;
/// Length of a story before its violation, for events other than writes.
const SOON_BEFORE: Micros = 8_000_000;
const AFTER: Micros = 3_000_000;
const MOST_LINES: usize = 80;
/// Number of late changes shown.
const LATE_SHOWN: usize = 10;

/// The report as text.
#[must_use]
pub fn print(verdict: &Verdict, events: &[Event]) -> String {
    let mut text = String::from("\noperation                 outcome          count\n");
    for ((kind, outcome), count) in &verdict.operations {
        let _ = writeln!(text, "{kind:<25} {outcome:<12} {count:>9}");
    }
    let stale = "older than 5 s, and said so (stale)";
    let _ = writeln!(text, "{stale:<38} {:>9}", verdict.stale);
    text.push_str("\nfault                                  count\n");
    for (kind, count) in &verdict.faults {
        let _ = writeln!(text, "{kind:<34} {count:>9}");
    }
    text.push_str("\nviolation                              count\n");
    for promise in Promise::ALL {
        let count = verdict.violations.iter().filter(|v| v.promise == promise);
        let _ = writeln!(text, "{:<34} {:>9}", promise.name(), count.count());
    }
    if !verdict.pressed.is_empty() {
        text.push_str(
            "\nbeside                 operation                 answered   not       p99\n",
        );
    }
    for ((pressure, kind), answers) in &verdict.pressed {
        let p99 = answers.p99().unwrap_or(0) as f64 / 1000.0;
        let (answered, failed) = (answers.times.len(), answers.failed);
        let _ = writeln!(
            text,
            "{pressure:<22} {kind:<25} {answered:>8} {failed:>5} {p99:>7.1} ms"
        );
    }
    let p99 = verdict.propagation_p99().unwrap_or(0) as f64 / 1000.0;
    let _ = writeln!(
        text,
        "\nchanges while nothing was broken: {}, seen late by more than 50 ms: {}, p99 {p99:.1} ms",
        verdict.propagation.len(),
        verdict.late.len()
    );
    describe_late(verdict, &mut text);
    let run = Run::of(events);
    let mut groups: BTreeMap<(Promise, String), Vec<&Violation>> = BTreeMap::new();
    for violation in &verdict.violations {
        let group = (violation.promise, run.faults_around(violation));
        groups.entry(group).or_default().push(violation);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((promise, _), violations)| (*promise, Reverse(violations.len())));
    for promise in Promise::ALL {
        let of_kind = || groups.iter().filter(|((of, _), _)| *of == promise);
        for ((_, faults), violations) in of_kind().take(GROUPS) {
            let count = violations.len();
            let _ = writeln!(text, "{:<20} {count:>6}  {faults}", promise.name());
        }
    }
    for promise in Promise::ALL {
        let of_kind = groups.iter().filter(|((of, _), _)| *of == promise);
        for violation in of_kind.filter_map(|(_, group)| group.first()).take(STORIES) {
            describe(violation, &run, &mut text);
        }
    }
    text
}

/// Writes the number of late changes by cause, and the latest ones.
fn describe_late(verdict: &Verdict, text: &mut String) {
    for cause in Cause::ALL {
        let ages = verdict.late.iter().filter(|(_, of)| *of == cause);
        let ages: Vec<Micros> = ages.map(|(change, _)| change.age).collect();
        if let Some(most) = ages.iter().max() {
            let most = *most as f64 / 1000.0;
            let _ = writeln!(
                text,
                "  {:<42} {:>6}, up to {most:.0} ms",
                cause.name(),
                ages.len()
            );
        }
    }
    let mut late: Vec<&(LateChange, Cause)> = verdict.late.iter().collect();
    late.sort_by_key(|(change, _)| Reverse(change.age));
    for (change, cause) in late.into_iter().take(LATE_SHOWN) {
        let LateChange { code, at, age, via } = change;
        let age = *age as f64 / 1000.0;
        let _ = writeln!(
            text,
            "{:>11}  '{code}' late by {age:.0} ms at {via}: {}",
            seconds(*at),
            cause.name()
        );
    }
}

impl Run {
    /// Kinds of the faults around the missed change, or before the observation.
    fn faults_around(&self, violation: &Violation) -> String {
        let (from, to) = violation
            .since
            .map_or(violation.time, |since| (since, since));
        let around = self.faults.values().filter(|fault| {
            let until = fault.to.saturating_add(SOON);
            fault.from <= to.saturating_add(SOON) && until >= from
        });
        let kinds: BTreeSet<&str> = around.map(|fault| fault.kind.as_str()).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        kinds.join(", ")
    }
}

fn describe(violation: &Violation, run: &Run, text: &mut String) {
    let (from, to) = violation.time;
    let name = violation.promise.name();
    let _ = writeln!(
        text,
        "\n=== {name}, at {} to {}: {}",
        seconds(from),
        seconds(to),
        violation.text
    );
    let mut lines = Vec::new();
    for fault in run.faults.values() {
        if fault.from <= to && fault.to >= from.saturating_sub(BEFORE) {
            let until = if fault.to == Micros::MAX {
                "the end".to_owned()
            } else {
                seconds(fault.to)
            };
            lines.push((
                fault.from,
                format!("FAULT {} ({}) until {until}", fault.kind, fault.detail),
            ));
        }
    }
    for restore in &run.restores {
        let copied = seconds(restore.copied.0);
        let (since, until) = (restore.restored.0, seconds(restore.restored.1));
        if since <= to && restore.restored.1 >= from.saturating_sub(BEFORE) {
            lines.push((
                since,
                format!("RESTORE of the copy from {copied}, until {until}"),
            ));
        }
    }
    if let Some(numbers) = violation
        .code
        .as_ref()
        .and_then(|code| run.by_code.get(code))
    {
        for number in numbers {
            lines.extend(line_of(run, *number, from, to));
        }
    }
    lines.sort();
    let skipped = lines.len().saturating_sub(MOST_LINES);
    for (at, line) in &lines[skipped..] {
        let _ = writeln!(text, "{:>11}  {line}", seconds(*at));
    }
}

fn line_of(run: &Run, number: u64, from: Micros, to: Micros) -> Option<(Micros, String)> {
    let operation = run.operations.get(&number)?;
    let (ended, outcome) = operation.end.as_ref().map_or_else(
        || (Micros::MAX, "no end".to_owned()),
        |(at, outcome)| (*at, outcome_text(outcome)),
    );
    let before = if matches!(operation.ask, Ask::Write { .. }) {
        BEFORE
    } else {
        SOON_BEFORE
    };
    if operation.invoked > to + AFTER || ended < from.saturating_sub(before) {
        return None;
    }
    let until = if ended == Micros::MAX {
        String::new()
    } else {
        format!("{:>11}  ", seconds(ended))
    };
    let ask = match &operation.ask {
        Ask::Write { kind, value, .. } => format!("{kind} -> {value:?}"),
        Ask::Read { via, .. } => format!("read by {via}"),
        Ask::Follow {
            via, picks, host, ..
        } => {
            let host = match host {
                Host::Own => "",
                Host::Unknown => " under an unknown host",
            };
            let picks = if *picks { " with a condition" } else { "" };
            format!("follow by {via}{host}{picks}")
        }
        Ask::Limit { max, .. } => format!("limit of {max}"),
        Ask::Visit { via, purpose, .. } => format!("{purpose:?} by {via}").to_lowercase(),
        Ask::Count { via, .. } => format!("count by {via}"),
    };
    let here = if operation.invoked == from {
        " <=="
    } else {
        ""
    };
    Some((operation.invoked, format!("{until}{ask}: {outcome}{here}")))
}

fn outcome_text(outcome: &OperationOutcome) -> String {
    match outcome {
        OperationOutcome::Done { .. } => "done".to_owned(),
        OperationOutcome::Undone { .. } => "not in effect any more".to_owned(),
        OperationOutcome::Unknown => "unknown".to_owned(),
        OperationOutcome::Answer { value, tier } => {
            let tier = tier
                .as_ref()
                .map_or(String::new(), |tier| format!(" ({tier})"));
            format!("{value:?}{tier}")
        }
        OperationOutcome::Counted { used, leased } => format!("{used} used, {leased} out"),
        OperationOutcome::Unavailable { status } => status.to_string(),
        OperationOutcome::NoAnswer { error } => format!("no answer: {error}"),
        OperationOutcome::Strange { answer } => answer.clone(),
    }
}

fn seconds(micros: Micros) -> String {
    format!("{:.3}", micros as f64 / 1e6)
}
