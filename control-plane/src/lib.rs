//! The control plane of edgelink: mints codes, owns the links, and tells the edges.
//!
//! [`server::run`] is the whole of it; [`cli`] is what people type.

pub mod cli;
pub mod clicks;
mod clock;
pub mod config;
pub mod feed;
pub mod http;
pub mod links;
pub mod numbers;
mod problem;
pub mod publisher;
pub mod purge;
pub mod redis;
#[cfg(test)]
mod reference;
pub mod resolve;
pub mod server;
pub mod snapshot;
pub mod store;
pub mod telemetry;
mod timestamp;
pub mod transfer;
