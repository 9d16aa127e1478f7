//! A visit of the control plane itself, as the rules of a link see it.

use crate::client_address::{PeerIp, client_address};
use edgelink_clicks::OwnClicks;
use edgelink_model::clock;
use edgelink_settings::config::{Config, LinksConfig};
use edgelink_wire::click_id::ClickId;
use edgelink_wire::clicks::attributes;
use edgelink_wire::redirect::is_visit;
use edgelink_wire::rules::Visitor;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use std::net::IpAddr;

/// The path of a request as its visitor has sent it, for installations whose links share a host with other paths.
#[derive(Clone, Debug)]
pub struct SentPath(pub Uri);

/// The first segment of a path, and the rest of the path from its slash on; empty if there is none.
pub(super) fn behind_code(path: &str) -> (&str, &str) {
    let segments = path.strip_prefix('/').unwrap_or_default();
    let slash = segments.find('/').unwrap_or(segments.len());
    segments.split_at_checked(slash).unwrap_or((segments, ""))
}

/// True if a request may be a click or an orphan visit: a prefetch is neither.
pub(super) fn is_counted(method: &Method, headers: &HeaderMap) -> bool {
    is_visit(method.as_str().as_bytes()) && !is_prefetch(headers)
}

/// True for a prefetch: a request that is sent before its visitor wants it.
fn is_prefetch(headers: &HeaderMap) -> bool {
    let says_so = |(name, value): (&HeaderName, &HeaderValue)| {
        attributes::is_prefetch(name.as_str().as_bytes(), value.as_bytes())
    };
    headers.iter().any(says_so)
}

/// True if a visitor has opted out of attributes.
fn is_opt_out(headers: &HeaderMap) -> bool {
    ["dnt", "sec-gpc"].into_iter().any(|name| {
        let value = headers.get(name);
        value.is_some_and(|value| attributes::is_opt_out(name.as_bytes(), value.as_bytes()))
    })
}

/// A visit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit<'v> {
    headers: &'v HeaderMap,
    path: &'v str,
    query: &'v str,
    address: Option<IpAddr>,
    links: &'v LinksConfig,
    now: u64,
    is_used_up: bool,
    has_other_method: bool,
    /// The source of click ids; `None` if the visit is not a click.
    clicks: Option<&'v OwnClicks>,
}

impl<'v> Visit<'v> {
    /// The visit of a request that has just arrived.
    pub(super) fn new(
        config: &'v Config,
        uri: &'v Uri,
        headers: &'v HeaderMap,
        extensions: &Extensions,
    ) -> Self {
        Self {
            headers,
            path: uri.path(),
            query: uri.query().unwrap_or_default(),
            address: extensions
                .get::<PeerIp>()
                .map(|peer| client_address(peer.0, headers, &config.server.trusted_proxies)),
            links: &config.links,
            now: clock::unix_seconds(),
            is_used_up: false,
            has_other_method: false,
            clicks: None,
        }
    }

    /// Records whether the link has a limit, and no uses are left.
    pub(super) fn set_used_up(&mut self, is_used_up: bool) {
        self.is_used_up = is_used_up;
    }

    /// Records whether the method is neither GET nor HEAD.
    pub(super) fn set_method(&mut self, method: &Method) {
        self.has_other_method = !matches!(*method, Method::GET | Method::HEAD);
    }

    /// Records that the visit counts if it is redirected.
    pub(super) fn set_clicks(&mut self, clicks: &'v OwnClicks) {
        self.clicks = Some(clicks);
    }

    /// True if the visitor has opted out of attributes.
    pub(super) fn is_opt_out(&self) -> bool {
        is_opt_out(self.headers)
    }

    /// The path.
    pub(super) fn path(&self) -> &str {
        self.path
    }

    /// The header `Referer`.
    pub(super) fn referrer(&self) -> &[u8] {
        self.header(&header::REFERER)
    }

    /// True if redirects ask search engines not to list links, unless they may.
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
        behind_code(self.path).1.as_bytes()
    }

    fn is_used_up(&self) -> bool {
        self.is_used_up
    }

    fn is_prefetch(&self) -> bool {
        is_prefetch(self.headers)
    }

    fn has_other_method(&self) -> bool {
        self.has_other_method
    }

    fn click_id(&self) -> Option<ClickId> {
        let clicks = self.clicks.filter(|_| !self.is_opt_out());
        clicks.and_then(OwnClicks::give_id)
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
