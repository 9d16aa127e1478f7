//! `/reports`: reports of abuse by visitors.

use super::accounts::{self, ResourceId};
use super::body::JsonObject;
use super::fields::{Fields, Reason};
use super::{one, page, schema, values};
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::checked::CheckedContent;
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use crate::store::{ReportQuery, ReportRow, Reviewer};
use crate::timestamp;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::{LinkKey, LinkState};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// A report of abuse as the API shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Report)]
struct ReportView {
    id: u64,
    /// `open` or `closed`: for admins of the first tenant whether they have closed it, for others whether their tenant has.
    state: &'static str,
    /// Whether the tenant of the link has closed it: `open` or `closed`.
    tenant_state: &'static str,
    /// The tenant of the link.
    tenant: u32,
    domain: String,
    short_code: String,
    short_url: String,
    /// Where the link led when it was reported.
    long_url: String,
    reason: &'static str,
    /// What the visitor says.
    text: Option<String>,
    /// Where the visitor can be asked: for admins of the first tenant, and for others if the visitor lets them see it.
    email: Option<String>,
    created_at: String,
    /// When it became `closed`; null while it is `open`.
    closed_at: Option<String>,
}

impl ReportView {
    fn new(app: &App, reviewer: Reviewer, row: ReportRow) -> Self {
        let closed_at = reviewer.closed_at(&row);
        let ReportRow { id, report, .. } = row;
        let sees_email = reviewer == Reviewer::Operator || report.shares_email;
        let LinkKey { domain, code } = &report.key;
        Self {
            id,
            state: state(closed_at),
            tenant_state: state(row.tenant_closed_at),
            tenant: report.tenant_id,
            short_url: app.config.links.short_url(domain, code),
            domain: domain.as_str().to_owned(),
            short_code: code.as_str().to_owned(),
            long_url: report.target,
            reason: report.reason.word(),
            text: report.text,
            email: report.email.filter(|_| sees_email),
            created_at: timestamp::from_millis(row.created_at),
            closed_at: closed_at.map(timestamp::from_millis),
        }
    }
}

fn state(closed_at: Option<u64>) -> &'static str {
    match closed_at {
        Some(_) => "closed",
        None => "open",
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReportPage)]
struct ReportsView {
    reports: Vec<ReportView>,
    next_cursor: Option<String>,
}

/// The party for which a caller looks at reports.
fn reviewer(caller: &Caller) -> Reviewer {
    if caller.is_operator() {
        Reviewer::Operator
    } else {
        Reviewer::Tenant(caller.tenant_id())
    }
}

/// Whether a state is that of a report that is open.
fn is_open(value: &Value) -> Result<bool, Reason> {
    match values::text(value)? {
        "open" => Ok(true),
        "closed" => Ok(false),
        _ => Err("must be open or closed".into()),
    }
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let limit = page::limit(&mut fields);
    let query = ReportQuery {
        reviewer: reviewer(&caller),
        is_open: fields.optional("state", is_open),
        before: fields.optional("cursor", page::cursor),
        limit: limit + 1,
    };
    fields.finish()?;
    let mut rows = app.store.list_reports(&query).await?;
    let next_cursor = page::cut(&mut rows, limit).map(|row| page::place(row.id));
    let reports = rows
        .into_iter()
        .map(|row| ReportView::new(&app, query.reviewer, row));
    Ok(Json(ReportsView {
        reports: reports.collect(),
        next_cursor,
    })
    .into_response())
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
    request_body = schema::ReportPatch,
    responses((status = 200, description = "The report as it is now", body = ReportView))
)]
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let id = accounts::id(&id)?;
    let mut fields = Fields::new(object);
    let state = accounts::change(&mut fields, "state", is_open);
    let disables = fields.optional("disableLink", values::flag);
    fields.finish()?;
    let which = (reviewer(&caller), id);
    let not_found = || Problem::new(Kind::NotFound);
    let row = app.store.find_report(which.0, id).await?;
    let mut row = row.ok_or_else(not_found)?;
    let mut awaited = None;
    if disables == Some(true) {
        awaited = Some(disable(&app, &caller, &row).await?);
    }
    if let Some(is_open) = state {
        let actor = caller.actor();
        let changed = app.store.change_report(which, is_open, &actor).await?;
        row = changed.ok_or_else(not_found)?;
    }
    let answer = Json(ReportView::new(&app, which.0, row)).into_response();
    Ok(match awaited {
        Some(awaited) => awaited.attach_to(answer),
        None => answer,
    })
}

/// Disables the link of a report. Those who operate the installation disable links of any tenant; the code may have gone to another one.
async fn disable(app: &App, caller: &Caller, row: &ReportRow) -> Result<AwaitedChanges, Problem> {
    let (actor, tenant_id) = (caller.actor(), row.report.tenant_id);
    let (key, caller) = (row.report.key.clone(), caller.clone());
    let change = Box::new(move |link: &Link| {
        if link.tenant_id != tenant_id || !caller.is_operator() {
            caller.check(link)?;
        }
        let mut content = CheckedContent::existing(link);
        *content.others().state = LinkState::Disabled;
        Ok(content)
    });
    let from = app.feed.end();
    let link = one::outcome(app.store.update_link(&key, change, &actor).await?)?;
    Ok(AwaitedChanges::new(from, [(key, link.rev)]))
}
