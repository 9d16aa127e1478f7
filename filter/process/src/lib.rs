//! The edge of a process with several threads, with the logic of `edgelink-filter-core`: what the modules of Envoy and of nginx share.
//!
//! There is one [`Edge`](edgelink_filter_core::edge::Edge) for the process and not one for each worker: one cache, one feed, one
//! report of clicks, one connection to Redis. Workers answer from its cache side by side, and take turns at it for all else
//! ([`process`]). Work is divided among two kinds of threads:
//!
//! - [`stream`]: requests, on the thread of their worker. A waiting request is woken through its [`Waker`].
//! - [`thread`]: the tick, and the connections to Redis ([`redis`]) and to control planes ([`control_plane`]), on a thread of the
//!   module's own.
//!
//! The proxy is behind two traits ([`proxy`]), and behind the logger of `log`. A panic costs one request, and the edge restarts empty.

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

pub mod control_plane;
mod host;
mod host_log;
pub mod metrics;
mod orders;
pub mod panics;
pub mod process;
pub mod proxy;
mod redis;
pub mod reply;
pub mod routes;
pub mod stream;
mod system;
#[cfg(feature = "testing")]
pub mod testing;
mod thread;
mod tls;
mod turns;
mod worker;

pub use host_log::HostLog;
pub use process::callouts::check;
pub use proxy::{Request, SharedTable, Wake, Waker};
pub use thread::end_thread;
