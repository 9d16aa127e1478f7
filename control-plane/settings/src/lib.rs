//! Settings, and what they alone decide: admission, the table of domains, blocks of visits; logs, metrics and traces.

pub mod admission;
pub mod config;
pub mod domains;
pub mod https;
pub mod pem;
pub mod reloaded;
pub mod telemetry;
pub mod visits;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: edgelink_model::allocations::Counting = edgelink_model::allocations::Counting;
