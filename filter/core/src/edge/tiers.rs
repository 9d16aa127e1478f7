//! The order of the tiers.

use super::{AnswerContent, Edge, Step};
use crate::cache::{Found, Held, Lookup};
use crate::control_plane::callout::LookupCallout;
use crate::flights::{FlightId, Join, Waiter, Wanted};
use crate::host::{Clients, Log, Lookups, SharedData};
use crate::metrics::{CalloutOutcome, Tier};
use crate::request::{Head, Headers};
use crate::time::Moment;
use edgelink_wire::record::has_extension;

impl Edge {
    /// LRU, admission, shared data, Redis, control plane; [`crate::admission`] explains why it comes before shared data.
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        visitor: Waiter,
        head: &Head<'_, impl Headers>,
    ) -> Step<AnswerContent> {
        let held = match self.look_up_lru() {
            Ok(found) => return self.serve(host, found, None, visitor, head),
            Err(held) => held,
        };
        if self.refuses(held) {
            return Step::Answer(AnswerContent::NotFound(Tier::Admission), None);
        }
        let known = self.caches.look_up_shared(host, &self.key, held, self.now);
        match known {
            Lookup::Fresh(found) => self.serve(host, found, None, visitor, head),
            // The record is refreshed, but no visitor waits for a tier that has just failed to answer.
            Lookup::Stale(found) if !self.can_start() || self.has_just_failed(found) => {
                let refresh = self.refresh(host, found);
                self.serve(host, found, refresh, visitor, head)
            }
            Lookup::Stale(found) => {
                let waits = self.wait(host, visitor.of(head), Wanted::held(self.now));
                waits.unwrap_or_else(|| self.serve(host, found, None, visitor, head))
            }
            Lookup::Missing(version) => {
                let waits = self.wait(host, visitor.of(head), Wanted::unknown(version, self.now));
                waits.unwrap_or(Step::Answer(AnswerContent::Unavailable, None))
            }
        }
    }

    /// Looks for the record of the current request in the LRU.
    #[inline(always)]
    pub(super) fn look_up_lru(&self) -> Result<Found, Option<Held>> {
        let caches = &self.caches;
        caches.look_up_lru(caches.lifetimes(), &self.key, self.now)
    }

    /// Serves a record; a limited link uses up one of its visits.
    #[inline(always)]
    pub(super) fn serve(
        &mut self,
        client: &impl Clients,
        found: Found,
        refresh: Option<LookupCallout>,
        visitor: Waiter,
        head: &Head<'_, impl Headers>,
    ) -> Step<AnswerContent> {
        if has_extension(self.caches.record(found)) {
            return self.admit(client, found, refresh, visitor.of(head));
        }
        Step::Answer(AnswerContent::Found(found), refresh)
    }

    /// True if the code of the current request was never issued. A link in the LRU is not refused, whatever its number.
    pub(super) fn refuses(&self, held: Option<Held>) -> bool {
        self.is_refused((self.code(), held), self.now)
    }

    /// True if that code was never issued; `held` is the entry of its link in the LRU.
    #[inline(always)]
    pub(super) fn is_refused(&self, (code, held): (&[u8], Option<Held>), now: Moment) -> bool {
        self.gate.refuses(code, now) && !held.is_some_and(|held| self.caches.is_link(held))
    }

    /// The code of the current request.
    fn code(&self) -> &[u8] {
        self.key.get(self.code_at..).unwrap_or_default()
    }

    /// True if a lookup is likely to be answered, or a probe is due.
    fn can_start(&self) -> bool {
        self.redis.is_current(self.now)
            || !self.breaker.is_open()
            || self
                .breaker
                .is_rested(self.now.millis(), self.failure_memory_millis())
    }

    /// True if a refresh of the record has failed recently. Later, a visitor waits again: the failure must not make the record
    /// be served any longer.
    fn has_just_failed(&self, found: Found) -> bool {
        let failed = self.caches.failed(found);
        failed.is_some_and(|failed| failed.age(self.now) < self.failure_memory_millis())
    }

    /// Period for which a failure keeps visitors from waiting, in milliseconds.
    fn failure_memory_millis(&self) -> u64 {
        self.here
            .lifetimes
            .fresh_millis
            .max(self.here.retry_after_millis)
    }

    /// Makes a visitor wait for a lookup of its key. `None` if a bound is reached or the circuit is open.
    pub(super) fn wait(
        &mut self,
        host: &mut (impl Lookups + Log),
        visitor: Waiter,
        wanted: Wanted,
    ) -> Option<Step<AnswerContent>> {
        let joined = self.flights.join(&self.key, wanted, visitor);
        let waits = match joined {
            Join::Started(id) => self.start(host, id).map(Step::Wait),
            Join::Joined => Some(Step::Wait(None)),
            Join::Full => None,
        };
        if waits.is_none() {
            self.count_callout(CalloutOutcome::Rejected);
        }
        waits
    }

    /// Asks Redis, or else returns the callout to send. `None` if the circuit is open; the lookup is complete then.
    fn start(
        &mut self,
        host: &mut (impl Lookups + Log),
        id: FlightId,
    ) -> Option<Option<LookupCallout>> {
        if self.ask_redis(host, id) {
            return Some(None);
        }
        let pause = self.settings.retry_after_millis;
        if self.breaker.permits(self.now.millis(), pause) {
            return Some(Some(LookupCallout::new(id, &self.key)));
        }
        self.flights.complete(id);
        None
    }

    /// A lookup that no request waits for, if one is due.
    fn refresh(&mut self, host: &mut (impl Lookups + Log), found: Found) -> Option<LookupCallout> {
        let pause = self.here.retry_after_millis;
        let failed = self.caches.failed(found).map(|failed| failed.age(self.now));
        let is_permitted =
            self.redis.is_current(self.now) || self.breaker.would_permit(self.now.millis(), pause);
        if failed.is_some_and(|age| age < pause) || !is_permitted {
            return None;
        }
        let id = self.flights.start(&self.key, self.now)?;
        self.start(host, id).flatten()
    }
}
