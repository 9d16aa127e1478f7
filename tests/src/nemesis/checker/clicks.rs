//! Whether clicks are counted between those acknowledged and those served.

use super::super::history::{Ask, Event, OperationOutcome, Value, Via, What};
use super::{Operation, Promise, Run, Verdict, Violation};
use std::collections::{HashMap, HashSet};

pub(super) fn check(run: &Run, events: &[Event], verdict: &mut Verdict) {
    let is_clicks = |event: &&Event| matches!(event.what, What::Clicks { .. });
    let Some(event) = events.iter().rev().find(is_clicks) else {
        return;
    };
    let What::Clicks {
        counted,
        acknowledged,
        by_code,
    } = &event.what
    else {
        return;
    };
    let served = served(run);
    let mut texts = Vec::new();
    let most: u64 = served.values().sum();
    if counted > &most {
        texts.push((
            None,
            format!("{counted} clicks are counted, and at most {most} redirects were served"),
        ));
    }
    if counted < acknowledged {
        texts.push((
            None,
            format!("{counted} clicks are counted, and {acknowledged} were acknowledged"),
        ));
    }
    for (code, clicks) in by_code {
        let most = served.get(code.as_str()).copied().unwrap_or(0);
        if *clicks > most {
            texts.push((
                Some(code.clone()),
                format!("'{code}' has {clicks} clicks, and at most {most} redirects"),
            ));
        }
    }
    for (code, text) in texts {
        verdict.violations.push(Violation {
            promise: Promise::ClicksCounted,
            code,
            time: (event.at, event.at),
            since: None,
            text,
        });
    }
}

/// By code, how many redirects Envoys may have sent: those that came, and those of which no answer came.
fn served(run: &Run) -> HashMap<&str, u64> {
    let mut served = HashMap::new();
    let expired: HashSet<u64> = run.operations.values().filter_map(expired).collect();
    let is_click =
        |value: &Value| matches!(value, Value::Target(target) if !expired.contains(target));
    for operation in run.operations.values() {
        let (Ask::Follow { code, via, .. } | Ask::Visit { code, via }) = &operation.ask else {
            continue;
        };
        if !matches!(via, Via::Envoy(_)) {
            continue;
        }
        let may_be_redirect = match &operation.end {
            Some((_, OperationOutcome::Answer { value, .. })) => is_click(value),
            Some((_, OperationOutcome::NoAnswer { .. } | OperationOutcome::Unknown)) | None => true,
            Some(_) => false,
        };
        if may_be_redirect {
            *served.entry(code.as_str()).or_default() += 1;
        }
    }
    served
}

/// Where visitors of a link are sent once it is over, which is no click.
fn expired(operation: &Operation) -> Option<u64> {
    match operation.ask {
        Ask::Limit { expired, .. } => expired,
        _ => None,
    }
}
