//! An immutable table of all domains.

use super::model::{Brand, DomainDetails, DomainRow};
use edgelink_wire::domain::without_defaults;
use edgelink_wire::{Domain, DomainSet, DomainTargets, Record};
use std::collections::HashMap;
use std::sync::Arc;

/// Configured domains, and domains created by the API.
#[derive(Clone, Debug, Default)]
pub struct DomainTable {
    configured: Arc<DomainSet>,
    rows: HashMap<Box<str>, DomainRow>,
}

/// The reason why a domain cannot have links of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDomain {
    /// It does not exist, or belongs to another tenant.
    #[error("{}", edgelink_wire::domain::UNKNOWN)]
    Unknown,
    /// It belongs to the tenant, which has yet to verify it.
    #[error("is not verified yet")]
    NotVerified,
}

impl DomainTable {
    /// The configured domains, and the rows of the database.
    pub fn new(configured: Arc<DomainSet>, rows: Vec<DomainRow>) -> Self {
        // Properties of a formerly configured domain have no effect.
        let is_known = |row: &DomainRow| row.is_made() || configured.contains(&row.domain);
        let rows = rows.into_iter().filter(is_known);
        let rows = rows.map(|row| (row.domain.as_str().into(), row)).collect();
        Self { configured, rows }
    }

    /// The configured domains.
    pub fn configured(&self) -> &[Domain] {
        &self.configured
    }

    /// True for a configured domain.
    pub fn is_configured(&self, domain: &Domain) -> bool {
        self.configured.contains(domain)
    }

    /// Domains that the API has created, and changed configured domains.
    pub fn rows(&self) -> impl Iterator<Item = &DomainRow> {
        self.rows.values()
    }

    /// The row of a domain that the API has created or changed.
    pub fn row(&self, domain: &Domain) -> Option<&DomainRow> {
        self.rows.get(domain.as_str())
    }

    /// The domains of a tenant, ordered by name.
    pub fn made_by(&self, tenant_id: u32) -> impl Iterator<Item = &Domain> {
        let is_own = |row: &&DomainRow| row.is_made() && row.tenant_id == tenant_id;
        let own = self.rows().filter(is_own).map(|row| &row.domain);
        let mut own: Vec<&Domain> = own.filter(|domain| !self.is_configured(domain)).collect();
        own.sort_unstable();
        own.into_iter()
    }

    /// True if the domain is configured or belongs to the tenant.
    pub fn is_known_to(&self, domain: &Domain, tenant_id: u32) -> bool {
        let is_own = |row: &DomainRow| row.is_made() && row.tenant_id == tenant_id;
        self.is_configured(domain) || self.row(domain).is_some_and(is_own)
    }

    /// Checks that new links of a tenant may be on that domain.
    pub fn check(&self, domain: &Domain, tenant_id: u32) -> Result<(), NoDomain> {
        if !self.is_known_to(domain, tenant_id) {
            return Err(NoDomain::Unknown);
        }
        if self.is_configured(domain) || self.row(domain).is_some_and(DomainRow::is_in_effect) {
            Ok(())
        } else {
            Err(NoDomain::NotVerified)
        }
    }

    /// True if the API has created a domain of that host, in lower case, for any tenant, and it is verified: an unverified one proves
    /// nothing about the host.
    pub fn has_made(&self, host: &str) -> bool {
        self.rows.get(host).is_some_and(DomainRow::is_in_effect)
    }

    /// The properties of a domain.
    pub fn details(&self, domain: &Domain) -> Option<&DomainDetails> {
        self.row(domain).map(|row| &row.details)
    }

    /// Look of the domain's pages for visitors.
    pub fn brand(&self, domain: &Domain) -> Brand<'_> {
        self.details(domain)
            .map(DomainDetails::brand)
            .unwrap_or_default()
    }

    /// Targets of requests on the domain that no link answers.
    pub fn targets(&self, domain: &Domain) -> DomainTargets<&str> {
        self.details(domain)
            .map(DomainDetails::targets)
            .unwrap_or_default()
    }

    /// Finds the domain of a request by its `Host` header; see [`DomainSet::requested`].
    pub fn requested<'a>(&'a self, host: &[u8], default: Option<&'a Domain>) -> Option<&'a Domain> {
        let named = self.configured.of_host(host);
        named
            .or_else(|| self.in_effect(host))
            .or_else(|| self.in_effect(without_defaults(host)))
            .or(default)
    }

    fn in_effect(&self, host: &[u8]) -> Option<&Domain> {
        let row = self.row_of_host(host)?;
        row.is_in_effect().then_some(&row.domain)
    }

    fn row_of_host(&self, host: &[u8]) -> Option<&DomainRow> {
        if self.rows.is_empty() {
            return None;
        }
        let host = str::from_utf8(host).ok()?.to_ascii_lowercase();
        self.rows.get(host.as_str())
    }

    /// The record of a host's domain for edges, as in a snapshot: absent if there is no such domain, or if it only has what is
    /// configured.
    pub fn record_of_host(&self, host: &Domain) -> Record<String> {
        let host = host.as_str().as_bytes();
        let named = [host, without_defaults(host)].into_iter();
        let rows = named.filter_map(|host| self.row_of_host(host));
        let mut records = rows.map(DomainRow::record);
        let record = records.find(|record| matches!(record, Record::Link(_)));
        record.unwrap_or(Record::Absent { rev: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::domain_record::domain_of_record;

    fn domain(name: &str) -> Domain {
        Domain::parse(name).unwrap()
    }

    fn row(name: &str, tenant_id: u32, created_at: Option<u64>) -> DomainRow {
        DomainRow {
            id: 1,
            domain: domain(name),
            tenant_id,
            details: DomainDetails {
                root_url: Some(format!("https://root.example/{name}")),
                ..DomainDetails::default()
            },
            token: None,
            verified_at: None,
            created_at,
            rev: 1,
        }
    }

    fn table() -> DomainTable {
        let rows = vec![
            row("go.example", 1, None),
            row("formerly.example", 1, None),
            row("new.example", 2, Some(1)),
            DomainRow {
                verified_at: Some(1),
                ..row("brand.example", 2, Some(1))
            },
        ];
        let configured = DomainSet::new([domain("go.example"), domain("b.example")]);
        DomainTable::new(Arc::new(configured), rows)
    }

    #[test]
    fn domain_when_verified_is_for_links_of_its_tenant() {
        let table = table();
        for (name, tenant_id, expected) in [
            ("go.example", 1, Ok(())),
            ("b.example", 2, Ok(())),
            ("brand.example", 2, Ok(())),
            ("brand.example", 1, Err(NoDomain::Unknown)),
            ("new.example", 2, Err(NoDomain::NotVerified)),
            ("new.example", 1, Err(NoDomain::Unknown)),
            ("formerly.example", 1, Err(NoDomain::Unknown)),
            ("none.example", 1, Err(NoDomain::Unknown)),
        ] {
            let checked = table.check(&domain(name), tenant_id);
            assert_eq!(checked, expected, "{name} {tenant_id}");
        }
        for (host, has_made) in [
            ("brand.example", true),
            ("new.example", false),
            ("go.example", false),
        ] {
            assert_eq!(table.has_made(host), has_made, "{host}");
        }
    }

    #[test]
    fn domain_when_not_verified_counts_as_an_unknown_host() {
        let table = table();
        let default = domain("go.example");
        for (host, name) in [
            ("GO.example", "go.example"),
            ("Brand.Example:443", "brand.example"),
            ("brand.example.", "brand.example"),
            ("new.example", "go.example"),
            ("formerly.example", "go.example"),
            ("", "go.example"),
        ] {
            let found = table.requested(host.as_bytes(), Some(&default));
            assert_eq!(found.unwrap().as_str(), name, "{host}");
        }
        assert_eq!(table.requested(b"new.example", None), None);
        for (host, record) in [
            ("brand.example", Some("brand.example")),
            ("brand.example:443", Some("brand.example")),
            ("go.example", Some("go.example")),
            ("b.example", None),
            ("new.example", None),
            ("none.example", None),
        ] {
            let found = table.record_of_host(&domain(host));
            let found = found.as_deref();
            assert_eq!(domain_of_record(&found), record, "{host}");
        }
        let root = "https://root.example/go.example";
        assert_eq!(table.targets(&default).root, Some(root));
        assert_eq!(table.targets(&domain("b.example")).root, None);
    }
}
