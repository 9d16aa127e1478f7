//! The control plane of edgelink: issues codes, stores links, and publishes their changes to the edges.
//!
//! [`server::run`] runs it; [`cli`] is the command line.

pub mod cli;
pub mod doctor;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod permission_matrix;
pub mod server;
