//! The keys of domains, which never change once given.

use super::error::Fault;
use super::session::Session;
use super::sql::sql;
use edgelink_wire::Domain;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

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

/// A domain that a tenant has made, and may remove, with that tenant: links are created there while both are as they were checked.
pub(super) type Made = (u32, u32);

/// The domains of the configuration, which are not removed; `None` if domains are not checked.
pub(super) type Configured = Option<Arc<[Domain]>>;

/// The domain if a tenant can have made it.
pub(super) fn made(configured: &Configured, domain: &Domain, row: Made) -> Option<Made> {
    let configured = configured.as_ref()?;
    (!configured.contains(domain)).then_some(row)
}

/// The condition of rows of domains that are not those of their tenants any more. The numbers are part of the text.
pub(super) fn are_gone(made: &[Made]) -> String {
    let gone = made
        .iter()
        .map(|(id, tenant_id)| format!("(id = {id} AND COALESCE(tenant_id, 0) <> {tenant_id})"));
    gone.collect::<Vec<_>>().join(" OR ")
}

/// Those of the domains that are not those of their tenants any more. The others stay until the transaction ends.
pub(super) async fn gone(session: &mut Session, made: &[Made]) -> Result<HashSet<Made>, Fault> {
    if made.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<u32> = made.iter().map(|(id, _)| *id).collect();
    let for_share = session.dialect().for_share;
    let query = sql("SELECT id, tenant_id FROM domains WHERE id IN ").list(&ids);
    let rows: Vec<(u32, Option<u32>)> = session.fetch_all(query.push(for_share)).await?;
    let is_gone = |(id, tenant_id): &&Made| !rows.contains(&(*id, Some(*tenant_id)));
    Ok(made.iter().filter(is_gone).copied().collect())
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

/// The key of a domain, if it has a row.
pub(super) async fn find(session: &mut Session, domain: &Domain) -> Result<Option<u32>, Fault> {
    let query = sql("SELECT id FROM domains WHERE name = ?").bind(domain);
    let row: Option<(u32,)> = session.fetch_optional(query).await?;
    Ok(row.map(|(id,)| id))
}
