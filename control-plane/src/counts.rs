//! What clicks are counted by, and the documents that hold the counts.

mod attribute;
pub mod rollup;
pub mod sketch;

pub use attribute::{Attribute, Bots, OTHER};

/// Whose clicks are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of all links that a tenant has or had.
    Tenant(u32),
    /// Those of its links on a domain.
    Domain {
        /// The tenant.
        tenant_id: u32,
        /// The domain.
        domain_id: u32,
    },
    /// Those of these links.
    Links(Vec<u64>),
}
