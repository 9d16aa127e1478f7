//! The links whose clicks a request is about.

use super::caller::Caller;
use super::fields::{Fields, Reason};
use super::link_list::{filter_tags, tags_mode};
use super::links::Links;
use super::tenant_links::TenantLinks;
use super::values;
use crate::problem::{Kind, Problem};
use edgelink_model::counts::{Bots, ClickScope};
use edgelink_store::{ListQuery, TagsMode};
use edgelink_wire::{Code, Domain, LinkKey};
use serde_json::Value;

/// Parameters that may be given several times.
pub const LISTS: [&str; 1] = ["tags"];

/// Conditions on the links whose clicks are counted; all of them must hold.
#[derive(Clone, Debug, Default)]
pub struct ClickFilter {
    /// Short code of a single link, on `domain` or else on the default domain of the tenant.
    pub code: Option<Code>,
    /// Domain of the links.
    pub domain: Option<Domain>,
    /// External id of a single link.
    pub external_id: Option<String>,
    /// Tags of the links; empty for links with any tags or none.
    pub tags: Vec<String>,
    /// Condition on `tags`: any of them, or all.
    pub tags_mode: TagsMode,
}

/// The links whose clicks are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundScope {
    /// Links by their ids, or all links of a tenant or of its domain.
    pub scope: ClickScope,
    /// Set if there are older links that are left out.
    pub at_least: bool,
}

impl ClickFilter {
    /// Reads the parameters `domain`, `shortCode`, `externalId`, `tags` and `tagsMode`.
    pub(crate) fn read(fields: &mut Fields, links: &TenantLinks<'_>) -> Self {
        let filter = Self {
            code: fields.optional("shortCode", code),
            domain: fields.optional("domain", |value| values::domain(value, links)),
            external_id: fields.optional("externalId", values::external_id),
            tags: fields.optional("tags", filter_tags).unwrap_or_default(),
            tags_mode: fields.optional("tagsMode", tags_mode).unwrap_or_default(),
        };
        if filter.code.is_some() && filter.external_id.is_some() {
            fields.refuse("externalId", "cannot be combined with shortCode");
        }
        if filter.code.is_some() && !filter.tags.is_empty() {
            fields.refuse("tags", "cannot be combined with shortCode");
        }
        filter
    }

    /// Finds the links among the caller's links.
    pub async fn find(self, links: &Links, caller: &Caller) -> Result<FoundScope, Problem> {
        if let Some(code) = self.code {
            let of_tenant = links.of_tenant(caller);
            let domain = self
                .domain
                .unwrap_or_else(|| of_tenant.default_domain().clone());
            let link = links.find(caller, &LinkKey::new(domain, code)).await?;
            return Ok(FoundScope::all(ClickScope::Links(vec![link.id])));
        }
        let needs_list = self.external_id.is_some() || !self.tags.is_empty();
        let bound = caller.scope();
        if !needs_list && bound.owner_id.is_none() && bound.tags.is_empty() {
            let domain = match (&self.domain, bound.domains.as_slice()) {
                (None, []) => Some(None),
                (None, [domain]) => Some(Some(domain)),
                (Some(domain), bound) if bound.is_empty() || bound.contains(domain) => {
                    Some(Some(domain))
                }
                _ => None,
            };
            if let Some(domain) = domain {
                return Ok(FoundScope::all(whole_tenant(links, caller, domain).await?));
            }
        }
        let is_one = self.external_id.is_some();
        let query = ListQuery {
            domain: self.domain,
            tags: self.tags,
            tags_mode: self.tags_mode,
            external_id: self.external_id,
            ..ListQuery::newest(bound.as_ref().clone(), 1)
        };
        let found = links.store.listed_ids(&query).await?;
        if is_one && found.ids.is_empty() {
            return Err(Problem::new(Kind::LinkNotFound));
        }
        Ok(FoundScope {
            scope: ClickScope::Links(found.ids),
            at_least: found.is_cut_off,
        })
    }
}

impl FoundScope {
    fn all(scope: ClickScope) -> Self {
        Self {
            scope,
            at_least: false,
        }
    }
}

/// All links of the caller's tenant, or its links on a domain.
pub async fn whole_tenant(
    links: &Links,
    caller: &Caller,
    domain: Option<&Domain>,
) -> Result<ClickScope, Problem> {
    let tenant_id = caller.tenant_id();
    let Some(domain) = domain else {
        return Ok(ClickScope::Tenant(tenant_id));
    };
    let id = links.store.find_domain_key(domain).await?;
    let scope = id.map(|domain_id| ClickScope::Domain {
        tenant_id,
        domain_id,
    });
    Ok(scope.unwrap_or(ClickScope::Links(Vec::new())))
}

/// A code; a text that cannot be one is refused.
pub fn code(value: &Value) -> Result<Code, Reason> {
    Code::parse(values::text(value)?).map_err(|error| Reason::Owned(error.to_string()))
}

/// Parses the treatment of bots.
pub fn bots(value: &Value) -> Result<Bots, Reason> {
    match values::text(value)? {
        "included" => Ok(Bots::Included),
        "excluded" => Ok(Bots::Excluded),
        "only" => Ok(Bots::Only),
        _ => Err("must be included, excluded or only".into()),
    }
}
