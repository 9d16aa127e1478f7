//! Domains created through the API, and the targets of all domains ([`DomainTargets`]).
//!
//! A snapshot has all of them, as records of keys that no link can have ([`edgelink_wire::domain_record`]), and the feed brings
//! each change. As with admission, the list is complete only together with a feed that has missed nothing since the snapshot.
//! Known domains are kept in any case: a domain stays in effect until its removal is known.
//!
//! A host that is none of the domains counts as unknown only while the list is complete and the feed was read recently.
//! Otherwise it is looked up at the control plane ([`crate::edge`]); absent hosts are kept in the caches, and if the control
//! plane does not answer, the list that was complete before is used as stale.

use crate::admission::FeedPlace;
use crate::flights::{StreamId, Waiter};
use crate::freshness::Lifetimes;
use crate::time::Moment;
use edgelink_wire::domain::without_defaults;
use edgelink_wire::domain_record::{MAX_DOMAIN_RECORDS, domain_of_key, domain_of_record};
use edgelink_wire::domain_set::FoldedHost;
use edgelink_wire::{DomainTargets, Record, Snapshot};
use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

/// Maximum number of domains kept, removed ones included. With more, another snapshot is needed.
const MAX_KEPT: usize = 4 * MAX_DOMAIN_RECORDS;

/// Maximum age of a snapshot on arrival, in milliseconds: the control plane sends the same snapshot for up to a second.
const SNAPSHOT_AGE_MILLIS: u64 = 2_000;

/// Maximum time a request waits for a snapshot, in milliseconds.
const MAX_WAIT_MILLIS: u64 = 2_000;

/// The known domains.
#[derive(Debug)]
pub(crate) struct ApiDomains {
    is_on: bool,
    /// By their names.
    known: HashMap<Box<str>, ApiDomain, SeedableRandomState>,
    state: Completeness,
    /// Moment up to which the feed was last read.
    read_until: Option<Moment>,
    /// Last moment at which the list was known to be complete; `None` if it never was.
    confirmed: Option<Moment>,
    waiting: Vec<(Waiter, Moment)>,
    /// Set if waiting requests are to be answered although no snapshot has arrived.
    has_failed: bool,
    /// Moment of the control plane's last failure to answer for a host.
    unanswered: Option<Moment>,
}

/// A domain.
#[derive(Debug)]
struct ApiDomain {
    rev: u64,
    /// `None` if the domain was removed.
    targets: Option<DomainTargets<Box<str>>>,
    /// Set if this came by the feed since a snapshot became necessary; the snapshot may be older.
    is_fed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Completeness {
    /// A snapshot is needed that is not older than `since`; `None` before that is known.
    Incomplete {
        since: Option<FeedPlace>,
    },
    Complete,
}

/// Result of looking a host up among the domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostState<'a> {
    /// The host names this domain.
    Domain(&'a str),
    /// The host names none of the domains.
    Unknown,
    /// The host named none of the domains when the list was last complete; such a domain may have been created since.
    Doubtful,
    /// The list was never complete, or too long ago.
    Awaited,
}

impl ApiDomains {
    /// An empty list, which stays empty unless `is_on`.
    pub(crate) fn new(is_on: bool, hasher: SeedableRandomState) -> Self {
        Self {
            is_on,
            known: HashMap::with_hasher(hasher),
            state: Completeness::Incomplete { since: None },
            read_until: None,
            confirmed: None,
            waiting: Vec::new(),
            has_failed: false,
            unanswered: None,
        }
    }

    /// Switches them on or off.
    pub(crate) fn configure(&mut self, is_on: bool) {
        if !is_on {
            self.known.clear();
            self.restart();
            self.confirmed = None;
            self.has_failed = true;
        }
        self.is_on = is_on;
    }

    /// True if domains of the API are in use.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Looks up a host that is no configured domain. Without the feed, a complete list stays usable for as long as a link is fresh,
    /// and stale for as long as a link is.
    pub(crate) fn find(&self, host: &[u8], now: Moment, lifetimes: &Lifetimes) -> HostState<'_> {
        if let Some(name) = self.name_of(host) {
            return HostState::Domain(name);
        }
        let age = self.confirmed.map_or(u64::MAX, |at| at.age(now));
        match self.state {
            Completeness::Complete if age < lifetimes.fresh_millis => HostState::Unknown,
            _ if age < lifetimes.stale_millis => HostState::Doubtful,
            _ => HostState::Awaited,
        }
    }

    /// The domain that a host names.
    fn name_of(&self, host: &[u8]) -> Option<&str> {
        let folded = FoldedHost::of(host)?;
        let host = folded.as_bytes();
        let named = self.get(host).or_else(|| self.get(without_defaults(host)));
        let (name, _) = named.filter(|(_, domain)| domain.targets.is_some())?;
        Some(name)
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
        self.get(domain)?.1.targets.as_ref()
    }

    fn get(&self, name: &[u8]) -> Option<(&str, &ApiDomain)> {
        let name = std::str::from_utf8(name).ok()?;
        let (name, domain) = self.known.get_key_value(name)?;
        Some((name, domain))
    }

    /// The record of a domain has come by the feed.
    pub(crate) fn on_change(&mut self, name: &str, record: &Record<&str>) {
        if !self.is_on {
            return;
        }
        if self.known.len() >= MAX_KEPT {
            self.restart();
        }
        self.put(name, record, RecordSource::Feed);
    }

    /// The control plane has answered a lookup of a host with the record of the domain that the host names.
    pub(crate) fn on_asked(&mut self, record: &Record<&str>) {
        if let Some(name) = domain_of_record(record)
            && self.is_on
            && self.known.len() < MAX_KEPT
        {
            self.put(name, record, RecordSource::Other);
        }
        self.unanswered = None;
    }

    /// Puts a record in, unless a newer one is known.
    fn put(&mut self, name: &str, record: &Record<&str>, source: RecordSource) {
        let targets = DomainTargets::of_record(record);
        let domain = ApiDomain {
            rev: record.rev(),
            targets: targets.map(|targets| targets.map(|target| Box::from(*target))),
            is_fed: source == RecordSource::Feed,
        };
        match self.known.get_mut(name) {
            None => drop(self.known.insert(name.into(), domain)),
            Some(known) => {
                known.is_fed |= domain.is_fed;
                if known.rev <= domain.rev {
                    let is_fed = known.is_fed;
                    *known = ApiDomain { is_fed, ..domain };
                }
            }
        }
    }

    /// Changes may have been missed, or were not understood.
    pub(crate) fn restart(&mut self) {
        self.state = Completeness::Incomplete { since: None };
        self.known.retain(|_, domain| domain.targets.is_some());
        for domain in self.known.values_mut() {
            domain.is_fed = false;
        }
    }

    /// The feed was read up to `place`, and nothing after it will be missed.
    pub(crate) fn begin(&mut self, place: FeedPlace) {
        if let Completeness::Incomplete { since } = &mut self.state {
            since.get_or_insert(place);
        }
    }

    /// The feed was read up to `read_until`.
    pub(crate) fn on_time(&mut self, read_until: Option<Moment>) {
        self.read_until = read_until;
        if matches!(self.state, Completeness::Complete) {
            self.confirmed = self.confirmed.max(read_until);
        }
    }

    /// True if the list is incomplete and a snapshot could complete it.
    pub(crate) fn wants_snapshot(&self) -> bool {
        self.is_on && matches!(self.state, Completeness::Incomplete { since: Some(_) })
    }

    /// Applies a snapshot, unless it is older than the position from which the feed is followed, or of another generation.
    pub(crate) fn apply_snapshot(&mut self, snapshot: &Snapshot<'_>, now: Moment) {
        let Completeness::Incomplete { since: Some(since) } = self.state else {
            return;
        };
        let is_older = snapshot.position < since.position;
        if !self.is_on || snapshot.generation != since.generation || is_older {
            return;
        }
        self.known.retain(|_, domain| domain.is_fed);
        for entry in &snapshot.hot {
            let key = std::str::from_utf8(entry.key).ok();
            if let Some(name) = key.and_then(domain_of_key) {
                self.put(name, &entry.record, RecordSource::Other);
            }
        }
        self.state = Completeness::Complete;
        let of_snapshot = Some(now.before(SNAPSHOT_AGE_MILLIS));
        self.confirmed = self.confirmed.max(of_snapshot).max(self.read_until);
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

    /// No snapshot can be had: requests that wait for one wait no longer.
    pub(crate) fn on_failure(&mut self) {
        self.has_failed = true;
    }

    /// The control plane has not answered for a host.
    pub(crate) fn on_unanswered(&mut self, now: Moment) {
        self.unanswered = Some(now);
    }

    /// True if a host may be looked up at the control plane: not within `pause` milliseconds of a failure to answer for any host.
    pub(crate) fn may_ask(&self, now: Moment, pause: u64) -> bool {
        self.unanswered.is_none_or(|at| at.age(now) >= pause)
    }

    /// Requests that can be decided now, or have waited long enough.
    pub(crate) fn take_waiting(&mut self, now: Moment) -> Vec<Waiter> {
        let has_failed = std::mem::take(&mut self.has_failed);
        let is_due = has_failed || matches!(self.state, Completeness::Complete);
        let is_ready =
            |(_, since): &mut (Waiter, Moment)| is_due || since.age(now) >= MAX_WAIT_MILLIS;
        let ready = self.waiting.extract_if(.., is_ready);
        ready.map(|(waiter, _)| waiter).collect()
    }
}

/// Origin of a domain's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordSource {
    Feed,
    Other,
}

#[cfg(test)]
mod tests;
