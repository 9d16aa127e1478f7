//! `/reports`: reports of abuse by visitors.

use super::accounts::ResourceId;
use super::body::JsonObject;
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
use edgelink_service::page;
use edgelink_service::problem::Problem;
use edgelink_service::reports::{ReportList, ReportPatch, ReportView, reviewer};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReportPage)]
struct ReportsView {
    reports: Vec<ReportView>,
    next_cursor: Option<String>,
}

/// Lists reports of abuse.
///
/// Those about links of the tenant; for admins of the first tenant all.
#[utoipa::path(
    get,
    path = "/reports",
    operation_id = "listReports",
    tag = "reports",
    params(schema::OfReports, schema::Page),
    responses((status = 200, description = "A page of reports, newest first", body = ReportsView))
)]
pub(crate) async fn list(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let list = ReportList::read(query.as_deref())?;
    let page = app.links.list_reports(&caller, list).await?;
    let view = |row| ReportView::new(&app.config.links, reviewer(&caller), row);
    let view = ReportsView {
        reports: page.items.into_iter().map(view).collect(),
        next_cursor: page.next,
    };
    Ok(Json(view).into_response())
}

/// Closes a report of abuse, or opens it again.
///
/// Admins of the first tenant and those of the link's tenant do so each for themselves. With `disableLink` the link is disabled before.
#[utoipa::path(
    patch,
    path = "/reports/{id}",
    operation_id = "changeReport",
    tag = "reports",
    params(("id" = u64, Path, description = "The number of the report")),
    request_body = ReportPatch,
    responses((status = 200, description = "The report as it is now", body = ReportView))
)]
pub(crate) async fn patch(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let id = page::number(&id)?;
    let patch = ReportPatch::read(object)?;
    let changed = app.links.change_report(&caller, id, &patch).await?;
    Ok(changed.answer(|row| {
        Json(ReportView::new(&app.config.links, reviewer(&caller), row)).into_response()
    }))
}
