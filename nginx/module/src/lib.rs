//! The edge as a dynamic module of nginx, with the logic of `edgelink-filter-core`.
//!
//! What it shares with the module of Envoy is in `edgelink-process`: the edge of a process, its thread, and its connections to Redis
//! and to control planes. Each worker process of nginx has an edge of its own. Here is nginx's part:
//!
//! - [`abi`]: all that nginx calls, and all calls into nginx.
//! - [`metrics`]: counts in memory that all workers share, and their text.
//! - [`slots`]: records of links in that memory.
//!
//! All `unsafe` code is in [`abi`]. A panic does not cross into nginx: it costs one request, and the edge restarts empty.

#![deny(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod abi;
mod metrics;
mod processes;
mod slots;
