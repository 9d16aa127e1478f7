//! The traits of a host: what the logic needs from Envoy, or from a test in its place.
//!
//! None of these may call back into the logic before it returns. Calls that may (sending a callout, answering a request) are
//! not here: the logic returns them as actions, and the contexts carry them out.

pub use crate::resp::lookup::{HashAnswer, HashLookup, HashValues};

use crate::settings::{Described, RedisSettings};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;

/// The proxy's key-value store, shared by all workers.
pub trait SharedData {
    /// A value that was read.
    type Value: Deref<Target = [u8]>;

    /// The value under `key` and its version, if there is one.
    fn get(&mut self, key: &str) -> Option<SharedValue<Self::Value>>;

    /// Writes the value under `key` if it still has version `cas`; with [`NEVER_WRITTEN`], unconditionally.
    fn set(&mut self, key: &str, value: &[u8], cas: Version) -> Result<(), CasMismatch>;
}

/// Prefix of the keys of records in shared data, in front of the number of a slot in hexadecimal.
pub const SLOT_PREFIX: &str = "edgelink.slot.";

/// Key of the places of the feed in shared data, which outlive workers like records.
pub const FEED_KEY: &str = "edgelink.feed";

/// The version of a value in shared data, which each write changes.
pub type Version = u32;

/// The version to write with if there was no value.
pub const NEVER_WRITTEN: Version = 0;

/// A value in shared data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedValue<V> {
    /// The bytes, as they were written.
    pub value: V,
    /// The version, to be passed when the value is replaced.
    pub cas: u32,
}

/// Another worker has written in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CasMismatch;

/// Connections to Redis. Each carries bytes of RESP ([`Lookups::send`]), or, where the host's own client speaks the protocol
/// ([`has_client`](crate::resp::client::ClientSettings::has_client)), lookups ([`Lookups::look_up`]).
///
/// A connection must not be closed from within a callback with something that came on it: the host may have more to deliver. From a
/// tick, and from the callback for the connection's end, it may.
pub trait Lookups {
    /// True if connections and callouts belong to the root context that has opened them, and end with it.
    const END_WITH_ROOT: bool = true;

    /// True if the host may have a client of its own.
    const HAS_CLIENT: bool = false;

    /// Opens a connection. `None` if the host refuses.
    fn open(&mut self, redis: &RedisSettings) -> Option<ConnectionToken>;

    /// Sends bytes. Returns `false` if the host refuses them.
    fn send(&mut self, connection: ConnectionToken, bytes: &[u8]) -> bool;

    /// Reads fields of a hash. Returns `false` if the connection has ended. Each lookup is answered, in any order, within the timeout of
    /// the settings, unless its connection ends before.
    fn look_up(&mut self, _: ConnectionToken, _: HashLookup) -> bool {
        false
    }

    /// Closes a connection, and has the host forget it. An ended one must be closed too.
    fn close(&mut self, connection: ConnectionToken);
}

/// The number of a connection, unique within the host.
pub type ConnectionToken = u32;

/// Something that has happened to a connection.
#[derive(Clone, Copy, Debug)]
pub enum RedisEvent<'a> {
    /// The host's own client has connected.
    Connected,
    /// The host's own client answers lookups.
    Answered(&'a [HashAnswer]),
    /// Bytes have come.
    Data(&'a [u8]),
    /// The connection has ended, or could not be made.
    Closed,
}

/// The client of the current stream, as the proxy knows it.
pub trait Clients {
    /// The address of the client, according to sources that the proxy trusts. `None` if it does not know it.
    fn client_address(&self) -> Option<IpAddr>;

    /// The header `Cookie` of its request; empty without one.
    fn cookies(&self) -> Vec<u8>;

    /// The header `User-Agent` of its request; empty without one.
    fn user_agent(&self) -> Vec<u8>;

    /// Attaches an attribute to its request, for access logs and traces.
    fn describe(&self, what: Described, value: &[u8]);
}

/// The address in front of a port, as proxies write it: `192.0.2.1:80` or `[2001:db8::1]:80`. `None` if it is something else.
#[must_use]
pub fn address_of(text: &[u8]) -> Option<IpAddr> {
    if let Some(address) = ipv4_of(text) {
        return Some(address.into());
    }
    let text = std::str::from_utf8(text).ok()?;
    Some(text.parse::<SocketAddr>().ok()?.ip())
}

/// The IPv4 address in front of a port: the standard parser takes ten times as long.
fn ipv4_of(text: &[u8]) -> Option<Ipv4Addr> {
    let (mut bits, mut octet, mut digits, mut dots) = (0u32, 0u32, 0, 0);
    for byte in text {
        match byte {
            b'0'..=b'9' if digits < 3 => {
                octet = octet * 10 + u32::from(byte - b'0');
                digits += 1;
            }
            b'.' | b':' if digits > 0 && octet <= 255 => {
                bits = bits << 8 | octet;
                if *byte == b':' {
                    return (dots == 3).then(|| Ipv4Addr::from_bits(bits));
                }
                (octet, digits, dots) = (0, 0, dots + 1);
            }
            _ => return None,
        }
    }
    None
}

/// The proxy's log.
pub trait Log {
    /// Writes a warning.
    fn warn(&mut self, message: &str);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn address_when_written_with_a_port_is_read() {
        for (text, expected) in [
            ("192.0.2.1:80", Some("192.0.2.1")),
            ("255.255.255.255:65535", Some("255.255.255.255")),
            ("0.0.0.0:0", Some("0.0.0.0")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("[::ffff:192.0.2.1]:80", Some("::ffff:192.0.2.1")),
            ("192.0.2.1", None),
            ("192.0.2.256:80", None),
            ("192.0.2:80", None),
            ("192.0.2.1.5:80", None),
            ("192.0..1:80", None),
            ("0192.0.2.1:80", None),
            ("/run/edge.sock", None),
            ("", None),
        ] {
            let expected = expected.map(|address| address.parse().unwrap());
            assert_eq!(address_of(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn address_when_written_is_read_again(address: SocketAddr) {
            prop_assert_eq!(address_of(address.to_string().as_bytes()), Some(address.ip()));
        }
    }
}
