//! `POST /links/bulk`: many links in one request, each with an outcome of its own.
//!
//! Either the body is refused as a whole and creates nothing, or every item has its outcome.

use super::answer_room::{self, AnswerRoom};
use super::bulk_items::{self, Deadlines, ItemView};
use super::bulk_passwords::{hash_all, refuse_beyond};
use super::create;
use super::draft::Draft;
use super::idempotency::{RequestId, Route, WholeRequest};
use super::quota;
use super::schema;
use crate::config::LinksConfig;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::{Caller, check_again};
use crate::http::tenant_links::TenantLinks;
use crate::problem::{Kind, Problem};
use crate::service::order::{Order, OrderOutcome};
use crate::service::passwords::MAX_PER_REQUEST;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// The order of an item.
pub(super) type Parsed = Result<Draft, Problem>;

/// What has become of the items of a request.
#[derive(Serialize)]
pub(super) struct CreatedCounts {
    created: usize,
    existing: usize,
    failed: usize,
}

/// An answer for each item.
#[derive(ToSchema)]
#[schema(as = CreatedLinks)]
#[expect(dead_code, reason = "a declaration")]
pub(super) struct BulkView<'a> {
    created: usize,
    existing: usize,
    failed: usize,
    results: Vec<ItemView<'a>>,
}

/// Creates many links.
///
/// At most 10,000. A body that is wrong as a whole creates nothing; otherwise each link has an outcome of its own.
#[utoipa::path(
    post,
    path = "/links/bulk",
    operation_id = "createLinks",
    tag = "links",
    params(schema::Idempotency),
    request_body = Vec<schema::NewLink>,
    responses((status = 200, description = "An answer for each item", body = BulkView<'static>))
)]
pub(crate) async fn create_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let id = RequestId::of(request.headers(), &caller, Route::Bulk)?;
    bulk_items::check_type(request.headers())?;
    let mut whole = WholeRequest::default();
    let mut room = AnswerRoom::of(&app.config.server);
    let links = &app.links(&caller);
    let (parts, body) = request.into_parts();
    let parsed = bulk_items::read(&app, &parts.extensions, body, |index, value| {
        if let Some(id) = &id {
            whole.add(id, &value);
        }
        let parsed = parse(index, value, id.as_ref(), links, &caller);
        room.admit(parsed, Draft::content)
    });
    let (parsed, _admitted) = parsed.await?;
    check_again(&app.keys, &parts.headers, &caller).await?;
    if let Some(id) = &id {
        id.claim(app.store.as_ref(), whole).await?;
    }
    let parsed = hash_passwords(&app, &caller, parsed).await;
    let is_alias = |item: &Result<Order, _>| matches!(item, Ok(order) if order.alias.is_some());
    let are_aliases: Vec<bool> = parsed.iter().map(is_alias).collect();
    let from = app.feed.end();
    let limit = app.config.server.request_timeout_ms;
    let run = async |orders: Vec<Order>, by: Deadlines| {
        quota::create_many(&app, &caller, &orders, by.begin, by.end).await
    };
    let outcomes = bulk_items::carry_out(parsed, limit, Kind::RequestTimeout, run).await?;
    let aliases = outcomes.iter().zip(are_aliases).filter(|(_, is)| *is);
    let created = aliases.filter_map(|(outcome, _)| outcome.as_ref().ok()?.new_link());
    let awaited = AwaitedChanges::new(from, created);
    Ok(awaited.attach_to(answer(&app, outcomes)))
}

/// The order of an item.
fn parse(
    index: usize,
    value: Value,
    id: Option<&RequestId>,
    links: &TenantLinks<'_>,
    caller: &Caller,
) -> Parsed {
    let object = bulk_items::object(value)?;
    let item = u32::try_from(index).unwrap_or(u32::MAX);
    let receipt = id.map(|id| id.receipt(item, &object));
    create::parse(object, links, caller, receipt)
}

/// Hashes the passwords of items; the orders with the hashes.
pub(super) async fn hash_passwords(
    app: &App,
    caller: &Caller,
    mut parsed: Vec<Parsed>,
) -> Vec<Result<Order, Problem>> {
    let setter = caller.claim();
    hash_all(&app.passwords, &mut parsed, Draft::new_password, &setter).await;
    let parsed = parsed.into_iter();
    parsed.map(|item| item.map(Draft::hashed)).collect()
}

/// The orders of a request that keeps nothing: their passwords need no hash, and as many may have one as of others.
pub(super) fn without_hashes(mut parsed: Vec<Parsed>) -> Vec<Result<Order, Problem>> {
    refuse_beyond(MAX_PER_REQUEST, &mut parsed, Draft::new_password);
    let parsed = parsed.into_iter();
    parsed.map(|item| item.map(Draft::unhashed)).collect()
}

/// The answer for items that were carried out.
pub(super) fn answer(app: &Arc<App>, outcomes: Vec<OrderOutcome>) -> Response {
    answer_of(app, outcomes, item_view)
}

/// The same of outcomes that are shown by `view`.
pub(super) fn answer_of<O: Send + 'static>(
    app: &Arc<App>,
    outcomes: Vec<O>,
    view: for<'o> fn(usize, &'o O, &LinksConfig) -> ItemView<'o>,
) -> Response {
    let links = &app.config.links;
    let statuses = outcomes
        .iter()
        .map(|outcome| view(0, outcome, links).status());
    let statuses: Vec<StatusCode> = statuses.collect();
    let count =
        |wanted: fn(&StatusCode) -> bool| statuses.iter().filter(|status| wanted(status)).count();
    let counts = CreatedCounts {
        created: count(|status| *status == StatusCode::CREATED),
        existing: count(|status| *status == StatusCode::OK),
        failed: count(|status| !status.is_success()),
    };
    answer_room::answer(app, &counts, outcomes, view)
}

fn item_view<'a>(index: usize, outcome: &'a OrderOutcome, links: &LinksConfig) -> ItemView<'a> {
    match outcome {
        Ok(made) => {
            let status = match made.is_found {
                true => StatusCode::OK,
                false => StatusCode::CREATED,
            };
            ItemView::done(index, status, made.shown(), links)
        }
        Err(problem) => ItemView::refused(index, problem),
    }
}
