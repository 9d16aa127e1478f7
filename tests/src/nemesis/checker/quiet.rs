//! Times when nothing is broken and everything must work.

use super::super::history::Micros;
use super::FaultSpan;

/// Time after the last fault by which everything has recovered.
pub(super) const RECOVERY: Micros = 10_000_000;
/// The fault after which the feed is silent for longer. Links are looked up meanwhile; domains stay as they are, because
/// only the feed brings them.
const SILENCING: &str = "control plane without redis";
const SILENCE: Micros = 20_000_000;

/// Faults without effect, as the manual says: they do not interrupt quiet times.
pub(super) const UNNOTICED: [&str; 2] = ["certificate rotated", "token rotated"];

/// Times without faults.
#[derive(Debug, Default)]
pub(super) struct QuietTimes {
    links: Vec<(Micros, Micros)>,
    domains: Vec<(Micros, Micros)>,
}

impl QuietTimes {
    /// Times between faults, until the end of the history.
    pub(super) fn between<'a>(
        faults: impl Iterator<Item = &'a FaultSpan> + Clone,
        end: Micros,
    ) -> Self {
        let faults = faults.filter(|fault| !UNNOTICED.contains(&fault.kind.as_str()));
        Self {
            links: between(faults.clone(), end, |_| RECOVERY),
            domains: between(faults, end, recovery_of_domains),
        }
    }

    /// True if the whole span was quiet, for a link, or for a domain: `{name}/`.
    pub(super) fn contain(&self, code: &str, from: Micros, to: Micros) -> bool {
        let times = if code.ends_with('/') {
            &self.domains
        } else {
            &self.links
        };
        let index = times.partition_point(|&(_, end)| end < to);
        times.get(index).is_some_and(|&(start, _)| start <= from)
    }
}

/// Time after a fault within which domains may be outdated.
pub(super) fn recovery_of_domains(fault: &FaultSpan) -> Micros {
    if fault.kind == SILENCING {
        SILENCE
    } else {
        RECOVERY
    }
}

fn between<'a>(
    faults: impl Iterator<Item = &'a FaultSpan>,
    end: Micros,
    recovery: impl Fn(&FaultSpan) -> Micros,
) -> Vec<(Micros, Micros)> {
    let span = |fault: &FaultSpan| (fault.from, fault.to.saturating_add(recovery(fault)));
    let mut faults: Vec<(Micros, Micros)> = faults.map(span).collect();
    faults.sort_unstable();
    let (mut quiet, mut since) = (Vec::new(), 0);
    for (from, to) in faults {
        if from > since {
            quiet.push((since, from));
        }
        since = since.max(to);
    }
    if since < end {
        quiet.push((since, end));
    }
    quiet
}
