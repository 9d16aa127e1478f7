//! The control plane of edgelink: mints codes, owns the links, and tells the edges.

pub mod issuer;
pub mod model;
pub mod store;
pub mod target;
