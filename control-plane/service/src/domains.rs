//! Use cases of domains, both configured ones and those that tenants make.

use super::brand;
use super::caller::{Caller, Right};
use super::cursor;
use super::fields::{Fields, Reason};
use super::page::{self, Page};
use super::request::request;
use super::schemas::Status;
use super::tenant_links::TenantLinks;
use super::values;
use crate::problem::{Kind, Problem};
use edgelink_feed::{Changed, Domains, Feed};
use edgelink_model::links::checked::CheckedTarget;
use edgelink_model::timestamp::Time;
use edgelink_settings::config::Config;
use edgelink_settings::domains::model::{DomainDetails, DomainPatch, DomainRow};
use edgelink_settings::domains::{DomainTable, Verification, Verifier, record_name, record_value};
use edgelink_store::{ChangedDomain, DomainError, NewDomain, Store};
use edgelink_wire::domain::is_dns_name;
use edgelink_wire::domain_name;
use edgelink_wire::domain_record::domain_key;
use edgelink_wire::record::MAX_DOMAIN_TARGET_LENGTH;
use edgelink_wire::{Domain, FeedPosition};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use utoipa::ToSchema;

request! {
    /// Where a domain leads, and what its pages show.
    pub(crate) struct DomainProperties(links: &TenantLinks<'_>) {
        #[schema(format = "target-url", max_length = 2048)]
        "rootUrl" root_url: nullable CheckedTarget as String = |value| target(value, links);
        #[schema(format = "target-url", max_length = 2048)]
        "notFoundUrl" not_found_url: nullable CheckedTarget as String = |value| target(value, links);
        #[schema(format = "target-url", max_length = 2048)]
        "expiredUrl" expired_url: nullable CheckedTarget as String = |value| target(value, links);
        "defaultStatus" default_status: nullable u16 as Status = status;
        #[schema(format = "line", min_length = 1, max_length = 100)]
        "brandName" brand_name: nullable String as String = brand::name;
        #[schema(format = "logo", max_length = 16384)]
        "brandLogo" brand_logo: nullable String as String = brand::logo;
        #[schema(pattern = "^#[0-9A-Fa-f]{6}$")]
        "brandColor" brand_color: nullable String as String = brand::color;
    }
}

request! {
    /// A domain to be made.
    #[schema(example = json!({
        "name": "brand.example", "rootUrl": "https://example.com/", "notFoundUrl": "https://example.com/none",
        "expiredUrl": "https://example.com/over", "defaultStatus": 307, "brandName": "Example",
        "brandLogo": "https://example.com/logo.svg", "brandColor": "#1a2b3c",
    }))]
    pub struct DomainRequest(links: &TenantLinks<'_>) as "NewDomain" {
        /// A DNS name of two labels or more, without port.
        #[schema(format = "domain-name", max_length = 253)]
        "name" name: required Domain as String = new_name;
        /// Where `/` leads.
        #[schema(format = "target-url", max_length = 2048)]
        "rootUrl" root_url: nullable CheckedTarget as String = |value| target(value, links);
        /// Where codes lead that no link has.
        #[schema(format = "target-url", max_length = 2048)]
        "notFoundUrl" not_found_url: nullable CheckedTarget as String = |value| target(value, links);
        /// Where links lead that are disabled or no longer valid.
        #[schema(format = "target-url", max_length = 2048)]
        "expiredUrl" expired_url: nullable CheckedTarget as String = |value| target(value, links);
        /// The status of redirects of new links that name none.
        "defaultStatus" default_status: nullable u16 as Status = status;
        /// Whose pages for visitors they are.
        #[schema(format = "line", min_length = 1, max_length = 100)]
        "brandName" brand_name: nullable String as String = brand::name;
        /// The logo of pages for visitors: a URL of https of at most 2048 bytes, or a data URL of a picture.
        #[schema(format = "logo", max_length = 16384)]
        "brandLogo" brand_logo: nullable String as String = brand::logo;
        /// The colour of pages for visitors.
        #[schema(pattern = "^#[0-9A-Fa-f]{6}$")]
        "brandColor" brand_color: nullable String as String = brand::color;
    }
}

request! {
    /// A JSON merge patch (RFC 7396) of a domain; null sets the default.
    #[schema(example = json!({
        "rootUrl": "https://example.com/root", "notFoundUrl": null, "expiredUrl": null, "defaultStatus": null, "verified": true,
    }))]
    pub struct DomainChange(links: &TenantLinks<'_>) as "DomainPatch" {
        /// Whether it counts as verified: for admins of the first tenant, and not of a configured domain.
        "verified" verified: nullable bool as bool = values::flag;
        ..properties: DomainProperties(links);
    }
}

impl From<DomainProperties> for DomainPatch {
    fn from(properties: DomainProperties) -> Self {
        Self {
            root_url: properties.root_url,
            not_found_url: properties.not_found_url,
            expired_url: properties.expired_url,
            default_status: properties.default_status,
            brand_name: properties.brand_name,
            brand_logo: properties.brand_logo,
            brand_color: properties.brand_color,
            verified: None,
        }
    }
}

/// A domain as a caller sees it, beside all domains at that moment.
pub struct SeenDomain {
    /// Name of the domain.
    pub domain: Domain,
    /// The stored settings; `None` if there are none.
    pub(crate) row: Option<DomainRow>,
    table: Arc<DomainTable>,
}

impl SeenDomain {
    /// True if the configuration has it.
    pub(crate) fn is_configured(&self) -> bool {
        self.table.is_configured(&self.domain)
    }

    fn of(table: &Arc<DomainTable>, domain: Domain) -> Self {
        Self {
            row: table.row(&domain).cloned(),
            domain,
            table: Arc::clone(table),
        }
    }

    /// The condition of a change in the store: the domain still belongs to the caller.
    fn which(&self, caller: &Caller) -> ChangedDomain {
        ChangedDomain {
            domain: self.domain.clone(),
            tenant_id: (!caller.is_operator()).then(|| caller.tenant_id()),
            token: None,
            is_configured: self.is_configured(),
        }
    }
}

/// A domain as the API shows it.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Domain)]
pub struct DomainView {
    pub name: String,
    /// Whether the configuration has it: then it belongs to all tenants, and cannot be removed.
    pub configured: bool,
    /// Its tenant; null if it is configured.
    pub(crate) tenant: Option<u32>,
    pub root_url: Option<String>,
    pub not_found_url: Option<String>,
    pub expired_url: Option<String>,
    pub default_status: Option<u16>,
    pub brand_name: Option<String>,
    pub brand_logo: Option<String>,
    pub brand_color: Option<String>,
    /// Whether it may have links.
    pub verified: bool,
    #[schema(value_type = Option<String>)]
    pub(crate) verified_at: Option<Time>,
    #[schema(value_type = Option<String>)]
    pub(crate) created_at: Option<Time>,
    /// The DNS record that verifies it; null if it is configured.
    pub verification: Option<RecordView>,
}

/// A DNS record.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[schema(as = DnsRecord)]
pub struct RecordView {
    pub(crate) r#type: &'static str,
    pub name: String,
    pub value: String,
}

impl DomainView {
    fn new(domain: &Domain, row: Option<&DomainRow>, is_configured: bool) -> Self {
        let details = row.map(|row| row.details.clone()).unwrap_or_default();
        let DomainDetails {
            root_url,
            not_found_url,
            expired_url,
            default_status,
            brand_name,
            brand_logo,
            brand_color,
        } = details;
        let made = row.filter(|row| row.is_made() && !is_configured);
        let time = |time: Option<u64>| time.map(Time::of_millis);
        let token = made.and_then(|row| row.token.as_deref());
        Self {
            name: domain.as_str().to_owned(),
            configured: is_configured,
            tenant: made.map(|row| row.tenant_id),
            root_url,
            not_found_url,
            expired_url,
            default_status,
            brand_name,
            brand_logo,
            brand_color,
            verified: is_configured || made.is_some_and(DomainRow::is_in_effect),
            verified_at: time(made.and_then(|row| row.verified_at)),
            created_at: time(made.and_then(|row| row.created_at)),
            verification: token.map(|token| RecordView {
                r#type: "TXT",
                name: record_name(domain),
                value: record_value(token),
            }),
        }
    }

    /// Builds the view of a domain and its stored settings.
    pub fn of(seen: &SeenDomain) -> Self {
        Self::new(&seen.domain, seen.row.as_ref(), seen.is_configured())
    }
}

/// The parameters of a list of domains.
pub struct DomainList {
    limit: u32,
    after: Option<String>,
}

impl DomainList {
    /// Reads the parameters of a list of domains.
    ///
    /// # Errors
    /// A problem that names each wrong parameter.
    pub fn read(query: Option<&str>) -> Result<Self, Problem> {
        let mut fields = Fields::of_query(query)?;
        let list = Self {
            limit: page::limit(&mut fields),
            after: fields.optional("cursor", cursor::parse_name),
        };
        fields.finish().map(|()| list)
    }
}

/// True if a domain exists for the caller: a configured domain, a domain of its tenant, and any domain for operators of the
/// installation. A key that is bound to domains sees these only.
fn sees(caller: &Caller, table: &DomainTable, domain: &Domain) -> bool {
    let bounds = &caller.scope().domains;
    let is_within = bounds.is_empty() || bounds.contains(domain);
    let is_known = table.is_known_to(domain, caller.tenant_id());
    is_within && (is_known || (caller.is_operator() && table.row(domain).is_some()))
}

/// The use cases of domains.
pub struct DomainService {
    store: Arc<Store>,
    domains: Arc<Domains>,
    feed: Arc<Feed>,
    verifier: Verifier,
    config: Arc<Config>,
}

impl DomainService {
    /// Creates the use cases, with a verifier that asks the configured DNS servers.
    pub fn new(
        store: Arc<Store>,
        domains: Arc<Domains>,
        feed: Arc<Feed>,
        config: Arc<Config>,
    ) -> Self {
        Self {
            verifier: Verifier::new(&config.domains),
            store,
            domains,
            feed,
            config,
        }
    }

    /// A page of the domains that exist for the caller, in the order of their names.
    pub async fn list(
        &self,
        caller: &Caller,
        list: DomainList,
    ) -> Result<Page<SeenDomain>, Problem> {
        caller.require(Right::ReadLinks)?;
        let table = self.domains.read(&self.store).await?;
        let made = table.rows().map(|row| &row.domain);
        let domains = table.configured().iter().chain(made);
        let domains = domains.filter(|domain| sees(caller, &table, domain));
        let mut domains: Vec<&Domain> = domains
            .filter(|domain| {
                let after = list.after.as_deref();
                after.is_none_or(|after| domain.as_str() > after)
            })
            .collect();
        domains.sort_unstable();
        domains.dedup();
        let next =
            page::cut(&mut domains, list.limit).map(|last| cursor::format_name(last.as_str()));
        let seen = |domain: &Domain| SeenDomain::of(&table, domain.clone());
        let items = domains.into_iter().map(seen).collect();
        Ok(Page { items, next })
    }

    /// The domain of that name, if it exists for the caller.
    pub async fn find(&self, caller: &Caller, name: &str) -> Result<SeenDomain, Problem> {
        caller.require(Right::ReadLinks)?;
        let not_found = || Problem::new(Kind::DomainNotFound);
        let domain = domain_name::parse(name).map_err(|_| not_found())?;
        let table = self.domains.read(&self.store).await?;
        if sees(caller, &table, &domain) {
            Ok(SeenDomain::of(&table, domain))
        } else {
            Err(not_found())
        }
    }

    /// Creates a domain of the tenant. It takes links once it is verified.
    pub async fn create(
        &self,
        caller: &Caller,
        request: DomainRequest,
    ) -> Result<Changed<SeenDomain>, Problem> {
        caller.require(Right::Administer)?;
        let table = self.domains.read(&self.store).await?;
        if table.is_configured(&request.name) {
            return Err(DomainError::Taken.into());
        }
        let patch = DomainPatch {
            root_url: request.root_url,
            not_found_url: request.not_found_url,
            expired_url: request.expired_url,
            default_status: request.default_status,
            brand_name: request.brand_name,
            brand_logo: request.brand_logo,
            brand_color: request.brand_color,
            verified: None,
        };
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|_| Problem::new(Kind::Internal))?;
        let config = &self.config.domains;
        let new = NewDomain {
            domain: request.name,
            details: patch.apply(&DomainDetails::default()),
            token: hex::encode(token),
            is_verified: !config.require_verification,
            max_of_tenant: config.max_per_tenant,
            max_unverified: config.max_unverified,
        };
        let from = self.feed.end();
        let row = self.store.insert_domain(&new, &caller.actor()).await??;
        Ok(self.published(from, row).await)
    }

    /// Reads a change of a domain, and refuses fields that its caller may not change.
    ///
    /// # Errors
    /// A problem that names each wrong field.
    pub fn read_change(
        caller: &Caller,
        seen: &SeenDomain,
        object: Map<String, Value>,
        links: &TenantLinks<'_>,
    ) -> Result<DomainChange, Problem> {
        if seen.is_configured() && !caller.is_operator() {
            let detail = "only an admin key of the first tenant may change a configured domain";
            return Err(Problem::new(Kind::Forbidden).with_detail(detail));
        }
        let mut fields = Fields::new(object);
        let change = DomainChange::of(&mut fields, links);
        if change
            .as_ref()
            .is_some_and(|change| change.verified.is_some())
        {
            if seen.is_configured() {
                let reason = "is that of a configured domain, which need not be";
                fields.refuse("verified", reason);
            } else if !caller.is_operator() {
                let reason = "can be set by an admin key of the first tenant only: use verify";
                fields.refuse("verified", reason);
            }
        }
        fields.finish()?;
        change.ok_or_else(|| Problem::new(Kind::Internal))
    }

    /// Changes a domain.
    pub async fn change(
        &self,
        caller: &Caller,
        seen: &SeenDomain,
        change: DomainChange,
    ) -> Result<Changed<SeenDomain>, Problem> {
        let patch = DomainPatch {
            verified: change.verified.map(|verified| verified.unwrap_or(false)),
            ..change.properties.into()
        };
        self.apply(caller, &seen.which(caller), &patch).await
    }

    /// Verifies a domain by its DNS record.
    pub async fn verify(
        &self,
        caller: &Caller,
        seen: SeenDomain,
    ) -> Result<Changed<SeenDomain>, Problem> {
        caller.require(Right::Administer)?;
        let unverified = seen.row.as_ref();
        let unverified = unverified.filter(|row| row.is_made() && !row.is_in_effect());
        let Some(row) = unverified.filter(|_| !seen.is_configured()) else {
            return Ok(Changed::nothing(seen));
        };
        let token = row.token.clone().unwrap_or_default();
        let refuse =
            |detail: &'static str| Problem::new(Kind::VerificationFailed).with_detail(detail);
        match self.verifier.verify(&row.domain, &token).await {
            Verification::Verified => {}
            Verification::NotFound => return Err(refuse("the DNS has no such TXT record yet")),
            Verification::NoAnswer => return Err(refuse("the DNS does not answer")),
        }
        let which = ChangedDomain {
            // It may have been removed meanwhile, and made by another tenant.
            token: Some(token.clone()),
            ..seen.which(caller)
        };
        let patch = DomainPatch {
            verified: Some(true),
            ..DomainPatch::default()
        };
        let verified = self.apply(caller, &which, &patch).await?;
        self.store
            .note_domain_record(&which.domain, &token, Some(true))
            .await?;
        Ok(verified)
    }

    /// Removes a domain that has no links.
    pub async fn delete(
        &self,
        caller: &Caller,
        seen: &SeenDomain,
    ) -> Result<Changed<SeenDomain>, Problem> {
        caller.require(Right::Administer)?;
        if seen.is_configured() {
            let detail = "a configured domain is removed from links.domains";
            return Err(Problem::new(Kind::DomainInUse).with_detail(detail));
        }
        let from = self.feed.end();
        let (which, actor) = (seen.which(caller), caller.actor());
        let row = self.store.delete_domain(&which, &actor).await??;
        Ok(self.published(from, row).await)
    }

    async fn apply(
        &self,
        caller: &Caller,
        which: &ChangedDomain,
        patch: &DomainPatch,
    ) -> Result<Changed<SeenDomain>, Problem> {
        caller.require(Right::Administer)?;
        let from = self.feed.end();
        let actor = caller.actor();
        let row = self.store.change_domain(which, patch, &actor).await??;
        Ok(self.published(from, row).await)
    }

    /// Puts a change into effect in this process; others follow the feed, which is awaited.
    async fn published(&self, from: FeedPosition, row: DomainRow) -> Changed<SeenDomain> {
        // If it fails, the domains are read again soon, and the failure is logged then.
        let read = self.domains.read(&self.store).await;
        let table = read.unwrap_or_else(|_| self.domains.current());
        let changed = [(domain_key(&row.domain), row.rev)];
        let seen = SeenDomain {
            domain: row.domain.clone(),
            row: Some(row),
            table,
        };
        Changed::since(from, changed, seen)
    }
}

/// The name of a new domain. A host without a name in the DNS cannot be verified.
fn new_name(value: &Value) -> Result<Domain, Reason> {
    let refusal = Reason::Borrowed(
        "must be a DNS name of two labels or more, in Unicode or Punycode, without port",
    );
    let domain = domain_name::parse(values::text(value)?).map_err(|_| refusal.clone())?;
    let name = domain.as_str();
    let last = name.rsplit_once('.').map(|(_, last)| last);
    // Otherwise it may be an address.
    let has_letter = last.is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_alphabetic()));
    if is_dns_name(name, b"") && has_letter {
        Ok(domain)
    } else {
        Err(refusal)
    }
}

fn status(value: &Value) -> Result<u16, Reason> {
    values::redirect(value).map(|status| status.code())
}

fn target(value: &Value, links: &TenantLinks<'_>) -> Result<CheckedTarget, Reason> {
    let target = values::target(value, links)?;
    if target.as_str().len() <= MAX_DOMAIN_TARGET_LENGTH {
        Ok(target)
    } else {
        Err("must be at most 2048 bytes long".into())
    }
}
