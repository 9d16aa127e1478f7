//! Checks that a starting process is ready in time, under any load and with any amount of data.

use super::super::history::Micros;
use super::effects::{Broken, broken_part};
use super::{FaultSpan, Promise, Run, Start, Verdict, Violation};

/// Longest time to become ready while nothing that the process needs is broken.
const READY_IN: Micros = 30_000_000;

pub(super) fn check(run: &Run, verdict: &mut Verdict) {
    for start in &run.starts {
        let (from, to) = start.time;
        let is_late = !start.is_ready || to - from > READY_IN;
        if is_late && !run.faults.values().any(|fault| excuses(fault, start)) {
            let seconds = (to - from) as f64 / 1e6;
            let text = format!("{} was not ready within {seconds:.1} s", start.part);
            verdict.violations.push(Violation {
                promise: Promise::Available,
                code: None,
                time: start.time,
                since: None,
                text,
            });
        }
    }
}

/// True if a fault overlapped the start of the part and may have delayed it.
fn excuses(fault: &FaultSpan, start: &Start) -> bool {
    let (from, to) = start.time;
    let is_meanwhile = fault.from <= to.min(from + READY_IN) && fault.to >= from;
    // The start is the end of that fault.
    let is_own = fault.kind == "kill" && fault.part() == start.part;
    is_meanwhile && !is_own && may_hinder(fault, &start.part)
}

/// True if a fault may keep a part from becoming ready. A control plane needs the database, and its own connection to
/// Redis while others have theirs; without Redis it is ready. An Envoy needs no other part. Rolling restarts of control
/// planes hinder no part.
fn may_hinder(fault: &FaultSpan, part: &str) -> bool {
    let broken = match fault.kind.as_str() {
        "database restored" => Broken::Database,
        "clock moved" | "certificate wrong" => broken_part(fault.part()),
        _ => fault.breaks(),
    };
    match (broken_part(part), broken) {
        (_, Broken::Else) => false,
        (Broken::ControlPlane(_), Broken::Database) => true,
        (Broken::ControlPlane(own), Broken::DatabaseOf(other)) => own == Some(other),
        (Broken::ControlPlane(_), Broken::Redis) => fault
            .part()
            .split_once('>')
            .is_some_and(|(of, _)| of == part),
        (own, broken) => own == broken,
    }
}
