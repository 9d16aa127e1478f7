//! The settings of links for the requests of a tenant.

use crate::config::LinksConfig;
use crate::domains::{DomainTable, NoDomain};
use crate::links::model::LinkContent;
use crate::links::target::TargetUrl;
use edgelink_wire::Domain;
use std::ops::Deref;
use std::sync::Arc;
use url::{Host, Url};

/// The settings of links, and the domains that a tenant has.
#[derive(Clone)]
pub(crate) struct TenantLinks<'a> {
    config: &'a LinksConfig,
    domains: Arc<DomainTable>,
    tenant_id: u32,
}

impl Deref for TenantLinks<'_> {
    type Target = LinksConfig;

    fn deref(&self) -> &LinksConfig {
        self.config
    }
}

impl<'a> TenantLinks<'a> {
    pub(super) fn new(config: &'a LinksConfig, domains: Arc<DomainTable>, tenant_id: u32) -> Self {
        Self {
            config,
            domains,
            tenant_id,
        }
    }

    /// Whether the tenant knows that domain, be it verified or not.
    pub(crate) fn knows(&self, domain: &Domain) -> bool {
        self.domains.is_known_to(domain, self.tenant_id)
    }

    /// Checks that new links of the tenant may be on that domain.
    pub(crate) fn check(&self, domain: &Domain) -> Result<(), NoDomain> {
        self.domains.check(domain, self.tenant_id)
    }

    /// Whether a target is on a domain that the API has made, of any tenant: such a redirect may never end.
    pub(crate) fn is_on_made_domain(&self, target: &TargetUrl) -> bool {
        if self.domains.rows().next().is_none() {
            return false;
        }
        let Ok(url) = Url::parse(target.as_str()) else {
            return false;
        };
        let is_default_port = matches!(url.port_or_known_default(), Some(80 | 443));
        match url.host() {
            Some(Host::Domain(host)) if is_default_port => self
                .domains
                .has_made(host.strip_suffix('.').unwrap_or(host)),
            _ => false,
        }
    }

    /// A new link on a domain, with all defaults.
    pub(crate) fn new_content(&self, domain: &Domain, target: TargetUrl) -> LinkContent {
        let mut content = LinkContent::to(target);
        let details = self.domains.details(domain);
        if let Some(status) = details.and_then(|details| details.default_status()) {
            content.redirect = status;
        }
        content
    }
}
