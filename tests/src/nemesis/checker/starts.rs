//! Whether a process that starts is ready in time, whatever presses and however much data there is.

use super::super::history::Micros;
use super::{FaultSpan, Promise, Run, Start, Verdict, Violation};

/// How long it may take where nothing else is broken.
const READY_IN: Micros = 30_000_000;
/// Faults that start parts of their own accord.
const ROLLING: [&str; 2] = ["rolling restart", "control plane without redis"];

pub(super) fn check(run: &Run, verdict: &mut Verdict) {
    for start in &run.starts {
        let (from, to) = start.time;
        let is_late = !start.is_ready || to - from > READY_IN;
        let mut others = run.faults.values().filter(|fault| !is_of(fault, start));
        let is_excused = others.any(|fault| {
            !fault.presses() && fault.from <= to && fault.to.saturating_add(READY_IN) >= from
        });
        if is_late && !is_excused {
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

/// Whether that fault has started the part.
fn is_of(fault: &FaultSpan, start: &Start) -> bool {
    let is_meanwhile = fault.from <= start.time.0 && fault.to >= start.time.1;
    let is_own = fault.part() == start.part || ROLLING.contains(&fault.kind.as_str());
    is_meanwhile && is_own
}
