//! The order in which the tiers are asked.

use super::{Decision, Edge};
use crate::caches::{Found, Lookup};
use crate::callout::Callout;
use crate::flights::{FlightId, Join, Waiter, Wanted};
use crate::host::{Log, SharedData, Streams};
use crate::metrics::CalloutOutcome;

impl Edge {
    /// LRU, admission, shared data, Redis, control plane; [`crate::admission`] says why it comes before shared data.
    pub(super) fn decide(
        &mut self,
        host: &mut (impl SharedData + Streams + Log),
        visitor: Waiter,
    ) -> Decision {
        let held = match self.caches.look_up_here(&self.key, self.now) {
            Ok(found) => return Decision::Serve(found, None),
            Err(held) => held,
        };
        // What the LRU knows as a link is not refused, whatever the numbers say.
        if self.gate.refuses(self.code(), self.now)
            && !held.is_some_and(|held| self.caches.is_link(held))
        {
            return Decision::NeverIssued;
        }
        let known = self.caches.look_up_shared(host, &self.key, held, self.now);
        match known {
            Lookup::Fresh(found) => Decision::Serve(found, None),
            // The record is asked for again, but no visitor waits for those who have just failed to answer.
            Lookup::Stale(found) if !self.can_start() || self.has_just_failed(found) => {
                Decision::Serve(found, self.refresh(host, found))
            }
            Lookup::Stale(found) => {
                let waits = self.wait(host, visitor, Wanted::held(self.now));
                waits.unwrap_or(Decision::Serve(found, None))
            }
            Lookup::Nothing(version) => {
                let waits = self.wait(host, visitor, Wanted::unknown(version, self.now));
                waits.unwrap_or(Decision::Refuse)
            }
        }
    }

    /// The code of the request at hand.
    fn code(&self) -> &[u8] {
        let mut parts = self.key.splitn(2, |byte| *byte == b'/');
        parts.next();
        parts.next().unwrap_or_default()
    }

    /// Whether somebody is likely to answer, or it is time to find out.
    fn can_start(&self) -> bool {
        self.redis.is_current(self.now)
            || !self.breaker.is_open()
            || self
                .breaker
                .is_rested(self.now.millis(), self.failure_memory())
    }

    /// Whether asking for what was found has failed a short while ago. Later, a visitor waits again: what was said by then
    /// must not be served any longer than without the failure.
    fn has_just_failed(&self, found: Found) -> bool {
        let failed = self.caches.failed(found);
        failed.is_some_and(|failed| failed.age(self.now) < self.failure_memory())
    }

    /// How long a failure keeps visitors from waiting, in milliseconds.
    fn failure_memory(&self) -> u64 {
        self.here.lives.fresh.max(self.here.retry_after_millis)
    }

    /// Makes a visitor wait for a lookup of its key. `None` if a bound or the circuit is against it.
    fn wait(
        &mut self,
        host: &mut (impl Streams + Log),
        visitor: Waiter,
        wanted: Wanted,
    ) -> Option<Decision> {
        let joined = self.flights.join(&self.key, wanted, visitor);
        let waits = match joined {
            Join::Started(id) => self.start(host, id).map(Decision::Wait),
            Join::Joined => Some(Decision::Wait(None)),
            Join::Full => None,
        };
        if waits.is_none() {
            self.count_callout(CalloutOutcome::Rejected);
        }
        waits
    }

    /// Asks Redis, or else says which callout to send. Nothing if the circuit is against it; the lookup is over then.
    fn start(&mut self, host: &mut (impl Streams + Log), id: FlightId) -> Option<Option<Callout>> {
        if self.ask_redis(host, id) {
            return Some(None);
        }
        let pause = self.settings.retry_after_millis;
        if self.breaker.permits(self.now.millis(), pause) {
            return Some(Some(Callout::new(id, &self.key)));
        }
        self.flights.land(id);
        None
    }

    /// A lookup that nobody waits for, if it is time for one.
    fn refresh(&mut self, host: &mut (impl Streams + Log), found: Found) -> Option<Callout> {
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
