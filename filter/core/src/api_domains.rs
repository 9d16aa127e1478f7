//! Domains that were made by the API, and what all domains have of their own ([`DomainTargets`]).
//!
//! A snapshot has all of them, as records of keys that no link can have ([`edgelink_wire::domain_record`]), and the feed brings
//! each change. Like admission, that is complete only together with a feed that has missed nothing since the snapshot. What is
//! known is kept in any case: a domain stays in effect until it is known to have gone.
//!
//! A host that is none of the domains is an unknown one only while that is complete and the feed was read lately. Before the
//! first snapshot its requests wait for it; while the feed is silent they get 503.

use crate::admission::FeedPlace;
use crate::flights::{StreamId, Waiter};
use crate::time::Moment;
use edgelink_wire::domain::without_defaults;
use edgelink_wire::domain_record::{MAX_DOMAIN_RECORDS, domain_of_key};
use edgelink_wire::{DomainTargets, Record, Snapshot};
use std::cmp::Ordering;

/// The most domains that are kept, those that have gone included. With more, another snapshot is needed.
const MAX_KEPT: usize = 4 * MAX_DOMAIN_RECORDS;

/// The oldest that a snapshot may be when it comes, in milliseconds: the control plane sends one again within a second.
const SNAPSHOT_AGE_MILLIS: u64 = 2_000;

/// How long a request waits for a snapshot, in milliseconds.
const MAX_WAIT_MILLIS: u64 = 2_000;

/// The domains, as far as they are known.
#[derive(Debug)]
pub(crate) struct ApiDomains {
    is_on: bool,
    /// In the order of their names.
    known: Vec<ApiDomain>,
    state: State,
    /// When a snapshot or the feed has last said that this is complete; `None` before.
    confirmed: Option<Moment>,
    waiting: Vec<(Waiter, Moment)>,
    /// Whether those who wait are to be answered, though no snapshot has come.
    has_failed: bool,
}

/// A domain.
#[derive(Debug)]
struct ApiDomain {
    name: Box<str>,
    rev: u64,
    /// `None` if the domain has gone.
    targets: Option<DomainTargets<Box<str>>>,
    /// Whether the feed has said so since the last snapshot was wanted, which may be older.
    is_fed: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A snapshot is needed that is not older than `since`; `None` before that is known.
    Incomplete {
        since: Option<FeedPlace>,
    },
    Complete,
}

/// What is known of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostState<'a> {
    /// It is this domain.
    Domain(&'a str),
    /// It is none of the domains.
    Unknown,
    /// A snapshot will say.
    Awaited,
    /// The feed is silent: it may be one that was made meanwhile.
    Doubtful,
}

impl ApiDomains {
    /// None yet; for ever unless `is_on`.
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            is_on,
            known: Vec::new(),
            state: State::Incomplete { since: None },
            confirmed: None,
            waiting: Vec::new(),
            has_failed: false,
        }
    }

    /// Switches them on or off.
    pub(crate) fn configure(&mut self, is_on: bool) {
        if !is_on {
            self.known.clear();
            self.restart();
            self.has_failed = true;
        }
        self.is_on = is_on;
    }

    /// Whether there are such domains.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// What is known of a host that is no configured domain. Complete knowledge counts for `lasts_millis` without the feed.
    pub(crate) fn find(&self, host: &[u8], now: Moment, lasts_millis: u64) -> HostState<'_> {
        let named = self.get(host).or_else(|| self.get(without_defaults(host)));
        if let Some(domain) = named.filter(|domain| domain.targets.is_some()) {
            return HostState::Domain(&domain.name);
        }
        let is_recent = |at: Moment| at.age(now) < lasts_millis;
        match self.state {
            State::Incomplete { .. } => HostState::Awaited,
            State::Complete if self.confirmed.is_some_and(is_recent) => HostState::Unknown,
            State::Complete => HostState::Doubtful,
        }
    }

    /// The targets of the domain in the key of a link; `None` if it has none.
    pub(crate) fn targets_of_key(&self, key: &[u8]) -> Option<&DomainTargets<Box<str>>> {
        if self.known.is_empty() {
            return None;
        }
        let domain = key.split(|byte| *byte == b'/').next()?;
        self.targets(domain)
    }

    /// The targets of a domain; `None` if it has none.
    pub(crate) fn targets(&self, domain: &[u8]) -> Option<&DomainTargets<Box<str>>> {
        self.get(domain)?.targets.as_ref()
    }

    fn get(&self, host: &[u8]) -> Option<&ApiDomain> {
        let place = self.place(host).ok()?;
        self.known.get(place)
    }

    fn place(&self, host: &[u8]) -> Result<usize, usize> {
        self.known
            .binary_search_by(|domain| compare(domain.name.as_bytes(), host))
    }

    /// The record of a domain has come by the feed.
    pub(crate) fn on_change(&mut self, name: &str, record: &Record<&str>) {
        if !self.is_on {
            return;
        }
        if self.known.len() >= MAX_KEPT {
            self.restart();
        }
        self.put(name, record, true);
    }

    /// Puts a record in, unless a newer one is known.
    fn put(&mut self, name: &str, record: &Record<&str>, is_fed: bool) {
        let targets = DomainTargets::of_record(record);
        let domain = ApiDomain {
            name: name.into(),
            rev: record.rev(),
            targets: targets.map(|targets| targets.map(|target| Box::from(*target))),
            is_fed,
        };
        match self.place(name.as_bytes()) {
            Err(place) => self.known.insert(place, domain),
            Ok(place) => {
                if let Some(known) = self.known.get_mut(place) {
                    known.is_fed |= is_fed;
                    if known.rev <= domain.rev {
                        let is_fed = known.is_fed;
                        *known = ApiDomain { is_fed, ..domain };
                    }
                }
            }
        }
    }

    /// Changes may have been missed, or were not understood.
    pub(crate) fn restart(&mut self) {
        self.state = State::Incomplete { since: None };
        self.known.retain(|domain| domain.targets.is_some());
        for domain in &mut self.known {
            domain.is_fed = false;
        }
    }

    /// The feed was read up to `place`, and nothing after it will be missed.
    pub(crate) fn begin(&mut self, place: FeedPlace) {
        if let State::Incomplete { since } = &mut self.state {
            since.get_or_insert(place);
        }
    }

    /// The feed was read up to `read_until`.
    pub(crate) fn on_time(&mut self, read_until: Option<Moment>) {
        self.confirmed = self.confirmed.max(read_until);
    }

    /// Whether a snapshot would be of use.
    pub(crate) fn wants_snapshot(&self) -> bool {
        self.is_on && matches!(self.state, State::Incomplete { since: Some(_) })
    }

    /// Applies a snapshot. Not if it is older than what was read of the feed, or of another generation.
    pub(crate) fn apply_snapshot(&mut self, snapshot: &Snapshot<'_>, now: Moment) {
        let State::Incomplete { since: Some(since) } = self.state else {
            return;
        };
        let is_older = snapshot.position < since.position;
        if !self.is_on || snapshot.generation != since.generation || is_older {
            return;
        }
        self.known.retain(|domain| domain.is_fed);
        for entry in &snapshot.hot {
            let key = std::str::from_utf8(entry.key).ok();
            if let Some(name) = key.and_then(domain_of_key) {
                self.put(name, &entry.record, false);
            }
        }
        self.state = State::Complete;
        self.confirmed = self.confirmed.max(Some(now.before(SNAPSHOT_AGE_MILLIS)));
    }

    /// Makes a request wait; `false` if `most` wait already.
    pub(crate) fn wait(&mut self, waiter: Waiter, now: Moment, most: usize) -> bool {
        let has_room = self.waiting.len() < most;
        if has_room {
            self.waiting.push((waiter, now));
        }
        has_room
    }

    /// A stream has ended.
    pub(crate) fn leave(&mut self, stream: StreamId) {
        if !self.waiting.is_empty() {
            self.waiting.retain(|(waiter, _)| waiter.stream != stream);
        }
    }

    /// No snapshot has come: those who wait for one need not wait any longer.
    pub(crate) fn on_failure(&mut self) {
        self.has_failed = true;
    }

    /// Those whose requests can be decided now, or have waited for long enough.
    pub(crate) fn take_waiting(&mut self, now: Moment) -> Vec<Waiter> {
        let has_failed = std::mem::take(&mut self.has_failed);
        let is_due = has_failed || matches!(self.state, State::Complete);
        let is_ready =
            |(_, since): &mut (Waiter, Moment)| is_due || since.age(now) >= MAX_WAIT_MILLIS;
        let ready = self.waiting.extract_if(.., is_ready);
        ready.map(|(waiter, _)| waiter).collect()
    }
}

/// Orders a name in lower case and a host in any case.
fn compare(name: &[u8], host: &[u8]) -> Ordering {
    let host = host.iter().map(u8::to_ascii_lowercase);
    name.iter().copied().cmp(host)
}

#[cfg(test)]
mod tests;
