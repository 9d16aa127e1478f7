//! Turns a gRPC stream into a plain byte stream and back, inside Envoy.
//!
//! proxy-wasm offers its filters HTTP and gRPC callouts, but no TCP. A gRPC stream is nearly a TCP connection: it stays
//! open and goes both ways. The only difference is the 5-byte header before each gRPC message. This filter sits on an
//! internal listener, takes that header off the request and puts one before each chunk of the response, and a route with
//! `connect_config.allow_post` then carries the bare bytes over TCP to Redis.
//!
//! - [`frame`] has all of the logic and knows nothing of proxy-wasm; it is tested natively.
//! - `bridge` (wasm32 only) is the HTTP filter, and only translates.
//!
//! The filter keeps six bytes of state per direction and never buffers. It must run under a `vm_id` of its own: stream
//! tokens of two plugins in one VM would collide.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(target_arch = "wasm32")]
mod bridge;
pub mod frame;
