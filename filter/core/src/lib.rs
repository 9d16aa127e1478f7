//! Placeholder.

pub mod feed;
pub mod resp;
