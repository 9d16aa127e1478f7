//! The control plane as its clients see it: the real server on a free port, with SQLite in a temporary folder, over real
//! HTTP.

mod auth;
mod bodies;
mod bounds;
mod changes;
mod commands;
mod creation;
mod edge;
mod faults;
mod helpers;
mod listing;
mod operations;
mod redirects;
mod stopping;
mod validation;
