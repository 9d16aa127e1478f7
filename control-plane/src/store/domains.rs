//! The keys of domains, which never change once given.

use super::error::Fault;
use super::session::Session;
use super::sql::sql;
use edgelink_wire::Domain;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// The keys read so far. Only domains with a row are inserted, so it grows no larger than their table.
#[derive(Debug, Default)]
pub(super) struct DomainKeys(RwLock<HashMap<Domain, u32>>);

impl DomainKeys {
    /// The key of a domain, if it was read.
    pub(super) fn get(&self, domain: &Domain) -> Option<u32> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(domain).copied()
    }

    /// Inserts the key of a domain.
    pub(super) fn insert(&self, domain: Domain, id: u32) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(domain, id);
    }
}

/// Adds a domain unless it exists; its key. Another process may add it in between.
pub(super) async fn add(session: &mut Session, domain: &Domain) -> Result<u32, Fault> {
    if let Some(id) = find(session, domain).await? {
        return Ok(id);
    }
    let insert = sql("INSERT INTO domains (name) VALUES (?)").bind(domain);
    match session.execute(insert).await {
        Err(fault) if !fault.is_duplicate() => return Err(fault),
        _ => {}
    }
    find(session, domain).await?.ok_or(Fault::Contended)
}

async fn find(session: &mut Session, domain: &Domain) -> Result<Option<u32>, Fault> {
    let query = sql("SELECT id FROM domains WHERE name = ?").bind(domain);
    let row: Option<(u32,)> = session.fetch_optional(query).await?;
    Ok(row.map(|(id,)| id))
}
