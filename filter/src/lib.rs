//! The proxy-wasm filter: callbacks in, host calls out. The logic in between is in `edgelink-filter-core`.
//!
//! It speaks the ABI (version 0.2.1) itself instead of through the Rust SDK, for three reasons. The SDK panics, and so
//! takes down the VM with all its requests, on any status it does not expect and on a callout's end whose token it does not
//! know. It ties a callout to the context that was active when it was made, so that a lookup with many waiters
//! would end with the client that came first. And it keeps a context object for every request, where a redirect from
//! the cache needs none.
//!
//! [`abi`] has all `unsafe` code. [`callbacks`] has the callbacks; only defined ones are called, which is why there are few.
//! A VM has a root context for each configuration that the proxy has in use, and each request uses the one that it belongs
//! to; singletons of a worker use the one that was configured last.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod abi;
mod callbacks;
mod envoy;
mod pairs;
mod worker;
