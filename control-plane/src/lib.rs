//! The control plane of edgelink: mints codes, owns the links, and tells the edges.
//!
//! [`server::run`] is the whole of it; [`cli`] is what people type.

mod api;
mod app;
pub mod auth;
pub mod cli;
pub mod clicks;
mod clock;
pub mod config;
mod edge;
pub mod feed;
mod health;
pub mod links;
pub mod numbers;
mod pages;
mod problem;
pub mod publisher;
pub mod purge;
mod redirect;
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
