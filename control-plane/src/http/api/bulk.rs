//! `POST /links/bulk`: many links in one request, each with an outcome of its own.
//!
//! Either the body is refused as a whole and creates nothing, or every item has its outcome.

use super::bulk_items::{self, ItemView};
use super::create;
use super::idempotency::{RequestId, Route, WholeRequest};
use super::quota;
use crate::config::LinksConfig;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::order::{Order, OrderOutcome};
use crate::problem::{Kind, Problem};
use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

type Parsed = Result<Order, Problem>;

#[derive(Serialize)]
struct BulkView<'a> {
    created: usize,
    existing: usize,
    failed: usize,
    results: Vec<ItemView<'a>>,
}

pub(crate) async fn create_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let id = RequestId::of(request.headers(), &caller, Route::Bulk)?;
    let _permit = bulk_items::admit(&app, request.headers())?;
    let mut whole = WholeRequest::default();
    let links = &app.config.links;
    let parsed = bulk_items::read(&app.config.server, request.into_body(), |index, value| {
        if id.is_some() {
            whole.add(&value);
        }
        parse(index, value, id.as_ref(), links, &caller)
    });
    let parsed = parsed.await?;
    if let Some(id) = &id {
        id.claim(app.store.as_ref(), whole).await?;
    }
    let is_alias = |item: &Parsed| matches!(item, Ok(order) if order.alias.is_some());
    let are_aliases: Vec<bool> = parsed.iter().map(is_alias).collect();
    let from = app.feed.end();
    // Counted from the end of the body, which may be large.
    let limit = app.config.server.request_timeout_ms;
    let outcomes = tokio::time::timeout(limit, carry_out(&app, &caller, parsed, limit))
        .await
        .map_err(|_| Problem::new(Kind::RequestTimeout))?;
    let aliases = outcomes.iter().zip(are_aliases).filter(|(_, is)| *is);
    let created = aliases.filter_map(|(outcome, _)| outcome.as_ref().ok()?.new_link());
    let awaited = AwaitedChanges::new(from, created);
    Ok(awaited.attach_to(answer(&outcomes, links)))
}

/// Carries out the valid orders; the outcomes are in the order of the items, refused ones included.
async fn carry_out(
    app: &App,
    caller: &Caller,
    parsed: Vec<Parsed>,
    limit: Duration,
) -> Vec<OrderOutcome> {
    let mut orders = Vec::with_capacity(parsed.len());
    let refused: Vec<Option<Problem>> = parsed
        .into_iter()
        .map(|item| item.map(|order| orders.push(order)).err())
        .collect();
    // A little before the request times out, so that the answer names what was created.
    let now = Instant::now();
    let (deadline, end) = (now + limit.mul_f32(0.8), now + limit.mul_f32(0.95));
    let mut made = quota::create_many(app, caller, &orders, deadline, end)
        .await
        .into_iter();
    let outcome = |refusal: Option<Problem>| match refusal {
        Some(problem) => Err(problem),
        None => made.next().unwrap_or(Err(Problem::new(Kind::Internal))),
    };
    refused.into_iter().map(outcome).collect()
}

/// The order of an item.
fn parse(
    index: usize,
    value: Value,
    id: Option<&RequestId>,
    links: &LinksConfig,
    caller: &Caller,
) -> Parsed {
    let object = bulk_items::object(value)?;
    let item = u32::try_from(index).unwrap_or(u32::MAX);
    let receipt = id.map(|id| id.receipt(item, &object));
    create::parse(object, links, caller, receipt)
}

fn answer(outcomes: &[OrderOutcome], links: &LinksConfig) -> Response {
    let is_new = |outcome: &&OrderOutcome| matches!(outcome, Ok(made) if !made.is_found);
    let created = outcomes.iter().filter(is_new).count();
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let view = |(index, outcome)| item_view(index, outcome, links);
    let answer = BulkView {
        created,
        existing: outcomes.len() - created - failed,
        failed,
        results: outcomes.iter().enumerate().map(view).collect(),
    };
    Json(answer).into_response()
}

fn item_view<'a>(index: usize, outcome: &'a OrderOutcome, links: &LinksConfig) -> ItemView<'a> {
    match outcome {
        Ok(made) if made.is_found => ItemView::done(index, StatusCode::OK, Some(&made.link), links),
        Ok(made) => ItemView::done(index, StatusCode::CREATED, Some(&made.link), links),
        Err(problem) => ItemView::refused(index, problem),
    }
}
