//! Types that all floors of the control plane share: links, tenants and rights, counts, times.

#[cfg(any(test, feature = "testing"))]
pub mod allocations;
pub mod clock;
pub mod counts;
pub mod deadline;
pub mod drawn;
pub mod latest;
pub mod links;
pub mod memory;
#[cfg(any(test, feature = "testing"))]
pub mod reference;
pub mod runtime;
pub mod tenancy;
pub mod text;
pub mod timestamp;
pub mod token_bucket;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;
