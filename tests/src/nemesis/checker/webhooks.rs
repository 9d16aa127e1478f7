//! Checks that a webhook is notified of every acknowledged change of a link: at least once, signed, and with one id for
//! each event.

use super::super::history::{Ask, Event, Micros, OperationOutcome, Value, View, What};
use super::{Operation, Promise, Run, Verdict, Violation};
use std::collections::{BTreeMap, HashMap, HashSet};

/// An event by its name, the code, and the link's new value; irrelevant for a deleted link.
type Told<'a> = (&'a str, &'a str, Option<Value>);

pub(super) fn check(run: &Run, events: &[Event], verdict: &mut Verdict) {
    let is_subscribed = |event: &&Event| matches!(event.what, What::Subscribed);
    let Some(since) = events.iter().find(is_subscribed) else {
        return;
    };
    let mut arrived: HashMap<Told<'_>, HashSet<&str>> = HashMap::new();
    let mut messages = Messages::default();
    for event in events {
        let What::Delivered {
            id,
            event: name,
            code,
            value,
            status,
            ..
        } = &event.what
        else {
            continue;
        };
        messages.check(event, verdict);
        if (200..300).contains(status) {
            let value = value.filter(|_| name == CREATED || name == CHANGED);
            let ids = arrived.entry((name, code, value)).or_default();
            ids.insert(id);
        }
    }
    for (told, (count, time)) in expected(run, since.at) {
        let ids = arrived.get(&told).map_or(0, HashSet::len);
        if ids < count {
            let (name, code, value) = told;
            let value = value.map_or(String::new(), |value| format!(" as {value:?}"));
            let text = format!(
                "{name} of '{code}'{value}: {count} were acknowledged, and {ids} have arrived"
            );
            verdict.violations.push(violation(Some(code), time, text));
        }
    }
}

/// Counts the messages among the operations.
pub(super) fn count(events: &[Event], verdict: &mut Verdict) {
    for event in events {
        if let What::Delivered { event, status, .. } = &event.what {
            let outcome = match status {
                200..300 => "told",
                _ => "refused",
            };
            let key = (event.clone(), outcome.to_owned());
            *verdict.operations.entry(key).or_default() += 1;
        }
    }
}

const CREATED: &str = "link.created";
const CHANGED: &str = "link.changed";
const DELETED: &str = "link.deleted";
const REACHED: &str = "link.limit-reached";

/// The event that a kind of write raises.
fn event_of(kind: &str) -> Option<&'static str> {
    match kind {
        "create" | "restore" | "move here" => Some(CREATED),
        "change" | "rules" | "enable" | "disable" => Some(CHANGED),
        "delete" | "move" => Some(DELETED),
        _ => None,
    }
}

/// Number of events of a kind that must have arrived, and the time of the last one.
fn expected(run: &Run, since: Micros) -> BTreeMap<Told<'_>, (usize, (Micros, Micros))> {
    let mut expected = BTreeMap::new();
    for operation in run.operations.values() {
        let Some((at, told)) = told(operation) else {
            continue;
        };
        let time = (operation.invoked, at);
        if time.0 >= since && !may_be_forgotten(run, time) {
            let (count, last) = expected.entry(told).or_insert((0, time));
            (*count, *last) = (*count + 1, time);
        }
    }
    for (code, operations) in &run.by_code {
        let operations = operations.iter().map(|number| &run.operations[number]);
        let operations: Vec<&Operation> = operations.collect();
        let reached = reached(&operations);
        let reached = reached.filter(|time| time.0 >= since && !may_be_forgotten(run, *time));
        for (count, time) in (1..).zip(reached) {
            expected.insert((REACHED, code, None), (count, time));
        }
    }
    expected
}

/// A restored database loses events written since it was copied.
fn may_be_forgotten(run: &Run, time: (Micros, Micros)) -> bool {
    let mut restores = run.restores.iter();
    restores.any(|restore| time.0 <= restore.restored.1 && time.1 >= restore.copied.0)
}

/// Start and end of the time when each limit was reached, as shown by a reading before the limit was raised.
fn reached(operations: &[&Operation]) -> impl Iterator<Item = (Micros, Micros)> {
    let limits = operations
        .iter()
        .filter_map(|operation| match operation.ask {
            Ask::Limit { max, .. } => Some((operation.invoked, max)),
            _ => None,
        });
    let limits: Vec<(Micros, u64)> = limits.collect();
    let ends = limits.iter().skip(1).map(|(raised, _)| *raised);
    let ends: Vec<Micros> = ends.chain([Micros::MAX]).collect();
    limits
        .into_iter()
        .zip(ends)
        .filter_map(|((set, max), end)| {
            let seen = operations.iter().filter_map(|operation| {
                let (at, OperationOutcome::Counted { used, .. }) = operation.end.as_ref()? else {
                    return None;
                };
                (set < operation.invoked && *at < end && *used >= max).then_some(*at)
            });
            Some((set, seen.min()?))
        })
}

/// Event of an acknowledged write, and when it was acknowledged. A write that only a reading shows may be someone else's.
fn told(operation: &Operation) -> Option<(Micros, Told<'_>)> {
    let Ask::Write { kind, value, .. } = &operation.ask else {
        return None;
    };
    let Some((
        at,
        OperationOutcome::Done {
            is_answered: true, ..
        },
    )) = operation.end
    else {
        return None;
    };
    let event = event_of(kind)?;
    let value = (event != DELETED).then_some(View::Plain.of(*value));
    Some((at, (event, operation.code()?, value)))
}

/// The messages by their ids and contents.
#[derive(Default)]
struct Messages<'a> {
    by_id: HashMap<&'a str, &'a str>,
    by_digest: HashMap<&'a str, &'a str>,
}

impl<'a> Messages<'a> {
    /// Checks that a message is signed, and that its id belongs to one event.
    fn check(&mut self, event: &'a Event, verdict: &mut Verdict) {
        let What::Delivered {
            id,
            code,
            digest,
            is_signed,
            ..
        } = &event.what
        else {
            return;
        };
        let mut wrong = Vec::new();
        if !is_signed {
            wrong.push(format!("the message {id} is not signed as it should be"));
        }
        if *self.by_id.entry(id).or_insert(digest) != digest {
            wrong.push(format!("two events have the id {id}"));
        }
        let first = *self.by_digest.entry(digest).or_insert(id);
        if first != id {
            wrong.push(format!("an event has the ids {first} and {id}"));
        }
        let time = (event.at, event.at);
        let wrong = wrong.into_iter();
        let wrong = wrong.map(|text| violation(Some(code), time, text));
        verdict.violations.extend(wrong);
    }
}

fn violation(code: Option<&str>, time: (Micros, Micros), text: String) -> Violation {
    Violation {
        promise: Promise::WebhooksTold,
        code: code.map(str::to_owned),
        time,
        since: None,
        text,
    }
}
