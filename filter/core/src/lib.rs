//! Placeholder.

pub mod resp;
