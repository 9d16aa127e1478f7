//! Tests of what only the engine in ClickHouse has: minutes, tables, and a server that may fail. [`crate::engines`] has the rest.

mod faults;
mod fixture;
mod tables;
