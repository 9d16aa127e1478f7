//! Domains: those of the configuration, which all tenants share, and those that the API has made, each of which belongs to a
//! tenant. They come into effect without a restart: every replica follows the feed, and reads them again from time to time.

pub mod model;
mod table;
mod verification;

pub(crate) use table::{DomainTable, NoDomain};
pub(crate) use verification::{Verdict, Verifier, record_name, record_value};
