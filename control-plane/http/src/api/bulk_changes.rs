//! `PATCH` and `DELETE /links/bulk`: many changes in one request, each with an outcome of its own.
//!
//! Either the body is refused as a whole and changes nothing, or every item has its outcome.

use super::bulk_answer;
use super::bulk_items::{self, BulkItem};
use crate::app::{ApiCall, App};
use crate::auth::check_again;
use axum::extract::Request;
use axum::response::Response;
use edgelink_feed::Changed;
use edgelink_service::answer_room::AnswerRoom;
use edgelink_service::bulk::{ChangedOutcome, NamedChange, NamedLink, NamedPatch, object};
use edgelink_service::caller::Caller;
use edgelink_service::problem::Problem;
use edgelink_service::tenant_links::TenantLinks;
use edgelink_settings::config::LinksConfig;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

#[derive(Serialize)]
struct PatchedCounts {
    changed: usize,
    failed: usize,
}

#[derive(Serialize)]
struct DeletedCounts {
    deleted: usize,
    failed: usize,
}

/// An answer for each item.
#[derive(ToSchema)]
#[schema(as = ChangedLinks)]
#[expect(dead_code, reason = "a declaration")]
struct PatchedView<'a> {
    changed: usize,
    failed: usize,
    results: Vec<BulkItem<'a>>,
}

/// An answer for each item.
#[derive(ToSchema)]
#[schema(as = DeletedLinks)]
#[expect(dead_code, reason = "a declaration")]
struct DeletedLinksView<'a> {
    deleted: usize,
    failed: usize,
    results: Vec<BulkItem<'a>>,
}

/// Changes many links.
///
/// At most 10,000. A body that is wrong as a whole changes nothing; otherwise each item has an outcome of its own.
#[utoipa::path(
    patch,
    path = "/links/bulk",
    operation_id = "changeLinks",
    tag = "links",
    request_body = Vec<NamedPatch>,
    responses((status = 200, description = "An answer for each item", body = PatchedView<'static>))
)]
pub(crate) async fn patch_many(
    ApiCall { app, caller }: ApiCall,
    request: Request,
) -> Result<Response, Problem> {
    let changed = change_many(&app, &caller, request, NamedChange::read_patch).await?;
    Ok(changed.answer(|outcomes| {
        let (changed, failed) = counts(&outcomes);
        let counts = PatchedCounts { changed, failed };
        bulk_answer::answer(&app, &counts, outcomes, |index, outcome, links| {
            view(index, outcome, StatusCode::OK, links)
        })
    }))
}

/// Deletes many links.
///
/// At most 10,000. A body that is wrong as a whole deletes nothing; otherwise each item has an outcome of its own.
#[utoipa::path(
    delete,
    path = "/links/bulk",
    operation_id = "deleteLinks",
    tag = "links",
    request_body = Vec<NamedLink>,
    responses((status = 200, description = "An answer for each item", body = DeletedLinksView<'static>))
)]
pub(crate) async fn delete_many(
    ApiCall { app, caller }: ApiCall,
    request: Request,
) -> Result<Response, Problem> {
    let deleted = change_many(&app, &caller, request, NamedChange::read_deletion).await?;
    Ok(deleted.answer(|outcomes| {
        let (deleted, failed) = counts(&outcomes);
        let counts = DeletedCounts { deleted, failed };
        bulk_answer::answer(&app, &counts, outcomes, |index, outcome, links| {
            view(index, outcome, StatusCode::NO_CONTENT, links)
        })
    }))
}

/// Reads an item of a body.
type Read = fn(Map<String, Value>, &TenantLinks<'_>, &Caller) -> Result<NamedChange, Problem>;

/// Makes the changes of a body.
async fn change_many(
    app: &App,
    caller: &Caller,
    request: Request,
    read: Read,
) -> Result<Changed<Vec<ChangedOutcome>>, Problem> {
    bulk_items::check_type(request.headers())?;
    let mut room = AnswerRoom::of(&app.config.server);
    let links = &app.links.of_tenant(caller);
    let (parts, body) = request.into_parts();
    let changes = bulk_items::read(app, &parts.extensions, body, |_, value| {
        let change = object(value).and_then(|object| read(object, links, caller));
        change.map_err(|problem| room.fitting(problem))
    });
    let (changes, _admitted) = changes.await?;
    check_again(&app.keys, &parts.headers, caller).await?;
    app.links.change_many(caller, changes, room).await
}

/// The numbers of items that have succeeded, and failed.
fn counts(outcomes: &[ChangedOutcome]) -> (usize, usize) {
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    (outcomes.len() - failed, failed)
}

fn view<'a>(
    index: usize,
    outcome: &'a ChangedOutcome,
    done: StatusCode,
    links: &LinksConfig,
) -> BulkItem<'a> {
    match outcome {
        Ok(link) => BulkItem::done(index, done, link.shown.as_ref(), links),
        Err(problem) => BulkItem::refused(index, problem),
    }
}
