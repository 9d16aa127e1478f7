//! `/domains`: configured domains, and domains that tenants have made.

use super::accounts::created;
use super::body::JsonObject;
use super::schema;
use crate::app::{ApiCall, App};
use axum::Json;
use axum::extract::{FromRequestParts, Path, RawQuery};
use axum::response::{IntoResponse, Response};
use edgelink_service::caller::Caller;
use edgelink_service::domains::{
    DomainChange, DomainList, DomainRequest, DomainService, DomainView, SeenDomain,
};
use edgelink_service::problem::{Kind, Problem};
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DomainPage)]
struct DomainsView {
    domains: Vec<DomainView>,
    next_cursor: Option<String>,
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
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let list = DomainList::read(query.as_deref())?;
    let page = app.domain_service.list(&caller, list).await?;
    let view = DomainsView {
        domains: page.items.iter().map(DomainView::of).collect(),
        next_cursor: page.next,
    };
    Ok(Json(view).into_response())
}

/// The domain that the path names, if it exists for the caller.
pub(crate) struct RequestedDomain(SeenDomain);

impl FromRequestParts<Arc<App>> for RequestedDomain {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let not_found = || Problem::new(Kind::DomainNotFound);
        let name = Path::<String>::from_request_parts(parts, app).await;
        let Path(name) = name.map_err(|_| not_found())?;
        let caller = parts.extensions.get::<Caller>().ok_or_else(not_found)?;
        app.domain_service.find(caller, &name).await.map(Self)
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
pub(crate) async fn get(RequestedDomain(seen): RequestedDomain) -> Response {
    Json(DomainView::of(&seen)).into_response()
}

/// Makes a domain of the tenant.
///
/// It takes links once it is verified.
#[utoipa::path(
    post,
    path = "/domains",
    operation_id = "createDomain",
    tag = "domains",
    request_body = DomainRequest,
    responses((
        status = 201,
        description = "The domain, and the DNS record that verifies it",
        body = DomainView,
        headers(("Location" = String, description = "Its address"))
    ))
)]
pub(crate) async fn create(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let request = DomainRequest::read(object, &app.links.of_tenant(&caller))?;
    let made = app.domain_service.create(&caller, request).await?;
    Ok(made.answer(|seen| {
        let location = format!("/api/v1/domains/{}", seen.domain);
        created(&DomainView::of(&seen), &location)
    }))
}

/// Changes a domain.
#[utoipa::path(
    patch,
    path = "/domains/{name}",
    operation_id = "changeDomain",
    tag = "domains",
    params(schema::OfDomainName),
    request_body = DomainChange,
    responses((status = 200, description = "The domain as it is now", body = DomainView))
)]
pub(crate) async fn patch(
    ApiCall { app, caller }: ApiCall,
    RequestedDomain(seen): RequestedDomain,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = app.links.of_tenant(&caller);
    let change = DomainService::read_change(&caller, &seen, object, &links)?;
    let changed = app.domain_service.change(&caller, &seen, change).await?;
    Ok(changed.answer(|seen| Json(DomainView::of(&seen)).into_response()))
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
    ApiCall { app, caller }: ApiCall,
    RequestedDomain(seen): RequestedDomain,
) -> Result<Response, Problem> {
    let verified = app.domain_service.verify(&caller, seen).await?;
    Ok(verified.answer(|seen| Json(DomainView::of(&seen)).into_response()))
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
    ApiCall { app, caller }: ApiCall,
    RequestedDomain(seen): RequestedDomain,
) -> Result<Response, Problem> {
    let deleted = app.domain_service.delete(&caller, &seen).await?;
    Ok(deleted.answer(|_| StatusCode::NO_CONTENT.into_response()))
}
