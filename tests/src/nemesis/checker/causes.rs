//! Finds why a change is late while nothing is broken, from the log lines about its stages: acknowledged, published, read
//! by control planes, applied by edges.

use super::super::history::{Micros, Step};
use super::verdict::{Cause, LATE, LateChange};
use super::{Logged, Run};
use crate::scenario::DOMAIN;

/// Longest time between the first stage of a change and its acknowledgement.
const BEFORE: Micros = 6_000_000;
/// Time before a change within which an event may still delay it.
const SOON: Micros = 2_000_000;

pub(super) fn of(run: &Run, change: &LateChange) -> Cause {
    let way = Way::of(run, change);
    let Some(published) = way.published else {
        return Cause::Else; // no log mentions it
    };
    if published.at > change.at {
        return way.published_late(published);
    }
    if way.read.iter().any(|at| *at > change.at) || way.read.is_empty() {
        return Cause::Reconnecting;
    }
    match way.failing_poll() {
        Some(why) if why.contains("503") && way.is_refused("behind") => Cause::ReplicaBehind,
        Some(_) => Cause::EdgePaused,
        None if way.is_not_awaited() => Cause::NotAwaited,
        None => Cause::Else,
    }
}

/// True if it was answered because every worker of an edge had acknowledged it, or had lost its lease.
pub(super) fn was_acknowledged(run: &Run, change: &LateChange) -> bool {
    let way = Way::of(run, change);
    way.is_answered(&["acknowledged", "expired"])
}

/// Stages of a change.
struct Way<'a> {
    change: &'a LateChange,
    /// Log from a while before the change to the last old answer.
    log: &'a [Logged],
    invoked: Micros,
    published: Option<&'a Logged>,
    /// Times at which control planes read it.
    read: Vec<Micros>,
    /// Outcomes of waits for it.
    waits: Vec<&'a str>,
}

impl<'a> Way<'a> {
    fn of(run: &'a Run, change: &'a LateChange) -> Self {
        let key = if change.code.contains('/') {
            change.code.clone()
        } else {
            format!("{DOMAIN}/{}", change.code)
        };
        let operations = run.by_code.get(&change.code).into_iter().flatten();
        let mut operations = operations.filter_map(|number| run.operations.get(number));
        let write = operations.find(|one| one.end.as_ref().is_some_and(|(at, _)| *at == change.at));
        let invoked = write.map_or(change.at, |write| write.invoked);
        let log = between(
            &run.logged,
            change.at.saturating_sub(BEFORE),
            change.at + change.age + SOON,
        );
        let since = log.iter().filter(|one| one.at >= invoked);
        let mut published = since
            .clone()
            .filter(|one| matches!(&one.step, Step::Published { key: of, .. } if *of == key));
        let read = since
            .clone()
            .filter(|one| matches!(&one.step, Step::Read { key: of } if *of == key));
        let waits = since.clone().filter_map(|one| match &one.step {
            Step::Acknowledged { key: of, wait } if *of == key => Some(wait.as_str()),
            _ => None,
        });
        Self {
            change,
            log,
            invoked,
            published: published.next(),
            read: read.map(|one| one.at).collect(),
            waits: waits.collect(),
        }
    }

    /// True if a wait for it had one of these outcomes.
    fn is_answered(&self, outcomes: &[&str]) -> bool {
        self.waits.iter().any(|wait| outcomes.contains(wait))
    }

    /// True if it was answered without waiting for edges.
    fn is_not_awaited(&self) -> bool {
        self.is_answered(&["not_current"])
    }

    /// Finds why it was published only after it was acknowledged.
    fn published_late(&self, published: &Logged) -> Cause {
        let since = between(self.log, self.invoked.saturating_sub(SOON), published.at);
        let has = |is_it: fn(&Step) -> bool| since.iter().any(|one| is_it(&one.step));
        if has(|step| *step == Step::LeaseChanged) {
            return Cause::LeaseGivenUp;
        }
        let Step::Published {
            woken,
            store_millis,
            redis_millis,
            ..
        } = &published.step
        else {
            return Cause::Else;
        };
        let waits = (*store_millis).max(*redis_millis);
        match woken.as_str() {
            _ if waits * 1000 >= LATE && store_millis >= redis_millis => Cause::StoreQueue,
            _ if waits * 1000 >= LATE => Cause::Reconnecting,
            "poll" => Cause::NudgeLost,
            _ if self.is_not_awaited() => Cause::NotAwaited,
            _ => Cause::Else,
        }
    }

    /// Error of the edge's last poll, if that had failed when the change was published.
    fn failing_poll(&self) -> Option<&'a str> {
        let until = self.change.at + self.change.age;
        let edge = self.change.via.to_string();
        let lines = between(self.log, 0, until);
        let lines = lines.iter().rev().filter(|one| one.part == edge);
        lines
            .filter_map(|one| match &one.step {
                Step::PollFailed { why } => Some(Some(why.as_str())),
                // Polls work since then, and had failed until shortly before.
                Step::PollWorks if one.at < self.invoked => Some(None),
                _ => None,
            })
            .next()
            .flatten()
    }

    fn is_refused(&self, word: &str) -> bool {
        let says =
            |one: &Logged| matches!(&one.step, Step::PollRefused { why } if why.contains(word));
        self.log.iter().any(says)
    }
}

/// Lines of a log within a span of time.
fn between(log: &[Logged], from: Micros, to: Micros) -> &[Logged] {
    let start = log.partition_point(|one| one.at < from);
    let end = log.partition_point(|one| one.at <= to);
    log.get(start..end).unwrap_or_default()
}
