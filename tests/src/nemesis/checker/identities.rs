//! Whether the database gives an id once: what stands elsewhere under an id that was given again belongs to another one then.

use super::super::history::{Event, What};
use super::{Promise, Verdict, Violation};
use std::collections::HashMap;

pub(super) fn check(events: &[Event], verdict: &mut Verdict) {
    let mut given: HashMap<(&str, u64), &str> = HashMap::new();
    for event in events {
        let What::Identified { kind, id, name } = &event.what else {
            continue;
        };
        let first = *given.entry((kind, *id)).or_insert(name);
        if first != name {
            verdict.violations.push(Violation {
                promise: Promise::NothingTwice,
                code: None,
                time: (event.at, event.at),
                since: None,
                text: format!("the {kind} '{name}' has the id {id}, which '{first}' had"),
            });
        }
    }
}
