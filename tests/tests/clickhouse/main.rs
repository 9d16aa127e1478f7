//! The engine in ClickHouse: on Debian's server, and on today's.

mod faults;
mod fixture;
mod model;
mod questions;
mod retention;
