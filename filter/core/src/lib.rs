//! The resolving logic of the edgelink filter, without proxy-wasm, so that it runs and is tested natively.
//!
//! [`edge::Edge`] is the entry point: a request, the end of a callout or a tick goes in, and answers and actions come out.
//! A request that has to wait is a value in a table ([`flights`]), never a blocked call. Unless its address asks too often (`limit`),
//! the tiers are asked in this order:
//!
//! 1. the worker's LRU (`cache::lru`),
//! 2. admission (`admission`), which knows the codes that were never issued,
//! 3. the proxy's shared data (`cache::shared`),
//! 4. Redis, if there is one ([`redis`]), by the client in [`resp`],
//! 5. the control plane, by a callout ([`control_plane::callout`]), one at a time for each key,
//! 6. a stale link of 1 or 3, if it is not too old ([`freshness`]).
//!
//! With a feed from the control plane ([`control_plane`]), changes are applied to the first three (`feed`), and these keep
//! records fresh for longer (`freshness`).

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod admission;
pub mod answer;
mod api_domains;
pub mod cache;
mod clicks;
pub mod control_plane;
pub mod edge;
#[cfg(test)]
mod fake;
mod feed;
pub mod flights;
pub mod forms;
pub mod freshness;
pub mod host;
mod limit;
mod log_throttle;
pub mod metrics;
pub mod random;
pub mod redis;
pub mod request;
pub mod resp;
pub mod settings;
pub mod time;
mod traces;
mod visit;
mod visits;
mod warm;
