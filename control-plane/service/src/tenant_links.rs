//! The settings of links for the requests of a tenant.

use crate::problem::{FieldError, Problem};
use edgelink_model::links::checked::{CheckedContent, CheckedRules, CheckedTarget};
use edgelink_model::links::model::LinkContent;
use edgelink_settings::config::LinksConfig;
use edgelink_settings::domains::{DomainTable, NoDomain};
use edgelink_store::ChangeError;
use edgelink_wire::Domain;
use edgelink_wire::target::{TargetError, TargetRules};
use serde_json::{Map, Value};
use std::ops::Deref;
use std::sync::Arc;

/// The settings of links, and the domains of a tenant.
#[derive(Clone)]
pub struct TenantLinks<'a> {
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
    pub(crate) fn new(config: &'a LinksConfig, domains: Arc<DomainTable>, tenant_id: u32) -> Self {
        Self {
            config,
            domains,
            tenant_id,
        }
    }

    /// True if the tenant knows that domain, verified or not.
    pub(crate) fn knows(&self, domain: &Domain) -> bool {
        self.domains.is_known_to(domain, self.tenant_id)
    }

    /// Checks that new links of the tenant may be on that domain.
    pub(crate) fn check(&self, domain: &Domain) -> Result<(), NoDomain> {
        self.domains.check(domain, self.tenant_id)
    }

    /// Checks a target against the domains of the installation and of all tenants, and against the blocked hosts.
    pub(crate) fn check_target(&self, text: &str) -> Result<CheckedTarget, TargetError> {
        self.by_rules(|rules| CheckedTarget::check(text, rules))
    }

    /// Runs `work` with the rules for targets.
    pub(crate) fn by_rules<T>(&self, work: impl FnOnce(&TargetRules<'_>) -> T) -> T {
        work(&TargetRules {
            own_domains: &self.config.domains,
            is_made: &|host| self.domains.has_made(host),
            blocked_hosts: &self.config.blocked_hosts,
        })
    }

    /// Reads the rules of a link.
    ///
    /// # Errors
    /// A problem that names each wrong rule and condition.
    pub fn read_rules(&self, object: Map<String, Value>) -> Result<CheckedRules, Problem> {
        let rules = self.by_rules(|rules| CheckedRules::read(object, rules));
        rules.map_err(|errors| {
            Problem::validation(errors.into_iter().map(FieldError::from).collect())
        })
    }

    /// The content of a link, checked like the content of a new one.
    pub(crate) fn renewed(&self, content: &LinkContent) -> Result<CheckedContent, ChangeError> {
        let renewed = self.by_rules(|rules| CheckedContent::renewed(content, rules));
        renewed.map_err(|wrong| ChangeError::invalid(wrong.field, wrong.error.to_string()))
    }

    /// A new link on a domain, with all defaults; `None` stands for a target that was refused.
    pub(crate) fn new_content(
        &self,
        domain: &Domain,
        target: Option<CheckedTarget>,
    ) -> CheckedContent {
        let content = target.map(CheckedContent::to);
        let mut content = content.unwrap_or_else(CheckedContent::without_target);
        let details = self.domains.details(domain);
        if let Some(status) = details.and_then(|details| details.default_status()) {
            content.change_others(|others| others.redirect = status);
        }
        content
    }
}
