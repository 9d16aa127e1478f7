//! How many blocks of visits may have been lost, by what was broken: those of workers that were killed or reached no control
//! plane for longer than their lease and its grace, and all of them when the clock that leases are measured by was moved.

use super::super::deployment::{VISITS_GRACE, VISITS_LEASE};
use super::super::history::Micros;
use super::{FaultSpan, Run};

/// So long after a fault a part may still start, or connect.
const SLOW: Micros = 4_000_000;

/// From `from` to `to`, for so many Envoys of so many workers.
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
        let moves = |fault: &&&FaultSpan| fault.kind == "clock moved" && fault.part() == "mariadb";
        // There and back.
        let clocks = 2 * faults.iter().filter(moves).count() as u64;
        let patience = u64::try_from((VISITS_LEASE + VISITS_GRACE).as_micros()).unwrap_or(1);
        let silences = cut_off(&faults, &name).into_iter();
        let silences: u64 = silences.map(|(from, to)| (to - from) / patience).sum();
        workers * (kills + clocks + silences)
    });
    lost.sum()
}

impl FaultSpan {
    /// The part or connection that is broken.
    fn part(&self) -> &str {
        let part = self.detail.split([' ', ';']).next();
        part.unwrap_or_default()
    }

    /// Whether an Envoy reaches no control plane meanwhile that reaches the database.
    fn is_for_all(&self, envoy: &str) -> bool {
        let kinds = [
            "database restored",
            "rolling restart",
            "control plane without redis",
        ];
        kinds.contains(&self.kind.as_str()) || [envoy, "mariadb"].contains(&self.part())
    }

    /// Whether it does not reach that control plane.
    fn is_for(&self, envoy: &str, control_plane: &str) -> bool {
        let (from, to) = self.part().split_once('>').unwrap_or((self.part(), ""));
        self.is_for_all(envoy)
            || from == control_plane && (to.is_empty() || to == "mariadb")
            || from == envoy && to == control_plane
    }
}

/// When an Envoy reaches no control plane.
fn cut_off(faults: &[&FaultSpan], envoy: &str) -> Vec<(Micros, Micros)> {
    let broken = |control_plane: &str| {
        let faults = faults.iter();
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

/// Spans of time as few that do not meet.
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
