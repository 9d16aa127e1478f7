//! Incoming requests: recognizing link requests and parsing their paths.

use super::{Edge, Patience, Step};
use crate::answer::Answer;
use crate::control_plane::Callout;
use crate::control_plane::callout::LookupCallout;
use crate::flights::{Purpose, StreamId, Waiter};
use crate::host::{Clients, Log, Lookups, SharedData};
use crate::request::{Head, Headers, Requested, parse_path, parse_path_below};
use edgelink_wire::redirect::is_visit;
use std::borrow::Cow;

impl Edge {
    #[inline(always)]
    pub(super) fn decide_request(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        stream: StreamId,
        head: &Head<'_, impl Headers>,
        patience: Patience,
    ) -> Step<Answer<'_>> {
        if self.here.paths.is_some() {
            return self.decide_among_others(host, stream, head, patience);
        }
        self.decide_plain_path(host, stream, head, patience)
    }

    /// Decides a request where links share their host with other paths.
    #[cold]
    #[inline(never)]
    fn decide_among_others(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        stream: StreamId,
        head: &Head<'_, impl Headers>,
        patience: Patience,
    ) -> Step<Answer<'_>> {
        if self.refuses_probe(head.path) {
            return Step::Answer(Answer::not_ready(&self.here), None);
        }
        let Some(path) = self.plain_path(head.path) else {
            return Step::Pass;
        };
        let head = Head {
            path: &path,
            ..*head
        };
        self.decide_plain_path(host, stream, &head, patience)
    }

    /// The path as it would be if the host had only links. `None` if it does not belong to the links.
    pub(super) fn plain_path<'p>(&self, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        self.here.plain_path(path)
    }

    #[inline(always)]
    fn decide_plain_path(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        stream: StreamId,
        head: &Head<'_, impl Headers>,
        patience: Patience,
    ) -> Step<Answer<'_>> {
        let is_other = !matches!(head.method, b"GET" | b"HEAD");
        let (requested, is_below) = match parse_path(head.path) {
            Some(requested) => (requested, false),
            None => match self.parse_path_below(head.path) {
                Some(requested) => (requested, true),
                None if is_other => return Step::Pass,
                None => return self.answer_root(host, head),
            },
        };
        let is_click = is_visit(head.method);
        let visitor = Waiter {
            stream,
            has_more: is_below || is_other || !requested.query.is_empty(),
            is_below,
            is_click,
            is_counted: is_click && self.settings.clicks.is_some(),
            is_prefetch: false,
            is_other,
            is_form: false,
        };
        let of_form = match (is_other, patience) {
            (false, _) => None,
            (true, Patience::Waits) => self.hold_form(host, head, requested, visitor),
            (true, Patience::HasWaited(_)) => self.refuse_late_form(head, requested),
        };
        let step = match of_form {
            Some(step) => step,
            None => match self.name_key(head.authority, requested.code) {
                Ok(()) => self.decide(host, visitor, head),
                Err(reason) => {
                    let request = (head, requested.code);
                    self.decide_without_domain(host, request, reason, visitor.of(head), patience)
                }
            },
        };
        match step {
            Step::Answer(content, callout) => {
                self.answer_at_once(host, (content, callout), head, visitor)
            }
            Step::Pass => Step::Pass,
            Step::Wait(callout) => Step::Wait(callout),
            Step::Hold(callout, ended) => Step::Hold(callout, ended),
        }
    }

    /// True unless the address of the current request has used up its limit. A client without an address has none.
    pub(super) fn is_within_limit(&mut self, client: &impl Clients) -> bool {
        self.address = client.client_address();
        (self.address).is_none_or(|address| self.limit.take(address, self.now))
    }

    /// Keeps the header `traceparent` of a request that begins to wait, before its callout is sent.
    pub fn on_trace(&mut self, stream: StreamId, traceparent: &[u8]) {
        self.traces.keep(stream, traceparent);
    }

    /// The trace of a lookup, or of a request for visits: the trace of its oldest traced waiter. `None` if no waiter has one, and for
    /// other callouts.
    #[must_use]
    pub fn trace_of(&self, callout: &Callout) -> Option<&str> {
        let Callout::Lookup(LookupCallout { flight, .. }) = callout else {
            return None;
        };
        let flight = *flight;
        let flights = match flight.purpose() {
            Purpose::Links => &self.flights,
            Purpose::Visits => &self.visits,
        };
        let mut waiters = flights.waiters(flight).iter();
        waiters.find_map(|waiter| self.traces.of(waiter.stream))
    }

    /// Parses a path that continues behind a code, if links may have such paths.
    #[cold]
    #[inline(never)]
    fn parse_path_below<'p>(&self, path: &'p [u8]) -> Option<Requested<'p>> {
        let may_be_ours = self.here.forward_paths;
        may_be_ours.then(|| parse_path_below(path)).flatten()
    }
}
