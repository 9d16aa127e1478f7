//! A RESP2 client without input and output: bytes come in, bytes and answers go out.
//!
//! The bytes travel over a gRPC stream that `edgelink-resp-bridge` turns into a TCP connection, but nothing here knows
//! of that; the tests run it over a plain socket. Source of the format: the Redis documentation, "Redis serialization
//! protocol specification", version 2.
//!
//! - [`encode`] writes commands into a reused buffer.
//! - [`scan`] finds the end of a reply, however it was cut, looking at each byte once.
//! - [`reply`] is the content of a complete reply, borrowed from the bytes.
//! - [`decode`] combines these two.
//! - [`client`] is one connection: handshake, pipelining, deadlines, reconnecting; [`queue`] is a part.
//! - [`lookup`] is the one command that the hot path sends.
//!
//! # Why a decoder of our own
//! The crate `redis-protocol` 6.0 was evaluated and rejected, for three reasons that all matter on this path:
//!
//! 1. It allocates for every array (`RangeFrame::Array(Vec<_>)`, then an owned or `Bytes` frame built from it); the
//!    answer to a lookup is an array of seven. Here a reply is a view into the bytes as they came from the host.
//! 2. It starts over whenever more bytes arrive (`decode_range` has no state), so a 60 KB reply that comes in pieces
//!    costs the square of their number. Here a scan continues where it stopped.
//! 3. It accepts input that no Redis sends (lengths such as `+5` or `007`, two arbitrary bytes where CR LF belongs) and has
//!    no bound on nesting, on the elements of an array or on the length of a reply. Here all of it is an error, because the
//!    peer is not Redis, or the stream is out of sync.

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
