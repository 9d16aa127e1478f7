//! The traits of a host: what the logic needs from Envoy, or from a test in its place.
//!
//! None of these may call back into the logic before it returns. Calls that may (sending a callout, answering a request) are
//! not here: the logic returns them as actions, and the contexts carry them out.

use crate::settings::Described;
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

/// The proxy's gRPC streams, which the bridge turns into connections to Redis.
///
/// A stream must not be cancelled from within a callback with one of its messages: the proxy may have more of them to deliver.
/// From a tick, and from the callback for the stream's end, it may.
pub trait Streams {
    /// True if streams belong to the root context that has opened them, and end with it.
    const END_WITH_ROOT: bool = true;

    /// Opens the stream `/{service}/{method}` at a cluster. `None` if the proxy refuses.
    fn open(&mut self, cluster: &str, service: &str, method: &str) -> Option<StreamToken>;

    /// Sends a message. Returns `false` if the proxy refuses it.
    fn send(&mut self, stream: StreamToken, message: &[u8]) -> bool;

    /// Resets a stream, and has the proxy forget it. An ended stream must be cancelled too, or the proxy keeps a dangling record
    /// of it.
    fn cancel(&mut self, stream: StreamToken);
}

/// The number of a gRPC stream, as the proxy gives it.
pub type StreamToken = u32;

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
