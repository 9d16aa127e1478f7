//! The edge as a native module of Envoy (`envoy.filters.http.dynamic_modules`), with the logic of `edgelink-filter-core`.
//!
//! What it shares with the module of nginx is in `edgelink-process`: the edge of the process, its thread, and its connections to Redis
//! and to control planes. Here is Envoy's part: hooks, requests, configurations, routes, and metrics, which Envoy takes on its
//! main thread.
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
mod main_thread;
mod metrics;
mod request;
mod routes;
