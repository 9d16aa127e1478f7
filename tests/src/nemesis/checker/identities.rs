//! Checks that the database assigns an id only once: after reuse, references to the old id would point to another entity.

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
