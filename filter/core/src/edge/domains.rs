//! The domain of a request.

use super::action::Visits;
use super::{Content, Edge, Patience, Resumed, Step};
use crate::answer::Answer;
use crate::api_domains::{ApiDomains, HostState};
use crate::flights::{StreamId, Waiter};
use crate::host::{Clients, Log, SharedData, Streams};
use crate::metrics::{Metric, Tier};
use crate::request::Head;
use crate::settings::{Settings, UnknownCodes, UnknownHosts};
use crate::time::Moment;
use edgelink_wire::clicks::attributes::is_orphan;
use edgelink_wire::clicks::events::OrphanKind;
use edgelink_wire::{Domain, Outcome};
use std::sync::Arc;

/// Why a request has no domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoDomain {
    /// Its host is none of them.
    Unknown(UnknownHosts),
    /// The domains are not known yet.
    Awaited,
    /// The feed is silent, and its host may have become one of them.
    Doubtful,
}

impl Edge {
    /// A request that has waited until the domains are known. It does not wait for them again.
    pub fn on_request_again(
        &mut self,
        host: &mut (impl SharedData + Streams + Log + Clients),
        stream: StreamId,
        head: &Head<'_>,
        now: Moment,
    ) -> Step<Answer<'_>> {
        self.at(now);
        self.enter(stream);
        self.decide_request(host, stream, head, Patience::HasWaited)
    }

    /// Writes the key of the request at hand.
    ///
    /// # Errors
    /// The reason for which it has no domain.
    #[inline(always)]
    pub(super) fn name_key(&mut self, host: &[u8], code: &[u8]) -> Result<(), NoDomain> {
        let domain = domain_of(host, &self.here, &self.api_domains, self.now)?;
        self.key.clear();
        self.key.extend_from_slice(domain.as_bytes());
        self.key.push(b'/');
        self.code_at = self.key.len();
        self.key.extend_from_slice(code);
        Ok(())
    }

    /// What becomes of a request without a domain.
    #[cold]
    pub(super) fn decide_without_domain(
        &mut self,
        reason: NoDomain,
        visitor: Waiter,
        patience: Patience,
    ) -> Step<Content> {
        let most = self.here.control_plane.max_waiting;
        match reason {
            NoDomain::Unknown(UnknownHosts::Pass) => Step::Pass,
            NoDomain::Unknown(_) if visitor.is_other => Step::Pass,
            NoDomain::Unknown(UnknownHosts::Default | UnknownHosts::NotFound) => {
                Step::Answer(Content::NotFound(Tier::UnknownHost), None)
            }
            NoDomain::Awaited
                if patience == Patience::Waits
                    && self.api_domains.wait(visitor, self.now, most) =>
            {
                Step::Wait(None)
            }
            NoDomain::Awaited | NoDomain::Doubtful => Step::Answer(Content::Unavailable, None),
        }
    }

    /// Answers a request for `/` if its domain has a target for it. All others that are for no link pass.
    #[cold]
    pub(super) fn answer_root(
        &mut self,
        client: &impl Clients,
        head: &Head<'_>,
    ) -> Step<Answer<'_>> {
        if self.here.paths.is_none() && self.refuses_probe(head.path) {
            return Step::Answer(Answer::not_ready(&self.here), None);
        }
        if self.events.has_orphans() && self.here.unknown_codes == UnknownCodes::NotFound {
            self.note_orphan(client, head);
        }
        if !is_root(head.path) {
            return Step::Pass;
        }
        let domain = domain_of(head.authority, &self.here, &self.api_domains, self.now);
        let targets = domain.map(|domain| self.api_domains.targets(domain.as_bytes()));
        let Some(root) = targets
            .ok()
            .flatten()
            .and_then(|targets| targets.root.as_deref())
        else {
            return Step::Pass;
        };
        let counted = Metric::Requests(Tier::Domain, Outcome::Redirect);
        self.counts.count(counted);
        Step::Answer(Answer::root(root, &self.here), None)
    }

    /// Whether the path is that of probes, and the worker is not ready.
    pub(super) fn refuses_probe(&self, path: &[u8]) -> bool {
        !self.is_ready
            && (self.here.ready_path.as_ref()).is_some_and(|probe| probe.as_bytes() == path)
    }

    /// The root of a domain was asked for, or a path that is none of a link.
    fn note_orphan(&mut self, client: &impl Clients, head: &Head<'_>) {
        let kind = match is_root(head.path) {
            true => OrphanKind::BaseUrl,
            false if is_orphan(head.path) => OrphanKind::Regular404,
            false => return,
        };
        if head.method != b"GET" || head.is_prefetch() {
            return;
        }
        let domain = domain_of(head.authority, &self.here, &self.api_domains, self.now);
        if let Ok(domain) = domain {
            let now = self.wall.seconds(self.now);
            self.events.name_orphan(domain.as_bytes(), head.path);
            self.events
                .orphan(client, kind, (head.headers, head.path), now);
        }
    }

    /// The requests that have waited until the domains are known, and can be decided now.
    pub(super) fn take_undecided(&mut self) -> Option<Resumed> {
        let waiters = self.api_domains.take_waiting(self.now);
        (!waiters.is_empty()).then(|| Resumed {
            waiters,
            key: Arc::default(),
            tier: Tier::ControlPlane,
            record: None,
            visits: Visits::default(),
        })
    }
}

fn is_root(path: &[u8]) -> bool {
    path == b"/" || path.starts_with(b"/?")
}

/// The domain that a host names, or stands for.
#[inline(always)]
fn domain_of<'a>(
    host: &[u8],
    settings: &'a Settings,
    api_domains: &'a ApiDomains,
    now: Moment,
) -> Result<&'a str, NoDomain> {
    let (domains, unknown_hosts) = (&settings.domains, settings.unknown_hosts);
    let default = domains.first();
    let default = default.filter(|_| unknown_hosts == UnknownHosts::Default);
    let unknown = NoDomain::Unknown(unknown_hosts);
    if !api_domains.is_on() {
        let requested = Domain::requested(domains, host, default);
        return requested.map(Domain::as_str).ok_or(unknown);
    }
    if let Some(domain) = Domain::of_host(domains, host) {
        return Ok(domain.as_str());
    }
    match api_domains.find(host, now, settings.lifetimes.fresh_millis) {
        HostState::Domain(name) => Ok(name),
        HostState::Unknown => default.map(Domain::as_str).ok_or(unknown),
        HostState::Awaited => Err(NoDomain::Awaited),
        HostState::Doubtful => Err(NoDomain::Doubtful),
    }
}
