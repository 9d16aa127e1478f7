//! Load for benchmarks.
//!
//! [`ask`] is an HTTP client that keeps to a rate whatever the server does, or asks as fast as it is answered.
//! [`simulate`] sends skewed traffic through the filter's logic without any server, the same in every run. [`Traffic`] is
//! the traffic of both.

mod client;
mod connection;
mod simulation;
mod traffic;

pub use client::{AskReport, AskSpec, ask};
pub use simulation::{SimulateReport, SimulateSpec, is_target, link, simulate};
pub use traffic::{Pick, Traffic, random, zipf_weight};
