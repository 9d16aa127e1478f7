//! The hosts that short links live on.

use std::fmt;
use std::str::FromStr;

/// The longest domain in bytes: 253 of a DNS name (RFC 1035, section 2.3.4), a colon and five digits of a port.
pub const MAX_DOMAIN_LENGTH: usize = 259;

/// The host of a short URL in lower case, with its port unless that is the default: `go.example.com`, `127.0.0.1:8080`,
/// `[::1]:8080`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain(Box<str>);

/// The message for a domain that a link cannot use: it does not exist, or belongs to another tenant.
pub const UNKNOWN: &str = "is not a domain of this shortener";

/// A violated rule of domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// Empty or too long.
    #[error("must be 1 to 259 characters long")]
    Length,
    /// Not a DNS name, an IPv4 address or an IPv6 address in brackets.
    #[error(
        "must be a host name or address, for example go.example.com, without scheme, path or user"
    )]
    Host,
    /// Not a number of 1 to 65535.
    #[error("has a port that is not a number of 1 to 65535")]
    Port,
}

impl Domain {
    /// Parses a host with an optional port, and folds it to lower case.
    ///
    /// # Errors
    /// The [`DomainError`] that says which rule is broken.
    pub fn parse(text: &str) -> Result<Self, DomainError> {
        if text.is_empty() || text.len() > MAX_DOMAIN_LENGTH {
            return Err(DomainError::Length);
        }
        let (host, port) = split_port(text);
        if text.contains('/') || !(is_address_in_brackets(host) || is_dns_name(host, b"")) {
            return Err(DomainError::Host);
        }
        if port.is_some_and(|port| !is_port(port)) {
            return Err(DomainError::Port);
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }

    /// The domain as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host without the port.
    #[must_use]
    pub fn host(&self) -> &str {
        split_port(&self.0).0
    }

    /// True if the value of a `Host` header names this domain; the case of ASCII letters does not matter.
    #[must_use]
    pub fn matches(&self, host: &[u8]) -> bool {
        self.0.as_bytes().eq_ignore_ascii_case(host)
    }
}

/// A host without a default port and without a trailing dot.
#[must_use]
pub fn without_defaults(host: &[u8]) -> &[u8] {
    let host = [&b":443"[..], b":80"]
        .into_iter()
        .find_map(|port| host.strip_suffix(port))
        .unwrap_or(host);
    host.strip_suffix(b".").unwrap_or(host)
}

/// Splits at the colon before the port, which in an address with brackets follows them.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    }
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit())
        && !port.starts_with('0')
        && port.parse::<u16>().is_ok()
}

/// True if `host` is an IPv6 address in brackets, as in a URL (RFC 3986, section 3.2.2).
#[must_use]
pub fn is_address_in_brackets(host: &str) -> bool {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
}

/// True if `name` has the shape of a DNS name (RFC 1035, section 2.3.4) without the trailing dot, with letters, digits, hyphens
/// and the bytes of `more` in its labels. IPv4 addresses have this shape as well.
#[must_use]
pub fn is_dns_name(name: &str, more: &[u8]) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || more.contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Domain {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for Domain {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_when_parsed_is_lower_case_and_keeps_port() {
        for (text, domain, host) in [
            ("Go.Example.COM", "go.example.com", "go.example.com"),
            ("127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1"),
            ("[::1]:8080", "[::1]:8080", "[::1]"),
            ("[2001:DB8::1]", "[2001:db8::1]", "[2001:db8::1]"),
            ("localhost", "localhost", "localhost"),
        ] {
            let parsed = Domain::parse(text).unwrap();
            assert_eq!(parsed.as_str(), domain);
            assert_eq!(parsed.host(), host);
            assert!(parsed.matches(text.as_bytes()));
        }
    }

    #[test]
    fn domain_when_malformed_is_refused() {
        let long = "a.".repeat(130);
        let label = format!("{}.com", "a".repeat(64));
        for (text, error) in [
            ("", DomainError::Length),
            (long.as_str(), DomainError::Length),
            (label.as_str(), DomainError::Host),
            ("https://a.example", DomainError::Host),
            ("a.example/b", DomainError::Host),
            ("user@a.example", DomainError::Host),
            ("a..example", DomainError::Host),
            ("-a.example", DomainError::Host),
            ("a_b.example", DomainError::Host),
            ("bücher.example", DomainError::Host),
            ("::1", DomainError::Host),
            ("[::1", DomainError::Host),
            ("a.example:", DomainError::Port),
            ("a.example:0", DomainError::Port),
            ("a.example:65536", DomainError::Port),
            ("a.example:+80", DomainError::Port),
        ] {
            assert_eq!(Domain::parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn host_header_when_not_utf8_matches_no_domain() {
        let domain = Domain::parse("go.example.com").unwrap();
        assert!(domain.matches(b"GO.example.com"));
        assert!(!domain.matches(b"go.example.com\xff"));
        assert!(!domain.matches(b""));
    }
}
