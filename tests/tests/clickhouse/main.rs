//! The engine in ClickHouse: on Debian's server, and on today's.

mod engines;
mod faults;
mod fixture;
mod model;
mod questions;
mod retention;
