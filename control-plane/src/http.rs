//! The HTTP interface: admin API, edge API, redirects, probes and metrics, and the layers around them.

pub(crate) mod admitted;
pub(crate) mod answers;
pub(crate) mod api;
pub(crate) mod app;
pub(crate) mod arriving;
pub mod auth;
pub(crate) mod bounded;
pub(crate) mod client_address;
mod counting;
pub(crate) mod edge_api;
mod edge_health;
pub(crate) mod health;
pub(crate) mod layers;
pub(crate) mod limits;
pub(crate) mod observe;
pub(crate) mod openapi;
mod pages;
mod published;
pub(crate) mod redirect;
pub(crate) mod shlink;
pub(crate) mod unlock;
pub(crate) mod visit;
mod visit_workers;
