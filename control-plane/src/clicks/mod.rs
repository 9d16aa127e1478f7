//! Clicks: taking in what edges have counted, and finding out which links are hot.

mod hot;
mod ingest;

pub use hot::hot_links;
pub use ingest::{Counted, IngestError, count};
