//! Tests of every engine, written once and run on the one in the database, on SQLite and on a server (see [`crate::store`]), and on
//! the one in ClickHouse, as chdb has it. [`fixture::Differences`] lists all that they may differ in.

#[macro_use]
pub(crate) mod fixture;

pub(crate) mod answers;
mod deleting;
pub(crate) mod model;
pub(crate) mod random;
mod retention;
pub(crate) mod single;
mod writing;
