//! Bounds the blocks of visits that faults may have lost: a block for each worker that was killed or reached no control
//! plane for longer than its lease and grace, and all of them when the clock that measures leases was moved.

use super::super::deployment::{VISITS_GRACE, VISITS_LEASE};
use super::super::history::Micros;
use super::{FaultSpan, Run};

/// Time after a fault within which a part may still be starting or connecting.
const SLOW: Micros = 4_000_000;
/// The fault that drains workers, which report the uses of their blocks unless they reach no control plane then.
const RECONFIGURED: &str = "envoy reconfigured";
/// The fault that moves the clock of a part.
const MOVED: &str = "clock moved";
/// Most draining workers for each worker that exists.
const CONFIGURATIONS: u64 = 4;
const DRAINED: Micros = 25_000_000;

/// Number of blocks lost from `from` to `to`, with that many Envoys and workers of each.
pub(super) fn losses(
    run: &Run,
    from: Micros,
    to: Micros,
    (envoys, workers): (usize, usize),
) -> u64 {
    let workers = workers as u64;
    let faults = run.faults.values().filter(|fault| {
        let until = fault.to.saturating_add(SLOW);
        fault.from <= to && until >= from
    });
    let faults: Vec<&FaultSpan> = faults.collect();
    let lost = (0..envoys).map(|envoy| {
        let name = format!("envoy-{envoy}");
        let kills = |fault: &&&FaultSpan| fault.kind == "kill" && fault.part() == name;
        let kills = faults.iter().filter(kills).count() as u64;
        let moves = |fault: &&&FaultSpan| fault.kind == MOVED && fault.part() == "mariadb";
        // The clock is moved there and back.
        let clocks = 2 * faults.iter().filter(moves).count() as u64;
        let patience = u64::try_from((VISITS_LEASE + VISITS_GRACE).as_micros()).unwrap_or(1);
        let cut_off = cut_off(&faults, &name);
        let silences = cut_off.iter().map(|(from, to)| (to - from) / patience);
        let silences: u64 = silences.sum();
        let drains = |fault: &&&FaultSpan| fault.drains_in(&name, &cut_off);
        let drains = CONFIGURATIONS * faults.iter().filter(drains).count() as u64;
        workers * (kills + clocks + silences + drains)
    });
    lost.sum()
}

impl FaultSpan {
    /// True if it drains workers of an Envoy while that reaches no control plane.
    fn drains_in(&self, envoy: &str, cut_off: &[(Micros, Micros)]) -> bool {
        let until = self.to.saturating_add(DRAINED);
        let mut cut_off = cut_off.iter();
        let is_cut_off = cut_off.any(|&(from, to)| self.from <= to && until >= from);
        self.kind == RECONFIGURED && self.part() == envoy && is_cut_off
    }

    /// True if the Envoy reaches no control plane meanwhile that reaches the database.
    fn is_for_all(&self, envoy: &str) -> bool {
        match self.kind.as_str() {
            "database copied" | "database restored" => true,
            "rolling restart" | "control plane without redis" => true,
            _ => [envoy, "mariadb"].contains(&self.part()),
        }
    }

    /// True if the Envoy does not reach that control plane.
    fn is_for(&self, envoy: &str, control_plane: &str) -> bool {
        let (from, to) = self.part().split_once('>').unwrap_or((self.part(), ""));
        self.is_for_all(envoy)
            || from == control_plane && (to.is_empty() || to == "mariadb")
            || from == envoy && to == control_plane
    }
}

/// Times when an Envoy reaches no control plane.
fn cut_off(faults: &[&FaultSpan], envoy: &str) -> Vec<(Micros, Micros)> {
    let broken = |control_plane: &str| {
        let is_silent = |fault: &&&FaultSpan| {
            ![RECONFIGURED, MOVED].contains(&fault.kind.as_str()) && !fault.presses()
        };
        let faults = faults.iter().filter(is_silent);
        let faults = faults.filter(|fault| fault.is_for(envoy, control_plane));
        union(faults.map(|fault| (fault.from, fault.to.saturating_add(SLOW))))
    };
    let (one, other) = (broken("cp-0"), broken("cp-1"));
    let both = one.iter().flat_map(|a| {
        let common = other.iter().map(|b| (a.0.max(b.0), a.1.min(b.1)));
        common.filter(|(from, to)| from < to)
    });
    union(both)
}

/// Merges overlapping spans of time.
fn union(spans: impl Iterator<Item = (Micros, Micros)>) -> Vec<(Micros, Micros)> {
    let mut spans: Vec<(Micros, Micros)> = spans.collect();
    spans.sort_unstable();
    let mut union: Vec<(Micros, Micros)> = Vec::new();
    for (from, to) in spans {
        match union.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => union.push((from, to)),
        }
    }
    union
}
