//! The edge as a native module of Envoy (`envoy.filters.http.dynamic_modules`), with the logic of `edgelink-filter-core`.
//!
//! There is one [`Edge`](edgelink_filter_core::edge::Edge) for the process and not one for each worker: one cache, one feed, one
//! report of clicks, one connection to Redis. Workers take turns at it, each for less than a microsecond ([`process`]).
//! Work is divided among three kinds of threads:
//!
//! - [`stream`]: requests, on the thread of their worker. A waiting request is woken through its scheduler.
//! - [`main_thread`]: callouts to the control plane through Envoy's own cluster, with its TLS, its token and its health checks;
//!   and metrics.
//! - [`redis`]: the connection to Redis, and the tick, on a thread of the module's own.
//!
//! All `unsafe` code is in [`abi`] and [`hooks`]. A panic does not cross the ABI: it costs one request, and the edge restarts
//! empty.

#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod abi;
mod hooks;
mod host;
mod main_thread;
mod metrics;
mod orders;
mod panics;
mod process;
mod redis;
mod reply;
mod routes;
mod stream;
mod worker;
