//! The engine in ClickHouse, as chdb has it.

mod engines;
mod faults;
mod fixture;
mod model;
mod questions;
mod retention;
