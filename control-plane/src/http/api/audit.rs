//! `GET /audit`: who changed what in the tenant. `GET /links/{code}/history`: the same of one link.

use super::accounts::filter;
use super::fields::Fields;
use super::one::{self, LinkAndQuery};
use super::page;
use super::schema;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::Problem;
use crate::store::{AuditEntry, AuditQuery, subject};
use crate::timestamp;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    LinkAndQuery(key, mut fields): LinkAndQuery,
) -> Result<Response, Problem> {
    let limit = page::limit(&mut fields);
    let query = AuditQuery {
        before: fields.optional("cursor", page::cursor),
        ..AuditQuery::of_tenant(caller.tenant_id(), limit + 1)
    };
    fields.finish()?;
    let link = one::find(&app, &caller, &key).await?;
    let subject = subject(&key);
    let history = app.store.link_history(&query, &subject, link.created_at);
    Ok(answer(history.await?, limit))
}

/// An entry as the API shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
struct EntryView {
    at: String,
    actor: String,
    user_id: Option<u64>,
    action: String,
    subject: String,
    detail: Value,
}

impl EntryView {
    fn new(entry: AuditEntry) -> Self {
        Self {
            at: timestamp::from_millis(entry.at),
            actor: entry.actor.key_id,
            user_id: entry.actor.user_id,
            action: entry.action,
            subject: entry.subject,
            detail: entry.detail,
        }
    }
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let limit = page::limit(&mut fields);
    let query = AuditQuery {
        subject: fields.optional("subject", filter),
        actor: fields.optional("actor", filter),
        action: fields.optional("action", filter),
        before: fields.optional("cursor", page::cursor),
        ..AuditQuery::of_tenant(caller.tenant_id(), limit + 1)
    };
    fields.finish()?;
    Ok(answer(app.store.audit_entries(&query).await?, limit))
}

/// A page of `limit` entries, of which one more was read.
fn answer(mut entries: Vec<AuditEntry>, limit: u32) -> Response {
    let next_cursor = page::cut(&mut entries, limit).map(|entry| page::place(entry.id));
    let entries = entries.into_iter().map(EntryView::new).collect();
    Json(AuditView {
        entries,
        next_cursor,
    })
    .into_response()
}
