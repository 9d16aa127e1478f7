//! Checks that counted clicks lie between the acknowledged and the served ones.

use super::super::history::{Ask, Event, OperationOutcome, Value, What};
use super::super::rollups::WrittenClicks;
use super::{Operation, Promise, Run, Verdict, Violation};
use std::collections::{HashMap, HashSet};

/// Numbers of the attributes of which each click has a value.
const LINK: u8 = 14;
const DOMAIN: u8 = 16;

pub(super) fn check(run: &Run, events: &[Event], verdict: &mut Verdict) {
    let is_clicks = |event: &&Event| matches!(event.what, What::Clicks { .. });
    let Some(event) = events.iter().rev().find(is_clicks) else {
        return;
    };
    let What::Clicks {
        counted,
        acknowledged,
        by_code,
        written,
        waiting,
        by_worker,
        by_hour,
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
    if by_worker != by_hour {
        texts.push((
            None,
            format!("workers account for {by_worker:?}, and hours for {by_hour:?}"),
        ));
    }
    texts.extend(unlike(*counted, written, *waiting).map(|text| (None, text)));
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

/// Differences between the rollups and the counts.
fn unlike(counted: u64, written: &WrittenClicks, waiting: u64) -> impl Iterator<Item = String> {
    let rest =
        (waiting > 0).then(|| format!("{waiting} reports of clicks were not written in time"));
    let sum = (waiting == 0 && written.clicks != counted).then(|| {
        format!(
            "{counted} clicks are counted, and {} written",
            written.clicks
        )
    });
    let uneven = written.uneven.iter();
    let uneven =
        uneven.map(|by| format!("by the attribute {by} there are more clicks than at all"));
    let complete = [LINK, DOMAIN].into_iter().filter_map(move |by| {
        let listed = written.by_attribute.iter().find(|(each, _)| *each == by);
        let listed = listed.map_or(0, |(_, clicks)| *clicks);
        (listed != written.clicks).then(|| {
            format!(
                "{} clicks are written, and {listed} by the attribute {by}",
                written.clicks
            )
        })
    });
    rest.into_iter().chain(sum).chain(uneven).chain(complete)
}

/// Upper bound of redirects by code: those received, and requests without an answer.
fn served(run: &Run) -> HashMap<&str, u64> {
    let mut served = HashMap::new();
    let expired: HashSet<u64> = run.operations.values().filter_map(expired).collect();
    let is_click =
        |value: &Value| matches!(value, Value::Target(target) if !expired.contains(target));
    for operation in run.operations.values() {
        let (Ask::Follow { code, .. } | Ask::Visit { code, .. }) = &operation.ask else {
            continue;
        };
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

/// Target of visitors of a used-up link, whose redirects are no clicks.
fn expired(operation: &Operation) -> Option<u64> {
    match operation.ask {
        Ask::Limit { expired, .. } => expired,
        _ => None,
    }
}
