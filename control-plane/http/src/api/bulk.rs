//! `POST /links/bulk`: many links in one request, each with an outcome of its own.
//!
//! Either the body is refused as a whole and creates nothing, or every item has its outcome.

use super::bulk_answer;
use super::bulk_items::{self, BulkItem};
use super::idempotency_key;
use super::schema;
use crate::admitted::Admitted;
use crate::app::{ApiCall, App};
use crate::auth::check_again;
use axum::extract::Request;
use axum::response::Response;
use edgelink_service::answer_room::AnswerRoom;
use edgelink_service::bulk::NewLinks;
use edgelink_service::caller::Caller;
use edgelink_service::create_link::{CreateLink, CreateOutcome, LinkRequest};
pub(super) use edgelink_service::idempotency::{RequestId, Route};
use edgelink_service::problem::Problem;
use edgelink_settings::config::LinksConfig;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use utoipa::ToSchema;

/// The numbers of items of a request by outcome.
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
    results: Vec<BulkItem<'a>>,
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
    request_body = Vec<LinkRequest>,
    responses((status = 200, description = "An answer for each item", body = BulkView<'static>))
)]
pub(crate) async fn create_many(
    ApiCall { app, caller }: ApiCall,
    request: Request,
) -> Result<Response, Problem> {
    let id = idempotency_key::read(request.headers(), &caller, Route::Bulk)?;
    let links = &app.links.of_tenant(&caller);
    let read = |object| CreateLink::read(object, links, &caller);
    let new = new_links(&app, &caller, request, id, read).await?;
    let made = app.links.create_many(&caller, new.items).await?;
    Ok(made.answer(|outcomes| answer(&app, outcomes)))
}

/// The links that a request wants to create.
pub(super) struct ArrivedLinks {
    pub(super) items: Vec<Result<CreateLink, Problem>>,
    /// Room of the answer beside them.
    pub(super) room: AnswerRoom,
    _admitted: Admitted,
}

/// Reads the links that a request wants to create, each by `read`, and claims the id of the request.
pub(super) async fn new_links(
    app: &App,
    caller: &Caller,
    request: Request,
    id: Option<RequestId>,
    read: impl FnMut(Map<String, Value>) -> Result<CreateLink, Problem>,
) -> Result<ArrivedLinks, Problem> {
    bulk_items::check_type(request.headers())?;
    let mut new = NewLinks::new(id, AnswerRoom::of(&app.config.server), read);
    let (parts, body) = request.into_parts();
    let add = |index, value| new.add(index, value);
    let (items, admitted) = bulk_items::read(app, &parts.extensions, body, add).await?;
    check_again(&app.keys, &parts.headers, caller).await?;
    Ok(ArrivedLinks {
        items,
        room: new.claim(&app.links).await?,
        _admitted: admitted,
    })
}

/// The answer for items that were carried out.
pub(super) fn answer(app: &Arc<App>, outcomes: Vec<CreateOutcome>) -> Response {
    answer_of(app, outcomes, item_view)
}

/// The answer for outcomes that are shown by `view`.
pub(super) fn answer_of<O: Send + 'static>(
    app: &Arc<App>,
    outcomes: Vec<O>,
    view: for<'o> fn(usize, &'o O, &LinksConfig) -> BulkItem<'o>,
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
    bulk_answer::answer(app, &counts, outcomes, view)
}

fn item_view<'a>(index: usize, outcome: &'a CreateOutcome, links: &LinksConfig) -> BulkItem<'a> {
    match outcome {
        Ok(made) => {
            let status = if made.is_found {
                StatusCode::OK
            } else {
                StatusCode::CREATED
            };
            BulkItem::done(index, status, made.shown(), links)
        }
        Err(problem) => BulkItem::refused(index, problem),
    }
}
