//! Tier 4: a worker's lookups in Redis, on one connection.
//!
//! The connection is retried for ever once a worker has seen its first request: before that there is nothing to look up,
//! and the copy of the plugin on Envoy's main thread, which can reach no internal listener, never sees one.

pub(crate) mod connection;
pub(crate) mod probes;
mod transport;

pub(crate) use connection::{LookupAnswer, RedisConnection};
pub(crate) use probes::FeedView;
