//! A RESP2 client without input and output: bytes come in, bytes and answers go out.
//!
//! The bytes travel over a gRPC stream that `edgelink-resp-bridge` turns into a TCP connection, but nothing here knows
//! of that; the tests run it over a plain socket. Source of the format: the Redis documentation, "Redis serialization
//! protocol specification", version 2.
//!
//! - [`encode`] writes commands into a buffer that is used again and again.
//! - [`scan`] finds where a reply ends, however it was cut, looking at each byte once.
//! - [`reply`] is what a complete reply says, borrowed from the bytes.
//! - [`decode`] puts these two together.
//! - [`client`] is one connection: handshake, pipelining, deadlines, reconnecting; [`queue`] is a part.
//! - [`lookup`] is the one command that the hot path sends.
//!
//! # Why a decoder of our own
//! The crate `redis-protocol` 6.0 was read and not taken, for three reasons that all count on this path:
//!
//! 1. It allocates for every array (`RangeFrame::Array(Vec<_>)`, then an owned or `Bytes` frame built from it); the
//!    answer to a lookup is an array of seven. Here a reply is a view into the bytes as they came from the host.
//! 2. It starts again whenever more bytes arrive (`decode_range` has no state), so a 60 KB reply that comes in pieces
//!    costs the square of their number. Here a scan continues where it stopped.
//! 3. It takes what no Redis sends (lengths such as `+5` or `007`, two arbitrary bytes where CR LF belongs) and has no
//!    bound on nesting, on the elements of an array or on the length of a reply. Here all of it is an error, for a peer
//!    that sends it is not Redis, or the stream has lost its place.

pub mod client;
pub mod decode;
pub mod encode;
pub mod lookup;
pub mod queue;
pub mod reply;
pub mod scan;

pub use client::write_auth;
pub use client::{Client, Event, Failure, Output, Reason, Rejected, Rejection};
pub use reply::Reply;
