//! `GET` and `DELETE /links/{code}/clicks`: the single clicks of a link.

pub(crate) mod export;
pub(crate) mod view;

use super::one::{LinkAndQuery, RequestedLink};
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::response::Response;
use edgelink_model::counts::ClickScope;
use edgelink_service::problem::Problem;
use export::{ClicksView, RawAsked};
use http::HeaderMap;
use serde::Serialize;
use utoipa::ToSchema;

/// How many clicks were removed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeletedClicks)]
pub(crate) struct DeletedClicksView {
    pub(super) deleted: u64,
}

/// Lists the single clicks of a link, newest first.
///
/// With `Accept: text/csv` or `application/x-ndjson`, or `format`, the answer is a file of 100,000 clicks at most, or `limit`; the
/// `id` of its last click is the `cursor` of the next one.
#[utoipa::path(
    get,
    path = "/links/{code}/clicks",
    operation_id = "listClicks",
    tag = "analytics",
    params(schema::OfCode, schema::OfDomain, schema::OfRawClicks),
    responses((
        status = 200, description = "A page of clicks, or a file of them",
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
    LinkAndQuery(key, mut fields): LinkAndQuery,
) -> Result<Response, Problem> {
    let asked = RawAsked::read(&mut fields, &headers);
    fields.finish()?;
    let link = app.links.find(&caller, &key).await?;
    let scope = ClickScope::Links(vec![link.id]);
    asked.answer(&app, &caller, scope, false).await
}

/// Removes the clicks of a link: single ones, and all that is counted of it.
#[utoipa::path(
    delete,
    path = "/links/{code}/clicks",
    operation_id = "deleteClicks",
    tag = "analytics",
    params(schema::OfCode, schema::OfDomain),
    responses((status = 200, description = "How many clicks there were", body = DeletedClicksView))
)]
pub(crate) async fn delete(
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
) -> Result<Json<DeletedClicksView>, Problem> {
    let deleted = app.analytics.delete_clicks(&caller, &key).await?;
    Ok(Json(DeletedClicksView { deleted }))
}
