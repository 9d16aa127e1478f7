//! A request as the rules of a link see it: only values that a condition needs are read.

use crate::clicks::RedirectNotes;
use crate::host::Clients;
use crate::request::{Head, Headers};
use crate::settings::GeoHeaders;
use edgelink_wire::Outcome;
use edgelink_wire::click_id::ClickId;
use edgelink_wire::redirect::Decision;
use edgelink_wire::rules::Visitor;
use std::net::IpAddr;

/// A request for a link.
pub(crate) struct LinkVisit<'v, C, H> {
    /// The link key.
    pub(crate) key: &'v [u8],
    pub(crate) head: Head<'v, H>,
    /// The rest of the path behind the code.
    pub(crate) below: &'v [u8],
    /// The query without its `?`.
    pub(crate) query: &'v [u8],
    /// Unix seconds.
    pub(crate) now: u64,
    pub(crate) geo: &'v GeoHeaders,
    /// True if the link is limited, and no visits are left.
    pub(crate) is_used_up: bool,
    /// True if its method is neither GET nor HEAD.
    pub(crate) is_other: bool,
    pub(crate) client: &'v C,
    /// Takes notes on the redirect, and gives it its id; `None` if it is no click.
    pub(crate) events: Option<RedirectNotes<'v>>,
}

impl<C, H> LinkVisit<'_, C, H> {
    /// Notes a redirect, for its event.
    pub(crate) fn note(&self, decision: &Decision<'_>) {
        if let Some(events) = self
            .events
            .filter(|_| decision.outcome == Outcome::Redirect)
        {
            events.note(decision.rule, decision.click_id);
        }
    }
}

impl<C: Clients, H: Headers> Visitor for LinkVisit<'_, C, H> {
    fn user_agent(&self) -> &[u8] {
        self.head.headers.get("user-agent")
    }

    fn accept_language(&self) -> &[u8] {
        self.head.headers.get("accept-language")
    }

    fn query(&self) -> &[u8] {
        self.query
    }

    fn below(&self) -> &[u8] {
        self.below
    }

    fn is_used_up(&self) -> bool {
        self.is_used_up
    }

    fn is_prefetch(&self) -> bool {
        self.head.headers.is_prefetch()
    }

    fn has_other_method(&self) -> bool {
        self.is_other
    }

    fn cookies(&self) -> &[u8] {
        self.head.headers.get("cookie")
    }

    fn click_id(&self) -> Option<ClickId> {
        let events = self
            .events
            .filter(|_| !self.head.headers.are_of_an_opt_out());
        events.and_then(RedirectNotes::give_id)
    }

    fn address(&self) -> Option<IpAddr> {
        self.client.client_address()
    }

    fn country(&self) -> &[u8] {
        let name = self.geo.country.as_deref();
        name.map_or(&[], |name| self.head.headers.get(name))
    }

    fn city(&self) -> &[u8] {
        let name = self.geo.city.as_deref();
        name.map_or(&[], |name| self.head.headers.get(name))
    }

    fn now(&self) -> u64 {
        self.now
    }
}
