//! The domain of a request. If it is not known whether a host is a domain, the control plane is asked as for a link: by one
//! lookup, however many requests wait, within the bounds of lookups and with the circuit breaker. Hosts that are no domain are
//! cached as absent records of the keys `{host}/`.

use super::action::{Again, Uses};
use super::{AnswerContent, Edge, Patience, Resumed, Step};
use crate::answer::Answer;
use crate::api_domains::{ApiDomains, HostState};
use crate::cache::{Fetched, Lookup, Source};
use crate::control_plane::callout::{LookupCallout, LookupReply};
use crate::flights::{Completed, Join, StreamId, Waiter, Wanted};
use crate::host::Version;
use crate::host::{Clients, Log, Lookups, SharedData};
use crate::metrics::{CalloutOutcome, Metric, Tier};
use crate::request::{Head, Headers};
use crate::settings::{Settings, UnknownCodes, UnknownHosts};
use crate::time::Moment;
use edgelink_wire::clicks::attributes::is_orphan;
use edgelink_wire::clicks::events::OrphanKind;
use edgelink_wire::domain::without_defaults;
use edgelink_wire::{Domain, Record};
use std::sync::Arc;

/// Reason why a request has no domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DomainMiss {
    /// Its host is none of them.
    Unknown(UnknownHosts),
    /// The domains are not known yet.
    Awaited,
    /// Its host was none of them when the list was last complete, and may have become one.
    Doubtful,
}

/// Result of looking up a host in the caches.
enum CachedHost {
    /// It is none of the domains.
    Unknown,
    /// Not cached; the version is of the slot of its key.
    Missing(Version),
}

impl Edge {
    /// A request that has waited for its domain; `again` comes from [`Resumed::again`].
    pub fn on_request_again(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        stream: StreamId,
        head: &Head<'_, impl Headers>,
        now: Moment,
        again: Again,
    ) -> Step<Answer<'_>> {
        self.at(now);
        self.enter(stream);
        self.decide_request(host, stream, head, Patience::HasWaited(again))
    }

    /// Writes the key of the current request.
    ///
    /// # Errors
    /// The reason for which it has no domain.
    #[inline(always)]
    pub(super) fn name_key(&mut self, host: &[u8], code: &[u8]) -> Result<(), DomainMiss> {
        let domain = domain_of(host, &self.here, &self.api_domains, self.now)?;
        self.code_at = write_key(&mut self.key, domain.as_bytes(), code);
        Ok(())
    }

    /// Writes the key of the current request for a form, whose body does not arrive while its host is looked up: if the host is in
    /// doubt and unknown hosts stand for a domain, the form is for that domain, as its page was.
    ///
    /// # Errors
    /// The reason for which it has no domain.
    pub(super) fn name_key_of_form(&mut self, host: &[u8], code: &[u8]) -> Result<(), DomainMiss> {
        match self.name_key(host, code) {
            Err(DomainMiss::Doubtful) if self.name_default_key(code) => Ok(()),
            named => named,
        }
    }

    /// Decides a request for that code without a domain.
    #[cold]
    #[inline(never)]
    pub(super) fn decide_without_domain(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        (head, code): (&Head<'_, impl Headers>, &[u8]),
        reason: DomainMiss,
        visitor: Waiter,
        patience: Patience,
    ) -> Step<AnswerContent> {
        if let DomainMiss::Unknown(unknown_hosts) = reason {
            return refuse(unknown_hosts, visitor);
        }
        let named = self.look_up_host(host, head.authority);
        let is_unknown = matches!(named, CachedHost::Unknown)
            || patience == Patience::HasWaited(Again::UnknownHost);
        if is_unknown {
            return if self.name_default_key(code) {
                self.decide(host, visitor, head)
            } else {
                refuse(self.here.unknown_hosts, visitor)
            };
        }
        if let (CachedHost::Missing(version), Patience::Waits) = (named, patience)
            && let Some(callout) = self.ask_for_host(version, visitor)
        {
            return Step::Wait(callout);
        }
        if reason == DomainMiss::Doubtful {
            return self.decide_as_before(host, (head, code), visitor);
        }
        let most = self.here.control_plane.max_waiting;
        let waits = patience != Patience::HasWaited(Again::Domains)
            && self.api_domains.wait(visitor, self.now, most);
        if waits {
            Step::Wait(None)
        } else {
            Step::Answer(AnswerContent::Unavailable, None)
        }
    }

    /// Looks for a host in the caches, and makes its key the current one.
    fn look_up_host(&mut self, data: &mut impl SharedData, host: &[u8]) -> CachedHost {
        let parse = |host: &[u8]| Domain::parse(std::str::from_utf8(host).ok()?).ok();
        let Some(name) = parse(host).or_else(|| parse(without_defaults(host))) else {
            // No domain has such a name.
            return CachedHost::Unknown;
        };
        self.key.clear();
        self.key.extend_from_slice(name.as_str().as_bytes());
        self.key.push(b'/');
        match self.caches.look_up(data, &self.key, self.now) {
            Lookup::Fresh(_) | Lookup::Stale(_) => CachedHost::Unknown,
            Lookup::Missing(version) => CachedHost::Missing(version),
        }
    }

    /// Makes a visitor wait for the control plane's answer about the host with the current key. `None` if it has recently not
    /// answered, a bound is reached or the circuit is open.
    fn ask_for_host(&mut self, version: Version, visitor: Waiter) -> Option<Option<LookupCallout>> {
        let pause = self.settings.retry_after_millis;
        if !self.api_domains.may_ask(self.now, pause) {
            return None;
        }
        let wanted = Wanted::host(version, self.now);
        let asked = match self.flights.join(&self.key, wanted, visitor) {
            Join::Joined => Some(None),
            Join::Started(id) if self.breaker.permits(self.now.millis(), pause) => {
                Some(Some(LookupCallout::new(id, &self.key)))
            }
            Join::Started(id) => {
                self.flights.complete(id);
                None
            }
            Join::Full => None,
        };
        if asked.is_none() {
            self.count_callout(CalloutOutcome::Rejected);
        }
        asked
    }

    /// The control plane has answered for a host. An answer older than the freshness of a link is ignored.
    pub(super) fn on_host_answer(
        &mut self,
        data: &mut impl SharedData,
        completed: Completed,
        LookupReply { record, age_millis }: LookupReply<'_>,
    ) -> Resumed {
        if age_millis >= self.settings.lifetimes.fresh_millis {
            return self.fall_back(data, completed);
        }
        match record.record() {
            domain @ Record::Link(_) => self.api_domains.on_asked(&domain),
            Record::Absent { .. } => {
                let fetched = Fetched {
                    record,
                    at: completed.asked.started.before(age_millis),
                    source: Source::ControlPlane,
                };
                // The caches have only absences for such keys, so none is newer.
                let _taken = self
                    .caches
                    .insert_fetched(data, &completed.asked, fetched, self.now);
            }
        }
        Resumed {
            waiters: completed.waiters,
            key: completed.asked.key,
            tier: Tier::ControlPlane,
            record: Some(record.bytes.to_vec()),
            visits: Uses::default(),
        }
    }

    /// True if unknown hosts stand for a domain.
    pub(super) fn has_default_domain(&self) -> bool {
        default_domain(&self.here).is_some()
    }

    /// Writes the key of the current request with the default domain; `false` if unknown hosts do not stand for it.
    fn name_default_key(&mut self, code: &[u8]) -> bool {
        let Some(domain) = default_domain(&self.here) else {
            return false;
        };
        self.code_at = write_key(&mut self.key, domain.as_str().as_bytes(), code);
        true
    }

    /// Decides a request to a host that was none of the domains when the list was last complete, if the control plane cannot be
    /// asked: it gets the cached record of its link, as stale. A failure does not become a 404.
    fn decide_as_before(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        (head, code): (&Head<'_, impl Headers>, &[u8]),
        visitor: Waiter,
    ) -> Step<AnswerContent> {
        let unavailable = Step::Answer(AnswerContent::Unavailable, None);
        if visitor.is_other || !self.name_default_key(code) {
            return unavailable;
        }
        match self.caches.look_up(host, &self.key, self.now) {
            Lookup::Fresh(mut found) | Lookup::Stale(mut found)
                if !self.caches.is_absence(found) =>
            {
                found.tier = Tier::Stale;
                self.serve(host, found, None, visitor, head)
            }
            _ => unavailable,
        }
    }

    /// Answers a request for `/`, or for a path that no link can have, if its domain has a target for it. All other requests that
    /// are not for a link pass.
    #[cold]
    pub(super) fn answer_root(
        &mut self,
        client: &impl Clients,
        head: &Head<'_, impl Headers>,
    ) -> Step<Answer<'_>> {
        if self.here.paths.is_none() && self.refuses_probe(head.path) {
            return Step::Answer(Answer::not_ready(&self.here), None);
        }
        if self.event_rules.has_orphans() && self.here.unknown_codes == UnknownCodes::NotFound {
            self.note_orphan(client, head);
        }
        let is_root = is_root(head.path);
        if !is_root && !self.refuses_path(head.path) {
            return Step::Pass;
        }
        let domain = domain_of(head.authority, &self.here, &self.api_domains, self.now);
        let domain = match domain {
            // Targets stay in effect, however long the feed is silent.
            Err(DomainMiss::Doubtful) => default_domain(&self.here).map(Domain::as_str),
            domain => domain.ok(),
        };
        let targets = domain.and_then(|domain| self.api_domains.targets(domain.as_bytes()));
        let target = targets.and_then(|targets| {
            let target = if is_root {
                &targets.root
            } else {
                &targets.not_found
            };
            target.as_deref()
        });
        let Some(target) = target else {
            return Step::Pass;
        };
        let answer = if is_root {
            Answer::root(target, &self.here)
        } else {
            Answer::not_found(Tier::Domain, &self.here).instead(Some(target))
        };
        self.counts
            .count(Metric::Requests(Tier::Domain, answer.outcome()));
        Step::Answer(answer, None)
    }

    /// True if the path can belong to no link, and to nothing else behind the proxy.
    fn refuses_path(&self, path: &[u8]) -> bool {
        self.here.unknown_codes == UnknownCodes::NotFound
            && self.here.prefix() == "/"
            && is_orphan(path)
    }

    /// True if the path is the one of readiness probes, and the worker is not ready.
    pub(super) fn refuses_probe(&self, path: &[u8]) -> bool {
        !self.is_ready
            && (self.here.ready_path.as_ref()).is_some_and(|probe| probe.as_bytes() == path)
    }

    /// Notes a request for the root of a domain, or for a path that no link has, as an orphan visit.
    fn note_orphan(&mut self, client: &impl Clients, head: &Head<'_, impl Headers>) {
        let kind = if is_root(head.path) {
            OrphanKind::BaseUrl
        } else if is_orphan(head.path) {
            OrphanKind::Regular404
        } else {
            return;
        };
        if head.method != b"GET" || head.headers.is_prefetch() {
            return;
        }
        let domain = domain_of(head.authority, &self.here, &self.api_domains, self.now);
        if let Ok(domain) = domain {
            let now = self.wall.seconds(self.now);
            self.events.name_orphan(domain.as_bytes(), head.path);
            let (rules, request) = (&self.event_rules, (&head.headers, head.path));
            self.events.orphan(rules, client, kind, request, now);
        }
    }

    /// Requests that have waited for the domains, and can be decided now.
    pub(super) fn take_undecided(&mut self) -> Option<Resumed> {
        let waiters = self.api_domains.take_waiting(self.now);
        (!waiters.is_empty()).then(|| Resumed {
            waiters,
            key: Arc::default(),
            tier: Tier::ControlPlane,
            record: None,
            visits: Uses::default(),
        })
    }
}

fn is_root(path: &[u8]) -> bool {
    path == b"/" || path.starts_with(b"/?")
}

/// Refuses a request to an unknown host without a default domain, or lets it pass.
fn refuse(unknown_hosts: UnknownHosts, visitor: Waiter) -> Step<AnswerContent> {
    match unknown_hosts {
        UnknownHosts::Pass => Step::Pass,
        _ if visitor.is_other => Step::Pass,
        UnknownHosts::Default | UnknownHosts::NotFound => {
            Step::Answer(AnswerContent::NotFound(Tier::UnknownHost), None)
        }
    }
}

/// The domain for unknown hosts; `None` if there is none.
#[inline(always)]
fn default_domain(settings: &Settings) -> Option<&Domain> {
    let default = settings.domains.first();
    default.filter(|_| settings.unknown_hosts == UnknownHosts::Default)
}

/// Writes the key of a link, and returns the offset of the code in it.
#[inline(always)]
pub(super) fn write_key(key: &mut Vec<u8>, domain: &[u8], code: &[u8]) -> usize {
    key.clear();
    key.extend_from_slice(domain);
    key.push(b'/');
    let code_at = key.len();
    key.extend_from_slice(code);
    code_at
}

/// The domain of a host, by name or as the default.
#[inline(always)]
pub(super) fn domain_of<'a>(
    host: &[u8],
    settings: &'a Settings,
    api_domains: &'a ApiDomains,
    now: Moment,
) -> Result<&'a str, DomainMiss> {
    let (domains, default) = (&settings.domains, default_domain(settings));
    let unknown = DomainMiss::Unknown(settings.unknown_hosts);
    if !api_domains.is_on() {
        let requested = domains.requested(host, default);
        return requested.map(Domain::as_str).ok_or(unknown);
    }
    if let Some(domain) = domains.of_host(host) {
        return Ok(domain.as_str());
    }
    match api_domains.find(host, now, &settings.lifetimes) {
        HostState::Domain(name) => Ok(name),
        HostState::Unknown => default.map(Domain::as_str).ok_or(unknown),
        HostState::Awaited => Err(DomainMiss::Awaited),
        HostState::Doubtful => Err(DomainMiss::Doubtful),
    }
}
