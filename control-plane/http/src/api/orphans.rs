//! `/analytics/orphans`: requests that led to no link, for callers that may read all links of the tenant.

use super::clicks::DeletedClicksView;
use super::clicks::export::{ClicksView, RawAsked};
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::Response;
use edgelink_service::analytics::AnalyticsView;
use edgelink_service::click_filter as filter;
use edgelink_service::fields::Fields;
use edgelink_service::problem::Problem;
use edgelink_service::values;
use http::HeaderMap;

/// Counts orphan visits, by path, type or domain: the newest 10,000 of the interval.
#[utoipa::path(
    get,
    path = "/analytics/orphans",
    operation_id = "getOrphans",
    tag = "analytics",
    params(schema::OrphansQuery, schema::OfTimes),
    responses((status = 200, description = "The orphan visits of the interval", body = AnalyticsView))
)]
pub(crate) async fn get(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Json<AnalyticsView>, Problem> {
    let orphans = app.analytics.orphans(&caller, query.as_deref()).await?;
    Ok(Json(orphans))
}

/// Lists orphan visits, newest first, as a page or as a file, like the clicks of a link.
#[utoipa::path(
    get,
    path = "/analytics/orphans/visits",
    operation_id = "listOrphans",
    tag = "analytics",
    params(schema::OfDomain, schema::OfRawClicks),
    responses((
        status = 200, description = "A page of orphan visits, or a file of them",
        content(
            (ClicksView<'static> = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        ),
    ))
)]
pub(crate) async fn list(
    ApiCall { app, caller }: ApiCall,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let asked = RawAsked::read(&mut fields, &headers);
    let domain = fields.optional("domain", |value| {
        values::domain(value, &app.links.of_tenant(&caller))
    });
    fields.finish()?;
    let scope = filter::whole_tenant(&app.links, &caller, domain.as_ref()).await?;
    asked.answer(&app, &caller, scope, true).await
}

/// Removes all orphan visits of the tenant.
#[utoipa::path(
    delete,
    path = "/analytics/orphans",
    operation_id = "deleteOrphans",
    tag = "analytics",
    responses((status = 200, description = "How many there were", body = DeletedClicksView))
)]
pub(crate) async fn delete(
    ApiCall { app, caller }: ApiCall,
) -> Result<Json<DeletedClicksView>, Problem> {
    let deleted = app.analytics.delete_orphans(&caller).await?;
    Ok(Json(DeletedClicksView { deleted }))
}
