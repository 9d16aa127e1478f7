//! What is served over HTTP: the admin API, the edge API, redirects, probes and metrics, and what each request goes through.

mod api;
pub(crate) mod app;
pub mod auth;
mod edge_api;
mod health;
mod layers;
pub(crate) mod observe;
mod pages;
mod redirect;
pub(crate) mod routes;
