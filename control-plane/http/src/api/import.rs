//! `POST /import`: links of another system, with their history there. Each has an outcome of its own, as in `POST /links/bulk`.
//!
//! An item is a link as `POST /links` takes it, and may have conditional targets, and for admins its history: its time of creation
//! and number of visits. An item whose code belongs to a link with that target already counts as imported, so that a repeated
//! import changes nothing; not so if the item has a password and the link has none. With `dryRun=true` nothing is created, and
//! the answer predicts the outcomes.

use super::bulk;
use super::bulk_items::BulkItem;
use super::idempotency_key;
use super::schema;
use crate::app::ApiCall;
use axum::extract::{RawQuery, Request};
use axum::response::Response;
use edgelink_service::fields::Fields;
pub(super) use edgelink_service::idempotency::Route;
pub(super) use edgelink_service::import::{Foreseen, ImportedLink};
use edgelink_service::problem::Problem;
use edgelink_service::values;
use edgelink_settings::config::LinksConfig;
use http::StatusCode;

/// Imports links of another system.
///
/// At most 10,000. Each has an outcome of its own, as for links that are created. An item whose code a link to the same target has
/// counts as imported, so that a repeated import changes nothing.
#[utoipa::path(
    post,
    path = "/import",
    operation_id = "importLinks",
    tag = "links",
    params(schema::Idempotency, schema::DryRun),
    request_body = Vec<ImportedLink>,
    responses((status = 200, description = "An answer for each item", body = bulk::BulkView<'static>))
)]
pub(crate) async fn import(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let is_dry_run = fields.optional("dryRun", values::query_flag);
    fields.finish()?;
    let import = app.links.import(&caller).await?;
    // A dry run refuses a wrong key too, and does nothing with a right one.
    let id = idempotency_key::read(request.headers(), &caller, Route::Import)?;
    let is_dry_run = is_dry_run.unwrap_or_default();
    let id = id.filter(|_| !is_dry_run);
    let read = |object| import.read(object);
    let new = bulk::new_links(&app, &caller, request, id, read).await?;
    if is_dry_run {
        let foreseen = import.try_out(new.items, new.room).await?;
        return Ok(bulk::answer_of(&app, foreseen, view));
    }
    let made = import.run(new.items, new.room).await?;
    Ok(made.answer(|outcomes| bulk::answer(&app, outcomes)))
}

fn view<'f>(
    index: usize,
    outcome: &'f Result<Foreseen, Problem>,
    links: &LinksConfig,
) -> BulkItem<'f> {
    match outcome {
        Ok(Foreseen::Created) => BulkItem::done(index, StatusCode::CREATED, None, links),
        Ok(Foreseen::Existing(link)) => {
            BulkItem::done(index, StatusCode::OK, link.as_deref(), links)
        }
        Err(problem) => BulkItem::refused(index, problem),
    }
}
