//! The ids of domains, to which rows of links refer.
//!
//! An id is valid only for the current state of one database: after losing changes, it reassigns ids of lost domains. So a cached
//! id is a guess, which the transaction that relies on it checks against the name.

use super::ids::{IdTable, next_id};
use edgelink_database::columns::text;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Value, sql};
use edgelink_wire::Domain;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

/// Cache of ids. Only domains with a row are inserted, so it grows no larger than their table.
#[derive(Debug, Default)]
pub(super) struct DomainKeys(RwLock<HashMap<Domain, u32>>);

impl DomainKeys {
    /// The cached id of a domain.
    pub(super) fn get(&self, domain: &Domain) -> Option<u32> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(domain).copied()
    }

    /// Inserts the id of a domain.
    pub(super) fn insert(&self, domain: Domain, id: u32) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(domain, id);
    }

    /// Drops all ids, as the database has lost changes.
    pub(super) fn clear(&self) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.clear();
    }
}

/// The names of domains by id, for a scan, which joins no tables: the optimizer could choose another join order with each change
/// of its statistics.
#[derive(Debug, Default)]
pub struct DomainNames(HashMap<u32, String>);

impl DomainNames {
    /// True if all these ids have a name.
    pub(super) fn have_all(&self, mut ids: impl Iterator<Item = u32>) -> bool {
        ids.all(|id| self.0.contains_key(&id))
    }

    /// Reads all names.
    pub(super) async fn read(&mut self, session: &mut Session) -> Result<(), Fault> {
        let rows: Vec<(u32, Vec<u8>)> = session
            .fetch_all(sql("SELECT id, name FROM domains"))
            .await?;
        for (id, name) in rows {
            self.0.insert(id, text(&name)?.to_owned());
        }
        Ok(())
    }

    /// `{domain}/{code}` of a link.
    pub(super) fn key(&self, domain: u32, code: &[u8]) -> Result<String, Fault> {
        // Links refer to domains by a foreign key: a domain without a name was removed with them since the page was read.
        let name = self.0.get(&domain).ok_or(Fault::Contended)?;
        Ok(format!("{name}/{}", text(code)?))
    }
}

/// The configured domains, which cannot be removed; `None` if domains are not checked.
pub(super) type Configured = Option<Arc<[Domain]>>;

/// The tenant that has to own the domain for a link of `tenant_id` to be put there; `None` if the domain is configured, or
/// domains are not checked.
pub(super) fn required_tenant(
    configured: &Configured,
    domain: &Domain,
    tenant_id: u32,
) -> Option<u32> {
    let configured = configured.as_ref()?;
    (!configured.contains(domain)).then_some(tenant_id)
}

/// A domain by its cached id, as required by a new link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExpectedDomain<'a> {
    pub(super) id: u32,
    pub(super) name: &'a Domain,
    /// See [`required_tenant`].
    pub(super) tenant_id: Option<u32>,
}

/// The condition that domains are as expected, as text without parameters. A plain read finds their rows by id.
pub(super) fn are_as_expected(expected: &BTreeSet<ExpectedDomain<'_>>, primary: &str) -> String {
    let mut text = format!("(SELECT COUNT(*) FROM domains{primary} WHERE ");
    for (index, domain) in expected.iter().enumerate() {
        text.push_str(if index == 0 { "(id = " } else { " OR (id = " });
        Value::from(domain.id).write(&mut text);
        text.push_str(" AND name = ");
        Value::from(domain.name).write(&mut text);
        if let Some(tenant_id) = domain.tenant_id {
            text.push_str(" AND tenant_id = ");
            Value::from(tenant_id).write(&mut text);
        }
        text.push(')');
    }
    text.push_str(&format!(") = {}", expected.len()));
    text
}

/// A stored domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredDomain {
    pub(super) id: u32,
    /// The tenant that owns it; `None` if its row only gives links their domain.
    tenant_id: Option<u32>,
}

impl StoredDomain {
    /// True if it belongs to the required tenant, if any.
    pub(super) fn admits(&self, required_tenant: Option<u32>) -> bool {
        required_tenant.is_none_or(|tenant_id| self.tenant_id == Some(tenant_id))
    }
}

/// The domains with these names that have a row.
pub(super) async fn find_all(
    session: &mut Session,
    names: &BTreeSet<&Domain>,
) -> Result<HashMap<Domain, StoredDomain>, Fault> {
    read_all(session, names, "").await
}

/// The domains with these names that have a row, locked against changes until the transaction ends.
pub(super) async fn lock_all(
    session: &mut Session,
    names: &BTreeSet<&Domain>,
) -> Result<HashMap<Domain, StoredDomain>, Fault> {
    let for_share = session.dialect().for_share;
    read_all(session, names, for_share).await
}

/// Locks the domains with these names. A domain whose row was lost, because the database went back, gets a new one. Fails where
/// [`next_id`] does.
pub(super) async fn lock_or_add(
    session: &mut Session,
    names: &BTreeSet<&Domain>,
    token: u64,
) -> Result<HashMap<Domain, StoredDomain>, Fault> {
    let mut stored = lock_all(session, names).await?;
    for name in names {
        if !stored.contains_key(*name) {
            let id = add(session, name, token).await?;
            let added = StoredDomain {
                id,
                tenant_id: None,
            };
            stored.insert((*name).clone(), added);
        }
    }
    Ok(stored)
}

async fn read_all(
    session: &mut Session,
    names: &BTreeSet<&Domain>,
    lock: &str,
) -> Result<HashMap<Domain, StoredDomain>, Fault> {
    let names: Vec<&Domain> = names.iter().copied().collect();
    let mut stored = HashMap::with_capacity(names.len());
    for names in names.chunks(LONGEST) {
        let query = sql("SELECT id, name, tenant_id FROM domains WHERE name IN ").list(names);
        let rows: Vec<(u32, Vec<u8>, Option<u32>)> = session.fetch_all(query.push(lock)).await?;
        for (id, name, tenant_id) in rows {
            // They are ordered by their bytes.
            let place = names.binary_search_by(|domain| domain.as_str().as_bytes().cmp(&name));
            if let Some(name) = place.ok().and_then(|index| names.get(index)) {
                stored.insert((*name).clone(), StoredDomain { id, tenant_id });
            }
        }
    }
    Ok(stored)
}

/// Adds a domain unless it exists. Returns its id. Another process may add it in between. Fails where [`next_id`] does.
pub(super) async fn add(session: &mut Session, domain: &Domain, token: u64) -> Result<u32, Fault> {
    if let Some(id) = find(session, domain).await? {
        return Ok(id);
    }
    match insert(session, domain, token).await {
        Err(fault) if !fault.is_duplicate() => return Err(fault),
        _ => {}
    }
    find(session, domain).await?.ok_or(Fault::Contended)
}

/// Inserts the row of a domain.
pub(super) async fn insert(
    session: &mut Session,
    domain: &Domain,
    token: u64,
) -> Result<(), Fault> {
    let id = next_id(session, IdTable::Domains, token).await?;
    let insert = sql(format!("INSERT INTO domains (id, name) VALUES ({id}, ?)"));
    session.execute(insert.bind(domain)).await.map(drop)
}

/// The id of a domain, if it has a row.
pub(super) async fn find(session: &mut Session, domain: &Domain) -> Result<Option<u32>, Fault> {
    let query = sql("SELECT id FROM domains WHERE name = ?").bind(domain);
    let row: Option<(u32,)> = session.fetch_optional(query).await?;
    Ok(row.map(|(id,)| id))
}
