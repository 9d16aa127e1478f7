//! Domains: configured ones, which all tenants share, and ones created by the API, each of which belongs to a tenant. Changes take
//! effect without a restart: every replica follows the feed, and rereads the domains from time to time.

pub mod model;
mod table;
mod verification;

pub use table::{DomainTable, NoDomain};
pub use verification::{Verification, Verifier, record_name, record_value};
