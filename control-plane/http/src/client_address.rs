//! The address of a client, also behind proxies.

use edgelink_settings::config::Network;
use http::HeaderMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The network part of an IPv6 address: a client has all addresses in it.
const NETWORK: u128 = !0 << 64;

/// The peer of the connection of a request, as an extension of each request.
#[derive(Clone, Copy, Debug)]
pub struct PeerIp(pub IpAddr);

/// The address of the client of a request.
///
/// This is the peer's address, unless the peer is a trusted proxy. Then `X-Forwarded-For` is walked from its end: elements written
/// by a trusted proxy are believed, so the first address that is not a trusted proxy's is the client's. Elements before it were
/// written by the client, or by untrusted proxies, and may be made up. If an element is not an address, the proxy after it counts.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    let texts = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    let mut client = peer.to_canonical();
    for text in texts {
        if !is_trusted(client) {
            break;
        }
        let Some(before) = parse(text) else {
            break;
        };
        client = before;
    }
    client
}

/// An address, also with a port, as some proxies write it.
fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    let address = text.parse().or_else(|_| with_port());
    address.ok().map(|address: IpAddr| address.to_canonical())
}

/// The address under which a client is counted.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::settings::{Problems, SettingValue};
    use http::HeaderValue;

    fn client(peer: &str, lines: &[&str]) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8:aaaa::/48"]
            .map(|text| Network::read(text.into(), "", &mut Problems::default()).unwrap());
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
        }
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn forwarded_address_when_sender_is_untrusted_is_ignored() {
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(
            client("192.0.2.1", &["198.51.100.7, 10.0.0.1"]),
            "192.0.2.1"
        );
        assert_eq!(client("::ffff:192.0.2.1", &[]), "192.0.2.1");
    }

    #[test]
    fn client_address_when_behind_proxies_is_the_last_foreign_one() {
        for (lines, expected) in [
            (&["198.51.100.7"][..], "198.51.100.7"),
            (&["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
            (
                &["1.1.1.1, 198.51.100.7,10.2.3.4 , 2001:db8:aaaa::5"],
                "198.51.100.7",
            ),
            (&["1.1.1.1", "198.51.100.7", "10.2.3.4"], "198.51.100.7"),
            (
                &["10.0.0.1, 198.51.100.7:4711, 10.2.3.4:80"],
                "198.51.100.7",
            ),
            (&["[2001:db8::7]:443"], "2001:db8::7"),
            (&["::ffff:198.51.100.7"], "198.51.100.7"),
        ] {
            assert_eq!(client("10.0.0.9", lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn client_address_when_all_are_proxies_is_the_last_known() {
        for (lines, expected) in [
            (&[][..], "10.0.0.9"),
            (&["10.0.0.1"], "10.0.0.1"),
            (&["unknown"], "10.0.0.9"),
            (&["198.51.100.7, unknown, 10.0.0.2"], "10.0.0.2"),
            (&["198.51.100.7, "], "10.0.0.9"),
        ] {
            assert_eq!(client("10.0.0.9", lines), expected, "{lines:?}");
        }
    }
}
