//! The traits of a host: what the logic needs from Envoy, or from a test in its place.
//!
//! None of these may call back into the logic before it returns. Calls that may (sending a callout, answering a request) are
//! not here: the logic returns them as actions, and the contexts carry them out.

pub use crate::resp::lookup::{HashAnswer, HashLookup, HashValues};

use crate::settings::{Described, RedisSettings};
use std::net::IpAddr;
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
    /// True if connections belong to the root context that has opened them, and end with it.
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

/// The proxy's log.
pub trait Log {
    /// Writes a warning.
    fn warn(&mut self, message: &str);
}
