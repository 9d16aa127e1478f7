//! A visit of the control plane itself, as the rules of a link look at it.

use crate::clock;
use crate::config::{Config, LinksConfig};
use crate::http::client_address::{Peer, client_address};
use edgelink_wire::rules::Visitor;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Uri, header};
use std::net::IpAddr;

/// A visit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit<'v> {
    headers: &'v HeaderMap,
    query: &'v str,
    address: Option<IpAddr>,
    links: &'v LinksConfig,
    now: u64,
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
            query: uri.query().unwrap_or_default(),
            address: extensions
                .get::<Peer>()
                .map(|peer| client_address(peer.0, headers, &config.server.trusted_proxies)),
            links: &config.links,
            now: clock::unix_seconds(),
        }
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
