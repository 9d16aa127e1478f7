//! The HTTP interface: admin API, edge API, redirects, probes and metrics, and the layers around them.

pub(crate) mod admitted;
mod answers;
pub(crate) mod api;
pub(crate) mod app;
pub(crate) mod arriving;
pub(crate) mod asking;
pub mod auth;
pub(crate) mod bounded;
pub(crate) mod client_address;
mod counting;
mod edge_api;
mod edge_health;
mod health;
pub(crate) mod layers;
pub(crate) mod limits;
pub(crate) mod observe;
mod openapi;
mod pages;
pub(crate) mod redirect;
pub(crate) mod routes;
mod seal;
mod shlink;
pub(crate) mod tenant_links;
mod unlock;
mod visit;
mod visit_workers;
