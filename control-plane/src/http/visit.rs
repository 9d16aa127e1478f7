//! A visit of the control plane itself, as the rules of a link look at it.

use crate::clock;
use crate::config::{Config, LinksConfig};
use crate::http::client_address::{Peer, client_address};
use edgelink_wire::rules::Visitor;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Uri, header};
use std::net::IpAddr;

/// The first segment of a path, and what follows it, from its slash on; empty where there is none.
pub(super) fn behind_code(path: &str) -> (&str, &str) {
    let segments = path.strip_prefix('/').unwrap_or_default();
    let slash = segments.find('/').unwrap_or(segments.len());
    segments.split_at_checked(slash).unwrap_or((segments, ""))
}

/// A visit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit<'v> {
    headers: &'v HeaderMap,
    below: &'v str,
    query: &'v str,
    address: Option<IpAddr>,
    links: &'v LinksConfig,
    now: u64,
    is_used_up: bool,
}

impl<'v> Visit<'v> {
    /// The visit of a request that has just come.
    pub(super) fn new(
        config: &'v Config,
        uri: &'v Uri,
        headers: &'v HeaderMap,
        extensions: &Extensions,
    ) -> Self {
        Self {
            headers,
            below: behind_code(uri.path()).1,
            query: uri.query().unwrap_or_default(),
            address: extensions
                .get::<Peer>()
                .map(|peer| client_address(peer.0, headers, &config.server.trusted_proxies)),
            links: &config.links,
            now: clock::unix_seconds(),
            is_used_up: false,
        }
    }

    /// Notes whether the link has a limit of visits, and none are left.
    pub(super) fn set_used_up(&mut self, is_used_up: bool) {
        self.is_used_up = is_used_up;
    }

    /// Whether redirects of links that are not crawlable are to say so.
    pub(super) fn asks_not_to_list(&self) -> bool {
        self.links.noindex
    }

    fn header(&self, name: &HeaderName) -> &[u8] {
        self.headers.get(name).map_or(&[], HeaderValue::as_bytes)
    }
}

impl Visitor for Visit<'_> {
    fn user_agent(&self) -> &[u8] {
        self.header(&header::USER_AGENT)
    }

    fn accept_language(&self) -> &[u8] {
        self.header(&header::ACCEPT_LANGUAGE)
    }

    fn query(&self) -> &[u8] {
        self.query.as_bytes()
    }

    fn below(&self) -> &[u8] {
        self.below.as_bytes()
    }

    fn is_used_up(&self) -> bool {
        self.is_used_up
    }

    fn cookies(&self) -> &[u8] {
        self.header(&header::COOKIE)
    }

    fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn country(&self) -> &[u8] {
        let name = self.links.country_header.as_ref();
        name.map_or(&[], |name| self.header(&name.0))
    }

    fn city(&self) -> &[u8] {
        let name = self.links.city_header.as_ref();
        name.map_or(&[], |name| self.header(&name.0))
    }

    fn now(&self) -> u64 {
        self.now
    }
}
