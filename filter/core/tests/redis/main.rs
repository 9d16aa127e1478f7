//! The RESP client against a real redis-server of the test's own, over a plain socket.
//!
//! What a real server never sends, garbage and half replies, comes from a socket that the test serves itself.

mod client;
mod driver;
mod server;
