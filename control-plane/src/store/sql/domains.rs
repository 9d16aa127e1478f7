//! The keys of domains, which never change once given.

use edgelink_wire::Domain;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// The keys seen so far. Only domains that have a row get in, so it grows no larger than their table.
#[derive(Debug, Default)]
pub(in crate::store) struct DomainKeys(RwLock<HashMap<Domain, u32>>);

impl DomainKeys {
    /// The key of a domain, if it was seen.
    pub(in crate::store) fn get(&self, domain: &Domain) -> Option<u32> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(domain).copied()
    }

    /// Remembers the key of a domain.
    pub(in crate::store) fn insert(&self, domain: Domain, id: u32) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(domain, id);
    }
}
