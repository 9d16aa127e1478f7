//! The effects that faults may have, as documented: Redis is a cache, one control plane substitutes for another, an edge
//! answers known links without the database, and edges share nothing. A link is answered under any host.

use super::super::history::{Ask, Micros, OperationOutcome, Via};
use super::quiet::{RECOVERY, UNNOTICED, recovery_of_domains};
use super::{FaultSpan, Operation, Run};

/// Effect that a fault may have on an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No effect.
    Untouched,
    /// No effect, as long as it is the only fault.
    Harmless,
    /// The answer may be missing.
    Harms,
}

/// Broken part of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Redis,
    Database,
    /// The control plane with that number; all in turn if `None`.
    ControlPlane(Option<usize>),
    Envoy(usize),
    /// A control plane reaches no database.
    DatabaseOf(usize),
    /// An Envoy does not reach a control plane.
    ControlPlaneOf(usize),
    /// An Envoy does not reach Redis.
    RedisOf(usize),
    Else,
}

/// A question and its span of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) ask: &'a Ask,
    pub(super) code: &'a str,
    pub(super) via: Option<Via>,
    pub(super) time: (Micros, Micros),
}

impl<'a> Question<'a> {
    /// Question of an operation; for a write, of one of its attempts.
    pub(super) fn of(operation: &'a Operation, via: Option<Via>, time: (Micros, Micros)) -> Self {
        Self {
            ask: &operation.ask,
            code: operation.code().unwrap_or_default(),
            via: via.or_else(|| via_of(&operation.ask)),
            time,
        }
    }

    /// Faults that may still have an effect.
    pub(super) fn faults(self, run: &'a Run) -> impl Iterator<Item = &'a FaultSpan> {
        let is_domain = self.code.ends_with('/');
        run.faults.values().filter(move |fault| {
            let recovery = match (fault.presses(), is_domain) {
                (true, _) => 0,
                (false, true) => recovery_of_domains(fault),
                (false, false) => RECOVERY,
            };
            fault.from <= self.time.1 && fault.to.saturating_add(recovery) >= self.time.0
        })
    }

    /// True if the question must be answered despite the faults.
    pub(super) fn must_be_answered(self, run: &Run) -> bool {
        let effects = self.faults(run).map(|fault| self.effect(run, fault));
        let effects: Vec<Effect> = effects.filter(|one| *one != Effect::Untouched).collect();
        matches!(effects.as_slice(), [] | [Effect::Harmless])
    }

    fn effect(self, run: &Run, fault: &FaultSpan) -> Effect {
        if fault.presses() || UNNOTICED.contains(&fault.kind.as_str()) {
            return Effect::Untouched;
        }
        if self.code.ends_with('/') {
            return Effect::Harms; // domains are not looked up, they arrive by the feed
        }
        let harmless = |is_so: bool| {
            if is_so {
                Effect::Harmless
            } else {
                Effect::Harms
            }
        };
        match (fault.breaks(), self.via) {
            (_, None | Some(Via::Stray)) | (Broken::Else, _) => Effect::Harms,
            (Broken::Envoy(number), Some(via)) => {
                if via == Via::Envoy(number) {
                    Effect::Harms
                } else {
                    Effect::Untouched
                }
            }
            (Broken::RedisOf(number) | Broken::ControlPlaneOf(number), Some(via))
                if via != Via::Envoy(number) =>
            {
                Effect::Untouched
            }
            (Broken::Redis | Broken::RedisOf(_), Some(_)) => Effect::Harmless,
            (_, Some(Via::Envoy(number))) => harmless(self.is_known(run, number, fault)),
            (Broken::ControlPlane(Some(one)) | Broken::DatabaseOf(one), Some(via)) => {
                harmless(via != Via::ControlPlane(one))
            }
            (_, Some(Via::ControlPlane(_))) => Effect::Harms,
        }
    }

    /// True if that Envoy has answered for the link between the last recovery and the fault.
    fn is_known(self, run: &Run, number: usize, fault: &FaultSpan) -> bool {
        let Ask::Follow { .. } = self.ask else {
            return false;
        };
        let operations = run.by_code.get(self.code).into_iter().flatten();
        let mut operations = operations.filter_map(|number| run.operations.get(number));
        operations.any(|operation| {
            let is_here =
                matches!(operation.ask, Ask::Follow { via, .. } if via == Via::Envoy(number));
            let Some((at, OperationOutcome::Answer { .. })) = operation.end else {
                return false;
            };
            is_here && at < fault.from && run.quiet.contain(self.code, at, fault.from)
        })
    }
}

/// The part that is asked; `None` for writes, whose attempts each have their own.
fn via_of(ask: &Ask) -> Option<Via> {
    match ask {
        Ask::Read { via, .. }
        | Ask::Follow { via, .. }
        | Ask::Visit { via, .. }
        | Ask::Count { via, .. } => Some(*via),
        Ask::Write { .. } | Ask::Limit { .. } => None,
    }
}

/// Number in the name of a part of that kind.
fn number(part: &str, kind: &str) -> Option<usize> {
    part.strip_prefix(kind)?.parse().ok()
}

impl FaultSpan {
    pub(super) fn breaks(&self) -> Broken {
        match self.kind.as_str() {
            "redis refuses writes"
            | "redis is read-only"
            | "redis failover"
            | "redis older"
            | "redis empty"
            | "redis full" => Broken::Redis,
            "rolling restart" => Broken::ControlPlane(None),
            "database copied" => Broken::Database,
            "envoy reconfigured" => {
                number(self.part(), "envoy-").map_or(Broken::Else, Broken::Envoy)
            }
            "kill" | "stop" | "cut" | "refuse connections" | "delay" | "isolate" => {
                broken_part(self.part())
            }
            _ => Broken::Else,
        }
    }
}

/// Classifies a part or connection.
pub(super) fn broken_part(part: &str) -> Broken {
    let (from, to) = part.split_once('>').unwrap_or((part, ""));
    let (envoy, control_plane) = (number(from, "envoy-"), number(from, "cp-"));
    match (envoy, control_plane, to) {
        (Some(envoy), _, "") => Broken::Envoy(envoy),
        (Some(envoy), _, "redis") => Broken::RedisOf(envoy),
        (Some(envoy), _, _) => Broken::ControlPlaneOf(envoy),
        (_, Some(one), "") => Broken::ControlPlane(Some(one)),
        (_, Some(one), "mariadb") => Broken::DatabaseOf(one),
        _ if from == "mariadb" => Broken::Database,
        _ if part.contains("redis") => Broken::Redis,
        _ => Broken::Else,
    }
}
