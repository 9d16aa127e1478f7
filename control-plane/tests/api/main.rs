//! The control plane as its clients see it: the real server on a free port, with SQLite in a temporary folder, over real
//! HTTP.

mod accounts;
mod auth;
mod bodies;
mod bounds;
mod bulk;
mod changes;
mod commands;
mod creation;
mod edge;
mod edge_feed;
mod faults;
mod helpers;
mod idempotency;
mod limits;
mod listing;
mod operations;
mod publishing;
mod purging;
mod redirects;
mod scopes;
mod sources;
mod stopping;
mod tags;
mod transfer;
mod validation;
