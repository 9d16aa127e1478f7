//! Checks that links keep to their limit of visits: the served ones are at most the limit plus a block for each lost
//! worker; the counted ones were served; and once all are used and none is leased, none is served any more.

use super::super::deployment::{ENVOYS, MAX_BLOCK, WORKERS};
use super::super::history::{Ask, Micros, OperationOutcome, Purpose, Value, Via};
use super::losses::losses;
use super::{Operation, Promise, Run, Verdict, Violation, WINDOW};

/// Longest time for which blocks leased before a restore of the database are still spent.
const SPENT: Micros = 4_000_000;

pub(super) fn check(run: &Run, verdict: &mut Verdict) {
    let mut codes: Vec<&String> = run.by_code.keys().collect();
    codes.sort_unstable();
    for code in codes {
        let numbers = run.by_code[code].iter();
        let operations: Vec<&Operation> = numbers.map(|number| &run.operations[number]).collect();
        let limited = Limited::of(run, code, &operations);
        let Some(limited) = limited else { continue };
        for (promise, time, text) in limited.check() {
            verdict.violations.push(Violation {
                promise,
                code: Some(code.clone()),
                time,
                since: None,
                text,
            });
        }
    }
}

type Wrong = (Promise, (Micros, Micros), String);

/// A link that has a limit.
struct Limited<'a> {
    run: &'a Run,
    code: &'a str,
    target: u64,
    expired: Option<u64>,
    /// Each limit: when it was requested, and its value.
    limits: Vec<(Micros, u64)>,
    /// Time when the creation of the link was acknowledged.
    created: Option<Micros>,
    visits: Vec<&'a Operation>,
    counts: Vec<&'a Operation>,
}

impl<'a> Limited<'a> {
    /// `None` if the code has no limit.
    fn of(run: &'a Run, code: &'a str, operations: &[&'a Operation]) -> Option<Self> {
        let mut limited = Self {
            run,
            code,
            target: 0,
            expired: None,
            limits: Vec::new(),
            created: None,
            visits: Vec::new(),
            counts: Vec::new(),
        };
        for &operation in operations {
            match operation.ask {
                Ask::Limit {
                    target,
                    max,
                    expired,
                    ..
                } => {
                    (limited.target, limited.expired) = (target, expired);
                    limited.limits.push((operation.invoked, max));
                    if let Some((at, OperationOutcome::Done { .. })) = operation.end {
                        limited.created.get_or_insert(at);
                    }
                }
                Ask::Visit { .. } => limited.visits.push(operation),
                Ask::Count { .. } => limited.counts.push(operation),
                _ => {}
            }
        }
        (!limited.limits.is_empty()).then_some(limited)
    }

    fn check(&self) -> Vec<Wrong> {
        let mut wrong = self.kind_of_answers();
        wrong.extend(self.served_at_most());
        wrong.extend(self.first_refused());
        wrong.extend(self.counts.iter().filter_map(|count| self.counted(count)));
        wrong.extend(
            self.visits
                .iter()
                .filter_map(|visit| self.after_the_end(visit)),
        );
        wrong
    }

    /// Largest limit requested until then.
    fn max(&self, until: Micros) -> u64 {
        let until = self.limits.iter().filter(|(at, _)| *at <= until);
        until.map(|(_, max)| *max).max().unwrap_or_default()
    }

    /// An existing link leads to its target, or is used up.
    fn kind_of_answers(&self) -> Vec<Wrong> {
        let wrong = self.visits.iter().filter_map(|visit| {
            let (at, OperationOutcome::Answer { value, .. }) = visit.end.as_ref()? else {
                return None;
            };
            if self.is_target(visit) && is_prefetch(visit) {
                let text = format!("a prefetch of '{}' was answered with its target", self.code);
                return Some((Promise::LimitsKept, (visit.invoked, *at), text));
            }
            let promise = match value {
                Value::Target(target) if *target == self.target => return None,
                Value::Target(expired) if Some(*expired) == self.expired => return None,
                Value::Disabled if self.expired.is_none() => return None,
                Value::Absent if !self.must_be_there(visit) => return None,
                Value::Absent | Value::Disabled => Promise::NothingMissing,
                _ => Promise::NothingOld,
            };
            let text = format!("'{}' was answered with {value:?}", self.code);
            Some((promise, (visit.invoked, *at), text))
        });
        wrong.collect()
    }

    fn must_be_there(&self, visit: &Operation) -> bool {
        let Some(created) = self.created else {
            return false;
        };
        let asked = self.limits.first().map_or(created, |(at, _)| *at);
        let ended = visit.end.as_ref().map_or(Micros::MAX, |(at, _)| *at);
        let mut restores = self.run.restores.iter();
        // The copy was made before the link and restored after its creation began, before the visit ended.
        let is_forgotten = restores.any(|restore| {
            let (since, until) = restore.restored;
            restore.copied.0 <= created && until >= asked && since <= ended
        });
        created + WINDOW < visit.invoked && !is_forgotten
    }

    fn served_at_most(&self) -> Option<Wrong> {
        let served: Vec<&&Operation> = self
            .visits
            .iter()
            .filter(|visit| self.is_served(visit))
            .collect();
        let (first, last) = (served.first()?.invoked, served.last()?.invoked);
        let forgotten = served
            .iter()
            .filter(|visit| self.is_forgotten(visit))
            .count() as u64;
        // A block is at most the whole limit.
        let block = MAX_BLOCK.min(self.max(Micros::MAX));
        let lost = losses(self.run, first, last, (ENVOYS, WORKERS)) * block;
        let most = self.max(Micros::MAX) + lost + forgotten;
        let served = served.len() as u64;
        (served > most).then(|| {
            let text = format!(
                "'{}' was served {served} times; right are {} and {lost} of workers that were lost, \
                 and {forgotten} that a restored database has forgotten",
                self.code,
                self.max(Micros::MAX)
            );
            (Promise::LimitsKept, (first, last), text)
        })
    }

    /// Finds a first visit that is refused as if the limit were already used up.
    fn first_refused(&self) -> Option<Wrong> {
        let first = self.visits.iter().min_by_key(|visit| visit.invoked)?;
        let (at, OperationOutcome::Answer { value, .. }) = first.end.as_ref()? else {
            return None;
        };
        let expired = self.expired.map(Value::Target);
        let is_refused = *value == Value::Disabled || Some(*value) == expired;
        is_refused.then(|| {
            let text = format!("'{}' was used up before its first visit", self.code);
            (Promise::LimitsKept, (first.invoked, *at), text)
        })
    }

    /// True if a restored database may have lost a visit.
    fn is_forgotten(&self, visit: &Operation) -> bool {
        self.run.restores.iter().any(|restore| {
            let (from, to) = (restore.copied.0, restore.restored.1 + SPENT);
            // The uses of a block are reported later.
            visit.invoked + SPENT >= from && visit.invoked <= to
        })
    }

    /// Checks that counted visits were served, or may have been.
    fn counted(&self, count: &Operation) -> Option<Wrong> {
        let (at, OperationOutcome::Counted { used, .. }) = count.end.as_ref()? else {
            return None;
        };
        let may_be_served = |visit: &&&Operation| visit.invoked <= *at && self.may_be_served(visit);
        let most = self.visits.iter().filter(may_be_served).count() as u64;
        (*used > most).then(|| {
            let text = format!("'{}' has used {used} visits, of {most} at most", self.code);
            (Promise::LimitsKept, (count.invoked, *at), text)
        })
    }

    /// Finds a visit served after all were used up without a raised limit.
    fn after_the_end(&self, visit: &Operation) -> Option<Wrong> {
        let ended = visit.end.as_ref().map(|(at, _)| *at)?;
        let over = self.counts.iter().find(|count| {
            let Some((at, OperationOutcome::Counted { used, leased: 0 })) = count.end else {
                return false;
            };
            at < visit.invoked && used >= self.max(ended)
        })?;
        let is_restored = |from| {
            let mut restores = self.run.restores.iter();
            restores.any(|restore| restore.restored.1 >= from)
        };
        (self.is_served(visit) && !is_restored(over.invoked)).then(|| {
            let text = format!("'{}' was served after all its visits were used", self.code);
            (Promise::LimitsKept, (visit.invoked, ended), text)
        })
    }

    /// True if it was sent to the target, which uses a visit. A prefetch must not be.
    fn is_served(&self, visit: &Operation) -> bool {
        self.is_target(visit) && !is_prefetch(visit)
    }

    fn is_target(&self, visit: &Operation) -> bool {
        let answer = |value| value == Value::Target(self.target);
        matches!(visit.end, Some((_, OperationOutcome::Answer { value, .. })) if answer(value))
    }

    /// True if it was served, or may have been taken without an answer that shows it: a control plane answers 503 if the
    /// database does not report in time whether the visit was taken.
    fn may_be_served(&self, visit: &Operation) -> bool {
        let is_by_edge = matches!(
            visit.ask,
            Ask::Visit {
                via: Via::Envoy(_),
                ..
            }
        );
        if is_prefetch(visit) {
            return false;
        }
        match &visit.end {
            None | Some((_, OperationOutcome::NoAnswer { .. } | OperationOutcome::Unknown)) => true,
            Some((_, OperationOutcome::Unavailable { .. })) => !is_by_edge,
            _ => self.is_served(visit),
        }
    }
}

/// True if it uses no visit.
fn is_prefetch(visit: &Operation) -> bool {
    matches!(
        visit.ask,
        Ask::Visit {
            purpose: Purpose::Prefetch,
            ..
        }
    )
}
