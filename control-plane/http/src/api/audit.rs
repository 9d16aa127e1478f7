//! `GET /audit`: the audit log of the tenant. `GET /links/{code}/history`: its entries about one link.

use super::one::LinkAndQuery;
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
use edgelink_service::audit::AuditEntry;
use edgelink_service::audit::{self, EntryView};
use edgelink_service::page::{self, Page};
use edgelink_service::problem::Problem;
use serde::Serialize;
use utoipa::ToSchema;

/// Lists who changed the link, and what.
#[utoipa::path(
    get,
    path = "/links/{code}/history",
    operation_id = "listHistory",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::Page),
    responses((status = 200, description = "A page of entries, newest first", body = AuditView))
)]
pub(crate) async fn history(
    ApiCall { app, caller }: ApiCall,
    LinkAndQuery(key, mut fields): LinkAndQuery,
) -> Result<Response, Problem> {
    let limit = page::limit(&mut fields);
    let before = fields.optional("cursor", page::cursor);
    fields.finish()?;
    let page = app.links.history(&caller, &key, limit, before).await?;
    Ok(answer(page))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditPage)]
struct AuditView {
    entries: Vec<EntryView>,
    next_cursor: Option<String>,
}

/// Lists who changed what in the tenant.
#[utoipa::path(
    get,
    path = "/audit",
    operation_id = "listAudit",
    tag = "accounts",
    params(schema::OfAudit, schema::Page),
    responses((status = 200, description = "A page of entries, newest first", body = AuditView))
)]
pub(crate) async fn list(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = audit::list_of(&caller, query.as_deref())?;
    Ok(answer(app.links.audit(&caller, query).await?))
}

fn answer(page: Page<AuditEntry>) -> Response {
    let view = AuditView {
        entries: page.items.into_iter().map(EntryView::new).collect(),
        next_cursor: page.next,
    };
    Json(view).into_response()
}
