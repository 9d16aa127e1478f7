//! The control plane of edgelink: issues codes, stores links, and publishes their changes to the edges.
//!
//! [`server::run`] runs it; [`cli`] is the command line.

mod admission;
#[cfg(test)]
mod allocations;
pub mod analytics;
pub mod cli;
pub mod clicks;
mod clock;
pub mod config;
mod console;
pub mod counts;
mod deadline;
pub mod doctor;
pub mod domains;
pub mod drawn;
pub mod feed;
pub mod http;
mod https;
mod latest;
mod lease;
mod limits;
pub mod links;
mod live;
mod low_water;
pub mod memory;
pub mod numbers;
mod oidc;
mod pem;
mod problem;
mod public;
pub mod publisher;
pub mod purge;
pub mod redis;
#[cfg(test)]
mod reference;
mod reloaded;
pub mod resolve;
mod runtime;
pub mod server;
pub mod service;
pub mod snapshot;
pub mod store;
pub mod telemetry;
pub mod tenancy;
mod timestamp;
mod token_bucket;
pub mod transfer;
mod ui;
pub mod visits;
pub mod webhooks;
