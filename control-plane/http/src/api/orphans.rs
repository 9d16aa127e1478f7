//! `/analytics/orphans`: requests that led to no link, for callers that may read all links of the tenant.

use super::clicks::DeletedView;
use super::clicks::export::{ClicksView, RawAsked};
use super::schema;
use crate::app::App;
use crate::auth::Caller;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::Response;
use edgelink_clicks::analytics::{Interval, OrphanGroup, RawQuery as Asked, orphans};
use edgelink_model::clock;
use edgelink_model::counts::Bots;
use edgelink_service::analytics::{AnalyticsView, DEFAULT_LIMIT, limit};
use edgelink_service::click_filter as filter;
use edgelink_service::fields::{Fields, Reason};
use edgelink_service::problem::Problem;
use edgelink_service::times::{DAY, Times, one_of};
use edgelink_service::values;
use http::HeaderMap;
use serde_json::Value;
use std::sync::Arc;

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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<AnalyticsView>, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let group_by = fields.optional("groupBy", group_by).unwrap_or_default();
    let limit = fields.optional("limit", limit).unwrap_or(DEFAULT_LIMIT);
    let bots = fields.optional("bots", filter::bots).unwrap_or_default();
    let times = Times::read(&mut fields, Err("must not be minute for orphan visits"));
    let domain = fields.optional("domain", |value| {
        values::domain(value, &app.links.of_tenant(&caller))
    });
    fields.finish()?;
    let engine = app.analytics.ask(&caller).await?;
    let query = Asked {
        scope: filter::whole_tenant(&app.links, &caller, domain.as_ref()).await?,
        from: times.interval.from,
        to: times.interval.to,
        bots,
        orphans: true,
        after: None,
        skip: 0,
        limit: 0,
    };
    let (mut answer, at_least) = orphans(&*engine, query, group_by, limit).await?;
    let Interval { from, to } = times.interval;
    // Orphan visits beyond `max_orphans` of a day are only counted: not by domain, not for bots, and not for a part of a day.
    let days = from / DAY..=to.saturating_sub(1) / DAY;
    let kept = app.config.analytics.max_orphans;
    let beyond = app.store.orphans_beyond(caller.tenant_id(), days, kept);
    let beyond = beyond.await?;
    let are_days =
        from.is_multiple_of(DAY) && (to.is_multiple_of(DAY) || to > clock::unix_seconds());
    let is_whole = are_days && domain.is_none() && bots == Bots::Included && !at_least;
    if is_whole {
        answer.clicks += beyond;
        answer.other += beyond;
    }
    let at_least = at_least || beyond > 0 && !is_whole;
    Ok(Json(AnalyticsView::of_values(
        group_by.word(),
        &times,
        answer,
        at_least,
    )))
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
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
    responses((status = 200, description = "How many there were", body = DeletedView))
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<DeletedView>, Problem> {
    let deleted = app.analytics.delete_orphans(&caller).await?;
    Ok(Json(DeletedView { deleted }))
}

fn group_by(value: &Value) -> Result<OrphanGroup, Reason> {
    let group = OrphanGroup::of_word(values::text(value)?);
    group.ok_or_else(|| one_of(OrphanGroup::ALL.map(|(_, word)| word)))
}
