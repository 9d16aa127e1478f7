//! The HTTP interface: admin API, edge API, redirects, probes and metrics, and the layers around them.

pub mod admitted;
pub mod answers;
pub mod api;
pub mod app;
pub mod arriving;
pub mod auth;
pub mod bounded;
pub mod client_address;
mod counting;
pub mod edge_api;
pub mod health;
pub mod layers;
pub mod limits;
pub mod observe;
pub mod openapi;
mod pages;
pub mod redirect;
pub mod shlink;
pub mod ui;
pub mod unlock;
pub mod visit;
