//! The traits of a host: what the logic needs from Envoy, or from a test in its place.
//!
//! None of these may call back into the logic before it returns. What may (sending a callout, answering a request) is
//! not here: the logic says what is to be done, and the contexts do it once it has returned.

use crate::settings::Described;
use std::net::IpAddr;
use std::ops::Deref;

/// The proxy's key-value store, shared by all workers.
pub trait SharedData {
    /// A value, for as long as it is looked at.
    type Value: Deref<Target = [u8]>;

    /// The value under `key` and its version, where there is one.
    fn get(&mut self, key: &str) -> Option<SharedValue<Self::Value>>;

    /// Writes the value under `key` if it still has version `cas`; with [`NEVER_WRITTEN`], whatever is there.
    fn set(&mut self, key: &str, value: &[u8], cas: Version) -> Result<(), CasMismatch>;
}

/// The version of a value in shared data, which each write changes.
pub type Version = u32;

/// The version to write with where there was no value.
pub const NEVER_WRITTEN: Version = 0;

/// A value in shared data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedValue<V> {
    /// The bytes, as they were written.
    pub value: V,
    /// The version, to be given back when the value is replaced.
    pub cas: u32,
}

/// Another worker has written in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CasMismatch;

/// The proxy's gRPC streams, which the bridge turns into connections to Redis.
///
/// The proxy must not be asked to cancel a stream from within a callback that brings a message of it: it may have more
/// messages of that stream at hand. From a tick, and from the callback for the stream's end, it may.
pub trait Streams {
    /// Whether streams belong to the root context that has opened them, and end with it.
    const END_WITH_ROOT: bool = true;

    /// Opens the stream `/{service}/{method}` at a cluster. `None` if the proxy refuses.
    fn open(&mut self, cluster: &str, service: &str, method: &str) -> Option<StreamToken>;

    /// Sends a message. Whether the proxy has taken it.
    fn send(&mut self, stream: StreamToken, message: &[u8]) -> bool;

    /// Resets a stream, and has the proxy forget it. One that has ended must be cancelled too, or the proxy keeps a
    /// record of it that points to nothing.
    fn cancel(&mut self, stream: StreamToken);
}

/// The number of a gRPC stream, as the proxy gives it.
pub type StreamToken = u32;

/// What the proxy knows of the client of the stream at hand.
pub trait Clients {
    /// The address of the client, as far as the proxy trusts who says so. `None` if it does not know it.
    fn client_address(&self) -> Option<IpAddr>;

    /// The header `Cookie` of its request; empty without one.
    fn cookies(&self) -> Vec<u8>;

    /// The header `User-Agent` of its request; empty without one.
    fn user_agent(&self) -> Vec<u8>;

    /// Says that of its request, for access logs and traces.
    fn describe(&self, what: Described, value: &[u8]);
}

/// The proxy's log.
pub trait Log {
    /// Writes a warning.
    fn warn(&mut self, message: &str);
}
