//! The checked target of a link, and the rules for it.

use super::{HostPattern, MAX_URL_LENGTH, is_target};
use crate::Domain;
use crate::domain::{is_address_in_brackets, is_dns_name};
use ::url::{Host, Url};
use std::borrow::Cow;
use std::net::IpAddr;

/// A checked target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUrl(Box<str>);

/// A violated rule of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Nothing but spaces.
    #[error("must not be empty")]
    Empty,
    /// Longer than [`MAX_URL_LENGTH`] in the form in which it would be sent.
    #[error("must not be longer than 8000 bytes")]
    Length,
    /// Tabs, line ends and other control characters.
    #[error("must not have control characters")]
    Control,
    /// A scheme other than http and https, or none.
    #[error("must start with http:// or https://")]
    Scheme,
    /// A user or a password before the host.
    #[error("must not have a user name or password")]
    Credentials,
    /// The host is missing, or is neither a DNS name nor an address.
    #[error("must have a valid host name or address")]
    Host,
    /// The port is not a number of 0 to 65535.
    #[error("must have a port of 0 to 65535, or none")]
    Port,
    /// Points to a domain of this shortener: such a redirect may never end.
    #[error("must not point to a domain of this shortener")]
    OwnDomain,
    /// Points to a host that no link may go to.
    #[error("must not point to a blocked host")]
    BlockedHost,
}

/// Restrictions on the targets of links.
#[derive(Clone, Copy)]
pub struct TargetRules<'a> {
    /// The domains of the configuration.
    pub own_domains: &'a [Domain],
    /// True for a host, in lower case and without a trailing dot, that is a domain created through the API, by any tenant. Such
    /// domains have no port.
    pub is_made: &'a dyn Fn(&str) -> bool,
    /// Hosts that no link may go to.
    pub blocked_hosts: &'a [HostPattern],
}

impl TargetRules<'_> {
    /// Parses a target that a link may have.
    ///
    /// # Errors
    /// The [`TargetError`] that says which rule is broken.
    pub fn check(&self, text: &str) -> Result<TargetUrl, TargetError> {
        let (target, url) = TargetUrl::read(text, self.own_domains)?;
        if self.is_on_made_domain(&url) {
            return Err(TargetError::OwnDomain);
        }
        if self.is_blocked(&url) {
            Err(TargetError::BlockedHost)
        } else {
            Ok(target)
        }
    }

    fn is_blocked(&self, url: &Url) -> bool {
        if self.blocked_hosts.is_empty() {
            return false;
        }
        url.host().is_some_and(|host| {
            let host = host.to_owned();
            self.blocked_hosts
                .iter()
                .any(|pattern| pattern.matches(&host))
        })
    }

    /// True if the URL is on a domain created through the API: such a redirect may never end.
    fn is_on_made_domain(&self, url: &Url) -> bool {
        let is_default_port = matches!(url.port_or_known_default(), Some(80 | 443));
        match url.host() {
            Some(Host::Domain(host)) if is_default_port => {
                (self.is_made)(host.strip_suffix('.').unwrap_or(host))
            }
            _ => false,
        }
    }
}

impl TargetUrl {
    /// Parses an absolute http or https URL that points elsewhere.
    ///
    /// Surrounding spaces are trimmed, and spaces inside become `%20`. Beyond that a text of visible ASCII is kept byte for byte,
    /// because servers may distinguish URLs that a parser's serialization makes equal. Any other text becomes the URL that a
    /// browser would request: the serialization of the WHATWG URL standard, percent-encoded and with its host in Punycode.
    ///
    /// # Errors
    /// The [`TargetError`] that says which rule is broken.
    pub fn parse(text: &str, own_domains: &[Domain]) -> Result<Self, TargetError> {
        Self::read(text, own_domains).map(|(target, _)| target)
    }

    fn read(text: &str, own_domains: &[Domain]) -> Result<(Self, Url), TargetError> {
        let text = text.trim_matches(' ');
        check_text(text)?;
        check_written_authority(authority(text)?)?;
        let url = Url::parse(text).map_err(parse_error)?;
        if own_domains.iter().any(|own| is_on(&url, own)) {
            return Err(TargetError::OwnDomain);
        }
        let sent = sent_form(text, &url);
        check_sent_authority(authority(&sent)?)?;
        if sent.len() > MAX_URL_LENGTH {
            return Err(TargetError::Length);
        }
        debug_assert!(is_target(sent.as_bytes()));
        Ok((Self(sent.into()), url))
    }

    /// A target from the store, where it was checked before.
    #[must_use]
    pub fn from_store(text: &str) -> Self {
        Self(text.into())
    }

    /// The target, byte for byte as it goes into `Location`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks the rules that need no parser. The length comes first, so that nothing else scans a long text.
fn check_text(text: &str) -> Result<(), TargetError> {
    if text.is_empty() {
        return Err(TargetError::Empty);
    }
    if text.len() > MAX_URL_LENGTH {
        return Err(TargetError::Length);
    }
    if text.chars().any(char::is_control) {
        return Err(TargetError::Control);
    }
    Ok(())
}

/// The authority, between scheme and path, as written. The scheme must be spelled out with its two slashes: parsers also accept
/// `http:host` and `https:\\host`, and disagree on their meaning.
fn authority(text: &str) -> Result<&str, TargetError> {
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| strip_prefix_ignoring_case(text, scheme))
        .ok_or(TargetError::Scheme)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Ok(rest.split_at(end).0)
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, tail) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(tail)
}

fn sent_form<'a>(text: &'a str, url: &'a Url) -> Cow<'a, str> {
    if !text.is_ascii() {
        Cow::Borrowed(url.as_str())
    } else if text.contains(' ') {
        Cow::Owned(text.replace(' ', "%20"))
    } else {
        Cow::Borrowed(text)
    }
}

fn parse_error(error: ::url::ParseError) -> TargetError {
    match error {
        ::url::ParseError::InvalidPort => TargetError::Port,
        _ => TargetError::Host,
    }
}

/// Checks the authority as written.
///
/// A backslash is a slash to browsers and a part of the host to other clients, so it is refused.
fn check_written_authority(authority: &str) -> Result<(), TargetError> {
    if authority.contains('\\') {
        return Err(TargetError::Host);
    }
    if authority.contains('@') {
        return Err(TargetError::Credentials);
    }
    if authority.contains([' ', '%']) {
        return Err(TargetError::Host);
    }
    Ok(())
}

/// Checks the authority as sent: an address or DNS labels, and a port. Parsers accept more than that, a double quote for example.
fn check_sent_authority(authority: &str) -> Result<(), TargetError> {
    let (host, port) = split_port(authority);
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TargetError::Port);
    }
    if is_address_in_brackets(host) || is_host_name(host) {
        Ok(())
    } else {
        Err(TargetError::Host)
    }
}

/// Splits at the colon before the port, which in an address with brackets follows them.
fn split_port(authority: &str) -> (&str, &str) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    }
}

/// True for a host name, with the underscore that RFC 2181, section 11, allows and many hosts have, and with or without the
/// trailing dot. The URL parser has validated the numbers of IPv4 addresses.
pub(super) fn is_host_name(host: &str) -> bool {
    is_dns_name(host.strip_suffix('.').unwrap_or(host), b"_")
}

/// True if `url` leads to `domain`. A domain without a port is served on the ports of http and https alike.
fn is_on(url: &Url, domain: &Domain) -> bool {
    let Some(host) = url.host() else {
        return false;
    };
    let Ok(own) = Host::parse(domain.host()) else {
        return false;
    };
    let port = url.port_or_known_default();
    let is_same_port = match domain_port(domain) {
        Some(own) => port == Some(own),
        None => matches!(port, Some(80 | 443)),
    };
    is_same_port && is_same_host(&host.to_owned(), &own)
}

fn domain_port(domain: &Domain) -> Option<u16> {
    domain
        .as_str()
        .strip_prefix(domain.host())?
        .strip_prefix(':')?
        .parse()
        .ok()
}

/// Compares two hosts, ignoring the trailing dot, and treating IPv4-mapped IPv6 addresses as IPv4.
pub(super) fn is_same_host(left: &Host, right: &Host) -> bool {
    match (left, right) {
        (Host::Domain(left), Host::Domain(right)) => {
            left.trim_end_matches('.') == right.trim_end_matches('.')
        }
        _ => address(left).is_some() && address(left) == address(right),
    }
}

/// The address; an IPv4-mapped IPv6 address as IPv4 (RFC 4291, section 2.5.5.2).
fn address(host: &Host) -> Option<IpAddr> {
    match host {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address).to_canonical()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own() -> Vec<Domain> {
        [
            "go.example.com",
            "127.0.0.1:8080",
            "[::1]:8080",
            "xn--bcher-kva.example",
        ]
        .map(|domain| Domain::parse(domain).unwrap())
        .into()
    }

    fn parse(text: &str) -> Result<String, TargetError> {
        TargetUrl::parse(text, &own()).map(|target| target.as_str().to_owned())
    }

    #[test]
    fn target_when_visible_ascii_is_kept_byte_for_byte() {
        for text in [
            "https://example.com",
            "HTTPS://Example.COM:443/A/../b/./c",
            "http://example.com:80?q=a|b^c`{}\"<>\\#f#g",
            "http://example.com:/x",
            "https://example.com./%7euser/%zz/%",
            "https://_dmarc.a_b.example.com/",
            "http://192.0.2.7:8080/a?b=1&b=2&amp;c",
            "http://[2001:DB8::1]:81/",
            "https://example.com/a\\b//c",
            "https://example.com/@user:pw@x",
            "https://example.com?next=http://go.example.com/x",
            "https://other.example/go.example.com",
            "https://go.example.com.evil.example/",
            "https://go.example.com:8443/",
            "http://127.0.0.1:8081/",
        ] {
            assert_eq!(parse(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn target_when_it_has_spaces_is_trimmed_and_encoded() {
        assert_eq!(
            parse("  https://example.com/a b?c d#Swiss Goats  ").unwrap(),
            "https://example.com/a%20b?c%20d#Swiss%20Goats"
        );
    }

    #[test]
    fn target_when_not_ascii_is_encoded_as_browsers_do() {
        for (text, sent) in [
            (
                "https://bücher.example.org/ä?ö#ü",
                "https://xn--bcher-kva.example.org/%C3%A4?%C3%B6#%C3%BC",
            ),
            (
                "HTTPS://EXAMPLE.com:443/a/../日本",
                "https://example.com/%E6%97%A5%E6%9C%AC",
            ),
            (
                "http://example.com/\u{2028}",
                "http://example.com/%E2%80%A8",
            ),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(sent));
        }
    }

    #[test]
    fn target_when_no_http_url_is_refused() {
        let long_label = format!("http://{}.com/", "a".repeat(64));
        let long_name = format!("http://{}com/", "a.".repeat(127));
        for (text, error) in [
            ("", TargetError::Empty),
            ("   ", TargetError::Empty),
            ("javascript:alert(1)", TargetError::Scheme),
            ("data:text/html,x", TargetError::Scheme),
            ("ftp://example.com/", TargetError::Scheme),
            ("example.com", TargetError::Scheme),
            ("//example.com", TargetError::Scheme),
            ("http:example.com", TargetError::Scheme),
            ("https:\\\\example.com", TargetError::Scheme),
            ("\u{feff}https://example.com", TargetError::Scheme),
            ("ht\ntp://example.com", TargetError::Control),
            (
                "https://example.com/a\r\nset-cookie: b",
                TargetError::Control,
            ),
            ("https://example.com/\u{0}", TargetError::Control),
            ("https://example.com/\u{7f}", TargetError::Control),
            ("https://example.com/\u{85}", TargetError::Control),
            ("\thttps://example.com", TargetError::Control),
            ("https://user@example.com/", TargetError::Credentials),
            ("https://user:pw@example.com/", TargetError::Credentials),
            ("https://@example.com/", TargetError::Credentials),
            ("https://", TargetError::Host),
            ("https:///example.com", TargetError::Host),
            ("https://?x", TargetError::Host),
            ("https://:80/", TargetError::Host),
            ("https://\"www.example.com/", TargetError::Host),
            ("https://exa mple.com/", TargetError::Host),
            ("https://ex%61mple.com/", TargetError::Host),
            ("https://example.com\\@evil.example/", TargetError::Host),
            ("https://example.com\\path", TargetError::Host),
            ("https://a..b/", TargetError::Host),
            ("https://./", TargetError::Host),
            ("https://example.com../", TargetError::Host),
            ("https://-a.example/", TargetError::Host),
            ("https://a-.example/", TargetError::Host),
            ("https://a!b.example/", TargetError::Host),
            ("https://[::1/", TargetError::Host),
            ("https://[::g]/", TargetError::Host),
            ("https://[::1]x/", TargetError::Host),
            ("https://999.1.1.1/", TargetError::Host),
            ("https://a\u{ad}\".bücher.example.org/", TargetError::Host),
            (long_label.as_str(), TargetError::Host),
            (long_name.as_str(), TargetError::Host),
            ("https://example.com:65536/", TargetError::Port),
            ("https://example.com:-1/", TargetError::Port),
            ("https://example.com:8o/", TargetError::Port),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn target_when_on_own_domain_is_refused() {
        for text in [
            "https://go.example.com",
            "http://go.example.com/abc",
            "https://GO.Example.Com/abc",
            "https://go.example.com./abc",
            "https://go.example.com:443/abc",
            "http://go.example.com:80/abc",
            "https://go.example.com:/abc",
            "https://go.example.com:80/abc",
            "http://127.0.0.1:8080/abc",
            "https://127.0.0.1:08080/abc",
            "http://0x7f.1:8080/abc",
            "http://2130706433:8080/abc",
            "http://127.0.0.1.:8080/abc",
            "http://[::ffff:127.0.0.1]:8080/abc",
            "http://[0:0:0:0:0:0:0:1]:8080/abc",
            "https://bücher.example/x",
            "https://BÜCHER.example/x",
            "https://go。example。com/x",
            "https://ｇｏ.example.com/x",
        ] {
            assert_eq!(parse(text), Err(TargetError::OwnDomain), "{text:?}");
        }
    }

    #[test]
    fn target_when_longer_than_bound_is_refused() {
        let start = "https://example.com/";
        let url = |length: usize| format!("{start}{}", "a".repeat(length - start.len()));
        assert!(parse(&url(MAX_URL_LENGTH)).is_ok());
        assert_eq!(parse(&url(MAX_URL_LENGTH + 1)), Err(TargetError::Length));
        assert_eq!(parse(&url(65_536)), Err(TargetError::Length));
        let grows = format!("{start}{}", " b".repeat(3_000));
        assert_eq!(parse(&grows), Err(TargetError::Length));
    }

    proptest! {
        #[test]
        fn target_when_accepted_is_accepted_again_unchanged(
            text in "(http|https|HTTP)://([a-z0-9._\"%-]{1,12}|[äöü.a]{1,5}|\\[[0-9a-f:.]{2,9}\\])(:[0-9]{0,6})?([/?#\\\\][ -~äß€]{0,20})?",
        ) {
            if let Ok(sent) = parse(&text) {
                prop_assert!(is_target(sent.as_bytes()));
                prop_assert_eq!(parse(&sent), Ok(sent));
            }
        }

        #[test]
        fn target_when_text_is_arbitrary_is_valid_or_refused(text in "\\PC{0,40}|(https?:)?[/\\\\]{0,3}.{0,40}") {
            if let Ok(sent) = parse(&text) {
                prop_assert!(is_target(sent.as_bytes()));
            }
        }

        #[test]
        fn path_when_visible_ascii_is_kept_byte_for_byte(rest in "[!-~]{0,60}") {
            let text = format!("https://example.com/{rest}");
            prop_assert_eq!(parse(&text), Ok(text));
        }
    }
}
