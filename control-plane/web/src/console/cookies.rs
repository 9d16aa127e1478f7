//! Cookies of the console: for the session, and for a login by a provider.

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::net::IpAddr;

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A cookie that scripts do not see.
pub(super) struct Cookie {
    pub(super) name: &'static str,
    /// Its name off loopback, with `__Host-`: other hosts of the same site cannot set a cookie with this prefix for our host.
    pub(super) host_name: &'static str,
    /// Its path on loopback; elsewhere a cookie with a `__Host-` name has the path `/`.
    pub(super) path: &'static str,
    pub(super) same_site: &'static str,
}

impl Cookie {
    fn name_and_path(&self, headers: &HeaderMap) -> (&'static str, &'static str) {
        if is_loopback(headers) {
            (self.name, self.path)
        } else {
            (self.host_name, "/")
        }
    }

    /// The values of the cookie in a request.
    pub(super) fn values<'h>(&self, headers: &'h HeaderMap) -> impl Iterator<Item = &'h str> {
        let (own, _) = self.name_and_path(headers);
        let lines = headers.get_all(header::COOKIE).iter();
        let cookies = lines.filter_map(|line| line.to_str().ok());
        let cookies = cookies.flat_map(|line| line.split(';'));
        cookies.filter_map(move |cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            (name == own).then_some(value)
        })
    }

    /// The header that sets the cookie: for `seconds`, or until the browser ends.
    pub(super) fn set(&self, value: &str, seconds: Option<u32>, headers: &HeaderMap) -> HeaderMap {
        let (name, path) = self.name_and_path(headers);
        let (same_site, secure) = (self.same_site, secure(headers));
        let age = seconds.map_or(String::new(), |seconds| format!("; Max-Age={seconds}"));
        let cookie =
            format!("{name}={value}; Path={path}; HttpOnly; SameSite={same_site}{secure}{age}");
        let cookie = HeaderValue::try_from(cookie).ok();
        cookie
            .map(|cookie| (header::SET_COOKIE, cookie))
            .into_iter()
            .collect()
    }
}

/// The attribute that restricts a cookie to TLS: set if the browser or a proxy says that the page came over TLS, and always if the
/// browser is on another machine.
fn secure(headers: &HeaderMap) -> &'static str {
    let origin = headers.get(header::ORIGIN);
    let is_tls = |origin: &HeaderValue| origin.as_bytes().starts_with(b"https://");
    let proto = headers.get(FORWARDED_PROTO);
    let is_for_tls = !is_loopback(headers)
        || origin.is_some_and(is_tls)
        || proto.is_some_and(|proto| proto == "https");
    if is_for_tls { "; Secure" } else { "" }
}

/// True if the browser is on this machine, where there is usually no TLS.
fn is_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = host(headers) else {
        return false;
    };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    let is_local = |address: IpAddr| address.is_loopback();
    name == "localhost" || name.ends_with(".localhost") || name.parse().is_ok_and(is_local)
}

/// The host in a request of a browser.
pub(super) fn host(headers: &HeaderMap) -> Option<Authority> {
    headers.get(header::HOST)?.to_str().ok()?.parse().ok()
}
