//! Attributes by which clicks are counted, and the documents that hold the counts.

mod attribute;
pub mod rollup;
pub mod sketch;

pub use attribute::{Attribute, Bots, OTHER};

/// The links whose clicks a query covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClickScope {
    /// All links that a tenant has or had.
    Tenant(u32),
    /// A tenant's links on a domain.
    Domain {
        /// The tenant.
        tenant_id: u32,
        /// The domain.
        domain_id: u32,
    },
    /// These links.
    Links(Vec<u64>),
}
