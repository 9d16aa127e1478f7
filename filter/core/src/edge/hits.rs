//! Requests that the LRU or admission answers, decided by many threads side by side.
//!
//! Such a request changes nothing that another one reads, but for atomic marks and counts in entries of the LRU and in the buckets of
//! addresses. All else it changes is in notes of its thread ([`HitNotes`]), which the edge takes over with a tick. Every other request is
//! decided by [`Edge::on_request_admitted`], by one thread at a time.

use super::answers::{CachedRecord, KnownClient, Request, refuse_code, refuse_too_many, serve};
use super::domains::{domain_of, write_key};
use super::visits::is_limited;
use super::{Edge, RootId};
use crate::answer::Answer;
use crate::api_domains::ApiDomains;
use crate::cache::CacheNotes;
use crate::clicks::{ClickEvents, EventRules};
use crate::flights::Waiter;
use crate::host::Clients;
use crate::metrics::{Counts, Tier};
use crate::request::{Head, Headers, parse_path};
use crate::settings::{Settings, UnknownCodes};
use crate::time::Moment;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::record::has_extension;
use edgelink_wire::redirect::is_visit;
use std::net::IpAddr;

/// The outcome of a request that was decided side by side with others.
#[derive(Clone, Copy, Debug)]
pub enum Hit {
    /// It is not ours: it passes untouched.
    Passes,
    /// Its answer was written.
    Answered,
    /// The edge has to decide it ([`Edge::on_request_admitted`]).
    Undecided(WithinLimit),
}

/// The request is within the limit of its address.
#[derive(Clone, Copy, Debug)]
pub struct WithinLimit {
    /// The address, if it was read.
    pub(super) address: Option<IpAddr>,
}

/// Changes by a thread, until the edge takes them over ([`Edge::on_hits`]).
pub struct HitNotes {
    /// Set if a request has come.
    is_busy: bool,
    /// The version of the rules for events and the bounds in effect.
    version: Option<u32>,
    counts: Counts,
    cache: CacheNotes,
    events: ClickEvents,
    /// The key of the current request; here so that it is allocated once.
    key: Vec<u8>,
}

impl Edge {
    /// Notes for a thread. `secret` must be random: ids of clicks follow from it.
    #[must_use]
    pub fn hit_notes(&self, secret: WorkerId) -> HitNotes {
        HitNotes {
            is_busy: false,
            version: None,
            counts: Counts::default(),
            cache: CacheNotes::new(self.hasher.clone()),
            events: ClickEvents::new(&self.event_rules, secret, &self.hasher),
            key: Vec::new(),
        }
    }

    /// A request has come, of a stream that belongs to `root`. Its answer, if it has one, is passed to `write`.
    #[inline(always)]
    pub fn on_hit(
        &self,
        notes: &mut HitNotes,
        (client, root): (&impl Clients, RootId),
        head: &Head<'_, impl Headers>,
        now: Moment,
        write: impl FnOnce(&Answer<'_>),
    ) -> Hit {
        notes.is_busy = true;
        if notes.version != Some(self.event_rules.version()) {
            self.configure_notes(notes);
        }
        let now = self.now.max(now);
        let settings = &**self.roots.settings(root).unwrap_or(&self.settings);
        let mut admitted = WithinLimit { address: None };
        if self.limit.is_on() {
            admitted.address = client.client_address();
            let takes = |address| self.limit.take(address, now);
            if !admitted.address.is_none_or(takes) {
                write(&refuse_too_many(client, settings, &mut notes.counts));
                return Hit::Answered;
            }
        }
        let address = admitted.address;
        let client = &KnownClient { client, address };
        let hit = if settings.paths.is_none() {
            self.decide_hit(notes, (client, settings), head, now, write)
        } else {
            self.decide_hit_among_others(notes, (client, settings), head, now, write)
        };
        hit.unwrap_or(Hit::Undecided(admitted))
    }

    /// Decides a request where links share their host with other paths.
    #[cold]
    #[inline(never)]
    fn decide_hit_among_others(
        &self,
        notes: &mut HitNotes,
        (client, settings): (&impl Clients, &Settings),
        head: &Head<'_, impl Headers>,
        now: Moment,
        write: impl FnOnce(&Answer<'_>),
    ) -> Option<Hit> {
        if !self.is_ready {
            return None;
        }
        let Some(path) = settings.plain_path(head.path) else {
            return Some(Hit::Passes);
        };
        let head = Head {
            path: &path,
            ..*head
        };
        self.decide_hit(notes, (client, settings), &head, now, write)
    }

    /// Decides a request within its limit; `None` if that takes more than this thread may do.
    #[inline(always)]
    fn decide_hit(
        &self,
        notes: &mut HitNotes,
        (client, settings): (&impl Clients, &Settings),
        head: &Head<'_, impl Headers>,
        now: Moment,
        write: impl FnOnce(&Answer<'_>),
    ) -> Option<Hit> {
        if !self.has_traffic || !matches!(head.method, b"GET" | b"HEAD") {
            return None;
        }
        let requested = parse_path(head.path)?;
        let domain = domain_of(head.authority, settings, &self.api_domains, now).ok()?;
        write_key(&mut notes.key, domain.as_bytes(), requested.code);
        let is_click = is_visit(head.method);
        let visitor = Waiter {
            has_more: !requested.query.is_empty(),
            is_click,
            is_counted: is_click && self.settings.clicks.is_some(),
            ..Waiter::default()
        };
        let passes_unknown = settings.unknown_codes == UnknownCodes::Pass;
        let request = (client, head, &*notes.key, self.wall.seconds(now));
        let hit = match self.caches.hit(&settings.lifetimes, &notes.key, now) {
            Ok(hit) => hit,
            Err(held) if self.is_refused((requested.code, held), now) => {
                let notes = (&mut notes.counts, &mut notes.events);
                let orphan = visitor.is_counted.then_some(&self.event_rules);
                let of = (settings, &self.api_domains, orphan);
                return Some(refuse_unknown(notes, request, passes_unknown, of, write));
            }
            Err(_) => return None,
        };
        if has_extension(hit.record()) && is_limited(hit.record()) {
            return None;
        }
        let (record, clicker) = notes.cache.serve(hit);
        let cached = CachedRecord {
            record,
            clicker,
            tier: Tier::Lru,
            is_used_up: false,
        };
        let common = (settings, &self.api_domains, &self.event_rules);
        let notes = (&mut notes.counts, &mut notes.events);
        match serve(cached, request, (visitor, passes_unknown), common, notes) {
            Some(answer) => {
                write(&answer);
                Some(Hit::Answered)
            }
            None => Some(Hit::Passes),
        }
    }

    /// Takes over what threads have noted: their events only with the next batch.
    pub fn on_hits(&mut self, threads: &mut [&mut HitNotes], now: Moment) {
        self.count_hits(threads);
        let clicks = self.background.clicks.as_ref();
        let is_quiet = !self.is_busy;
        if clicks.is_some_and(|clicks| clicks.is_flush_due(now, is_quiet))
            || threads.iter().any(|notes| notes.events.is_half_full())
        {
            self.gather(threads);
        }
        let seconds = self.wall.seconds(now);
        for notes in threads {
            notes.events.forget_visitors(&self.event_rules, seconds);
        }
    }

    /// Takes over all that threads have noted, before settings change or the edge ends.
    pub fn end_hits(&mut self, threads: &mut [&mut HitNotes]) {
        self.count_hits(threads);
        self.gather(threads);
    }

    fn count_hits(&mut self, threads: &mut [&mut HitNotes]) {
        for notes in threads {
            self.is_busy |= std::mem::take(&mut notes.is_busy);
            self.counts.take_over(&mut notes.counts);
            self.caches.take_over(&mut notes.cache);
        }
    }

    fn gather(&mut self, threads: &mut [&mut HitNotes]) {
        for notes in threads {
            let gathered = notes.events.take();
            if self.background.clicks.is_some() {
                self.gathered.push(gathered);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn configure_notes(&self, notes: &mut HitNotes) {
        notes.version = Some(self.event_rules.version());
        notes.cache.configure(&self.settings);
        notes.events.configure(&self.event_rules);
    }
}

/// Answers a request for a code that was never issued, as [`refuse_code`].
#[inline(never)]
fn refuse_unknown<C: Clients, H: Headers>(
    notes: (&mut Counts, &mut ClickEvents),
    request: Request<'_, C, H>,
    passes_unknown: bool,
    common: (&Settings, &ApiDomains, Option<&EventRules>),
    write: impl FnOnce(&Answer<'_>),
) -> Hit {
    match refuse_code(Tier::Admission, request, passes_unknown, common, notes) {
        Some(answer) => {
            write(&answer);
            Hit::Answered
        }
        None => Hit::Passes,
    }
}
