//! `/domains`: those of the configuration, and those that the API has made.

use super::accounts::created;
use super::body::JsonObject;
use super::brand;
use super::fields::{Fields, Reason};
use super::{cursor, page, schema, values};
use crate::domains::model::{DomainDetails, DomainPatch, DomainRow};
use crate::domains::{DomainTable, Verdict, record_name, record_value};
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::tenant_links::TenantLinks;
use crate::links::checked::CheckedTarget;
use crate::problem::{FieldError, Kind, Problem};
use crate::store::{ChangedDomain, DomainError, MAX_COUNTED_LINKS, NewDomain};
use crate::timestamp;
use axum::Json;
use axum::extract::{Extension, FromRequestParts, Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::domain::is_dns_name;
use edgelink_wire::domain_record::domain_key;
use edgelink_wire::record::MAX_DOMAIN_TARGET_LENGTH;
use edgelink_wire::{Domain, FeedPosition};
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// A domain as the API shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Domain)]
struct DomainView {
    name: String,
    /// Whether the configuration has it: then it belongs to all tenants, and cannot be removed.
    configured: bool,
    /// Its tenant; null if it is configured.
    tenant: Option<u32>,
    root_url: Option<String>,
    not_found_url: Option<String>,
    expired_url: Option<String>,
    default_status: Option<u16>,
    brand_name: Option<String>,
    brand_logo: Option<String>,
    brand_color: Option<String>,
    /// Whether it may have links.
    verified: bool,
    verified_at: Option<String>,
    created_at: Option<String>,
    /// The DNS record that verifies it; null if it is configured.
    verification: Option<RecordView>,
}

/// A DNS record.
#[derive(Serialize, ToSchema)]
#[schema(as = DnsRecord)]
struct RecordView {
    r#type: &'static str,
    name: String,
    value: String,
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
        let time = |time: Option<u64>| time.map(timestamp::from_millis);
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

    fn of_row(row: &DomainRow, table: &DomainTable) -> Self {
        Self::new(&row.domain, Some(row), table.is_configured(&row.domain))
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DomainPage)]
struct DomainsView {
    domains: Vec<DomainView>,
    next_cursor: Option<String>,
}

/// Whether a domain exists for the caller: a configured one, one of its tenant, and any for those who operate the installation;
/// of these only the ones to which its key is bound.
fn sees(caller: &Caller, table: &DomainTable, domain: &Domain) -> bool {
    let bounds = &caller.scope().domains;
    let is_within = bounds.is_empty() || bounds.contains(domain);
    let is_known = table.is_known_to(domain, caller.tenant_id());
    is_within && (is_known || (caller.is_operator() && table.row(domain).is_some()))
}

/// Lists the domains, in the order of their names.
///
/// Those of the configuration, and those of the tenant; for admins of the first tenant those of all.
#[utoipa::path(
    get,
    path = "/domains",
    operation_id = "listDomains",
    tag = "domains",
    params(schema::DomainsPage),
    responses((status = 200, description = "A page of domains", body = DomainsView))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let limit = page::limit(&mut fields);
    let after = fields.optional("cursor", cursor::parse_name);
    fields.finish()?;
    let table = app.domains.read(&app.store).await?;
    let made = table.rows().map(|row| &row.domain);
    let domains = table.configured().iter().chain(made);
    let domains = domains.filter(|domain| sees(&caller, &table, domain));
    let mut domains: Vec<&Domain> = domains
        .filter(|domain| after.as_deref().is_none_or(|after| domain.as_str() > after))
        .collect();
    domains.sort_unstable();
    domains.dedup();
    let next_cursor = page::cut(&mut domains, limit).map(|last| cursor::format_name(last.as_str()));
    let view =
        |domain: &Domain| DomainView::new(domain, table.row(domain), table.is_configured(domain));
    let domains = domains.into_iter().map(view).collect();
    Ok(Json(DomainsView {
        domains,
        next_cursor,
    })
    .into_response())
}

/// The domain that the path names, and all domains as they are now.
pub(crate) struct RequestedDomain {
    domain: Domain,
    table: Arc<DomainTable>,
}

impl FromRequestParts<Arc<App>> for RequestedDomain {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let not_found = || Problem::new(Kind::DomainNotFound);
        let name = Path::<String>::from_request_parts(parts, app).await;
        let Path(name) = name.map_err(|_| not_found())?;
        let domain = Domain::parse(&name).map_err(|_| not_found())?;
        let table = app.domains.read(&app.store).await?;
        let caller = parts.extensions.get::<Caller>();
        match caller.is_some_and(|caller| sees(caller, &table, &domain)) {
            true => Ok(Self { domain, table }),
            false => Err(not_found()),
        }
    }
}

impl RequestedDomain {
    /// What the store looks for: the domain, if it still belongs to the caller.
    fn which(&self, caller: &Caller) -> ChangedDomain {
        ChangedDomain {
            domain: self.domain.clone(),
            tenant_id: (!caller.is_operator()).then(|| caller.tenant_id()),
            token: None,
            is_configured: self.is_configured(),
        }
    }

    fn is_configured(&self) -> bool {
        self.table.is_configured(&self.domain)
    }

    fn view(&self) -> DomainView {
        let row = self.table.row(&self.domain);
        DomainView::new(&self.domain, row, self.is_configured())
    }

    /// Refuses a change of a configured domain by others than those who operate the installation.
    fn check_change(&self, caller: &Caller) -> Result<(), Problem> {
        if self.is_configured() && !caller.is_operator() {
            let detail = "only an admin key of the first tenant may change a configured domain";
            return Err(Problem::new(Kind::Forbidden).with_detail(detail));
        }
        Ok(())
    }
}

/// Returns a domain.
#[utoipa::path(
    get,
    path = "/domains/{name}",
    operation_id = "getDomain",
    tag = "domains",
    params(schema::OfDomainName),
    responses((status = 200, description = "The domain", body = DomainView))
)]
pub(crate) async fn get(domain: RequestedDomain) -> Response {
    Json(domain.view()).into_response()
}

/// Makes a domain of the tenant.
///
/// It takes links once it is verified.
#[utoipa::path(
    post,
    path = "/domains",
    operation_id = "createDomain",
    tag = "domains",
    request_body = schema::NewDomain,
    responses((
        status = 201,
        description = "The domain, and the DNS record that verifies it",
        body = DomainView,
        headers(("Location" = String, description = "Its address"))
    ))
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let table = app.domains.read(&app.store).await?;
    let mut fields = Fields::new(object);
    let domain = fields.required("name", new_name);
    let patch = DomainPatch {
        verified: None,
        ..read_details(&mut fields, &app.links(&caller))
    };
    fields.finish()?;
    // A missing name was refused above.
    let domain = domain.ok_or_else(|| Problem::new(Kind::Validation))?;
    if table.is_configured(&domain) {
        return Err(DomainError::Taken.into());
    }
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|_| Problem::new(Kind::Internal))?;
    let new = NewDomain {
        domain,
        details: patch.apply(&DomainDetails::default()),
        token: hex::encode(token),
        is_verified: !app.config.domains.require_verification,
        max_of_tenant: app.config.domains.max_per_tenant,
        max_unverified: app.config.domains.max_unverified,
    };
    let from = app.feed.end();
    let row = app.store.insert_domain(&new, &caller.actor()).await??;
    reread(&app).await;
    let location = format!("/api/v1/domains/{}", row.domain);
    let answer = created(&DomainView::of_row(&row, &table), &location);
    Ok(published(from, &row, answer))
}

/// Changes a domain.
#[utoipa::path(
    patch,
    path = "/domains/{name}",
    operation_id = "changeDomain",
    tag = "domains",
    params(schema::OfDomainName),
    request_body = schema::DomainPatch,
    responses((status = 200, description = "The domain as it is now", body = DomainView))
)]
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    domain: RequestedDomain,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    domain.check_change(&caller)?;
    let mut fields = Fields::new(object);
    let mut patch = read_details(&mut fields, &app.links(&caller));
    if let Some(verified) = fields.change("verified", values::flag) {
        if domain.is_configured() {
            fields.refuse(
                "verified",
                "is that of a configured domain, which need not be",
            );
        } else if !caller.is_operator() {
            let reason = "can be set by an admin key of the first tenant only: use verify";
            fields.refuse("verified", reason);
        }
        patch.verified = Some(verified.unwrap_or(false));
    }
    fields.finish()?;
    change(&app, &caller, &domain.which(&caller), &patch).await
}

/// Verifies a domain by its DNS record.
#[utoipa::path(
    post,
    path = "/domains/{name}/verify",
    operation_id = "verifyDomain",
    tag = "domains",
    params(schema::OfDomainName),
    responses((status = 200, description = "The domain, which is verified", body = DomainView))
)]
pub(crate) async fn verify(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    domain: RequestedDomain,
) -> Result<Response, Problem> {
    let row = domain.table.row(&domain.domain);
    let unverified = row.filter(|row| row.is_made() && !row.is_in_effect());
    let Some(row) = unverified.filter(|_| !domain.is_configured()) else {
        return Ok(Json(domain.view()).into_response());
    };
    let token = row.token.clone().unwrap_or_default();
    let refuse = |detail: &'static str| Problem::new(Kind::VerificationFailed).with_detail(detail);
    match app.verifier.verify(&row.domain, &token).await {
        Verdict::Verified => {}
        Verdict::NotFound => return Err(refuse("the DNS has no such TXT record yet")),
        Verdict::NoAnswer => return Err(refuse("the DNS does not answer")),
    }
    let which = ChangedDomain {
        // It may have been removed meanwhile, and made by another tenant.
        token: Some(token.clone()),
        ..domain.which(&caller)
    };
    let patch = DomainPatch {
        verified: Some(true),
        ..DomainPatch::default()
    };
    let verified = change(&app, &caller, &which, &patch).await?;
    app.store
        .note_domain_record(&which.domain, &token, Some(true))
        .await?;
    Ok(verified)
}

/// Removes a domain that has no links.
#[utoipa::path(
    delete,
    path = "/domains/{name}",
    operation_id = "deleteDomain",
    tag = "domains",
    params(schema::OfDomainName),
    responses((status = 204, description = "The domain has gone"))
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    domain: RequestedDomain,
) -> Result<Response, Problem> {
    if domain.is_configured() {
        let detail = "a configured domain is removed from links.domains";
        return Err(Problem::new(Kind::DomainInUse).with_detail(detail));
    }
    let from = app.feed.end();
    let which = domain.which(&caller);
    let row = app.store.delete_domain(&which, &caller.actor()).await??;
    reread(&app).await;
    Ok(published(
        from,
        &row,
        StatusCode::NO_CONTENT.into_response(),
    ))
}

async fn change(
    app: &App,
    caller: &Caller,
    which: &ChangedDomain,
    patch: &DomainPatch,
) -> Result<Response, Problem> {
    let from = app.feed.end();
    let actor = caller.actor();
    let row = app.store.change_domain(which, patch, &actor).await??;
    let table = reread(app).await;
    let answer = Json(DomainView::of_row(&row, &table)).into_response();
    Ok(published(from, &row, answer))
}

/// Puts a change into effect in this process; others follow the feed.
async fn reread(app: &App) -> Arc<DomainTable> {
    // If it fails, the domains are read again soon, and the failure is logged then.
    let read = app.domains.read(&app.store).await;
    read.unwrap_or_else(|_| app.domains.current())
}

/// The answer waits until edges have the change.
fn published(from: FeedPosition, row: &DomainRow, answer: Response) -> Response {
    let key = domain_key(&row.domain);
    AwaitedChanges::new(from, [(key, row.rev)]).attach_to(answer)
}

/// The name of a new domain. What has no name in the DNS cannot be verified.
fn new_name(value: &Value) -> Result<Domain, Reason> {
    let refusal = Reason::Borrowed("must be a DNS name of two labels or more, without port");
    let domain = Domain::parse(values::text(value)?).map_err(|_| refusal.clone())?;
    let name = domain.as_str();
    let last = name.rsplit_once('.').map(|(_, last)| last);
    // Otherwise it may be an address.
    let has_letter = last.is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_alphabetic()));
    match is_dns_name(name, b"") && has_letter {
        true => Ok(domain),
        false => Err(refusal),
    }
}

fn read_details(fields: &mut Fields, links: &TenantLinks<'_>) -> DomainPatch {
    DomainPatch {
        root_url: fields.change("rootUrl", |value| target(value, links)),
        not_found_url: fields.change("notFoundUrl", |value| target(value, links)),
        expired_url: fields.change("expiredUrl", |value| target(value, links)),
        default_status: fields.change("defaultStatus", |value| {
            values::redirect(value).map(|status| status.code())
        }),
        brand_name: fields.change("brandName", brand::name),
        brand_logo: fields.change("brandLogo", brand::logo),
        brand_color: fields.change("brandColor", brand::color),
        verified: None,
    }
}

fn target(value: &Value, links: &TenantLinks<'_>) -> Result<CheckedTarget, Reason> {
    let target = values::target(value, links)?;
    match target.as_str().len() <= MAX_DOMAIN_TARGET_LENGTH {
        true => Ok(target),
        false => Err("must be at most 2048 bytes long".into()),
    }
}

impl From<DomainError> for Problem {
    fn from(error: DomainError) -> Self {
        match error {
            DomainError::NotFound => Self::new(Kind::DomainNotFound),
            DomainError::Taken => {
                let error = FieldError::new("name", "is taken");
                Self::new(Kind::DomainTaken).with_errors(vec![error])
            }
            DomainError::TooMany => Self::new(Kind::TooManyDomains),
            DomainError::TooManyOfTenant(domains) => {
                let detail = format!("the tenant has {domains} domains, and may have no more");
                Self::new(Kind::TooManyDomains).with_detail(detail)
            }
            DomainError::TooManyUnverified(domains) => {
                let detail = format!(
                    "{domains} domains of the tenant are not verified, and no more may be: verify or remove them first"
                );
                Self::new(Kind::TooManyDomains).with_detail(detail)
            }
            DomainError::HasLinks(links) => {
                let more = if links >= MAX_COUNTED_LINKS {
                    " or more"
                } else {
                    ""
                };
                let detail = format!("the domain has {links}{more} links");
                Self::new(Kind::DomainInUse).with_detail(detail)
            }
        }
    }
}
