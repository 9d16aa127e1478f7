//! What may stand between the scheme and the path of a target, and whether that is one of our own domains.

use super::TargetError;
use edgelink_wire::Domain;
use std::net::{IpAddr, Ipv6Addr};
use url::{Host, Url};

/// The rules for the authority as somebody wrote it.
///
/// A backslash is a slash to browsers and a part of the host to others: who checks the one host and visits the other is
/// deceived, so it may not stand here at all.
pub(super) fn check_written_authority(authority: &str) -> Result<(), TargetError> {
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

/// The rules for the authority as it is sent: an address or DNS labels, and a port. Parsers take more than that, a double
/// quote for example.
pub(super) fn check_sent_authority(authority: &str) -> Result<(), TargetError> {
    let (host, port) = split_port(authority);
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TargetError::Port);
    }
    if is_address_in_brackets(host) || is_dns_name(host) {
        Ok(())
    } else {
        Err(TargetError::Host)
    }
}

/// Splits at the colon before the port, which in an address with brackets is the one behind them.
fn split_port(authority: &str) -> (&str, &str) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    }
}

fn is_address_in_brackets(host: &str) -> bool {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// RFC 1035, section 2.3.4, with the underscore that RFC 2181, section 11, allows and many hosts have, and with the dot
/// of the root at the end. IPv4 addresses have this shape as well; the URL parser has looked at their numbers.
fn is_dns_name(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Whether `url` leads to `domain`. A domain without a port is served on the ports of http and https alike.
pub(super) fn is_on(url: &Url, domain: &Domain) -> bool {
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

fn is_same_host(left: &Host, right: &Host) -> bool {
    match (left, right) {
        (Host::Domain(left), Host::Domain(right)) => {
            left.trim_end_matches('.') == right.trim_end_matches('.')
        }
        _ => address(left).is_some() && address(left) == address(right),
    }
}

/// The address, as IPv4 where it is one in IPv6's clothes (RFC 4291, section 2.5.5.2).
fn address(host: &Host) -> Option<IpAddr> {
    match host {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address).to_canonical()),
    }
}
