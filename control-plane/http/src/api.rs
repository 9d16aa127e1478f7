//! The admin API, `/api/v1`. Handlers only translate: requests into types whose values are valid, and outcomes into JSON.

mod accounting;
mod accounts;
mod analytics;
mod audit;
pub(super) mod body;
mod bulk;
mod bulk_answer;
mod bulk_changes;
mod bulk_items;
pub(super) mod clicks;
pub(super) mod create;
mod domains;
mod dry_run;
pub mod events;
mod idempotency_key;
pub(super) mod if_match;
mod import;
mod items;
mod keys;
pub(super) mod list;
mod moving;
mod no_query;
pub(super) mod one;
mod orphans;
pub(super) mod patch;
mod reports;
pub(super) mod rules;
mod schema;
pub(super) mod tags;
mod tenants;
mod track;
mod upsert;
mod users;
mod view;
mod webhooks;

use crate::app::App;
use crate::auth::require_api_key;
use crate::limits;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use edgelink_model::links::model::Link;
use edgelink_service::problem::{method_not_allowed, nothing_here};
use edgelink_settings::config::LinksConfig;
use no_query::Bare;
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes, each with its part of the OpenAPI document.
fn documented() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list, upsert::put))
        .routes(routes!(one::get, patch::patch, one::delete))
        .routes(routes!(moving::restore))
        .routes(routes!(moving::move_link))
        .routes(routes!(rules::get, rules::replace))
        .routes(routes!(dry_run::resolve))
        .routes(routes!(audit::history))
        .routes(routes!(tags::list))
        .routes(routes!(tags::patch, tags::delete))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::get, keys::patch, keys::delete))
        .routes(routes!(keys::rotate))
        .routes(routes!(users::create, users::list))
        .routes(routes!(users::get, users::patch))
        .routes(routes!(tenants::create, tenants::list))
        .routes(routes!(domains::create, domains::list))
        .routes(routes!(domains::get, domains::patch, domains::delete))
        .routes(routes!(domains::verify))
        .routes(routes!(audit::list))
        .routes(routes!(webhooks::create, webhooks::list))
        .routes(routes!(webhooks::get, webhooks::patch, webhooks::delete))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(webhooks::ping))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(accounting::get))
        .routes(routes!(analytics::get))
        .routes(routes!(orphans::get, orphans::delete))
        .routes(routes!(orphans::list))
        .routes(routes!(events::stream))
        .routes(routes!(track::track))
        .routes(routes!(reports::list))
        .routes(routes!(reports::patch))
        .routes(routes!(clicks::list, clicks::delete))
}

/// The routes of bulk requests.
fn documented_bulk() -> OpenApiRouter<Arc<App>> {
    let routes = routes!(
        bulk::create_many,
        bulk_changes::patch_many,
        bulk_changes::delete_many
    );
    OpenApiRouter::new()
        .routes(routes)
        .routes(routes!(import::import))
}

/// The OpenAPI document of all routes, with paths below `/api/v1`.
pub(super) fn document() -> utoipa::openapi::OpenApi {
    documented().merge(documented_bulk()).into_openapi()
}

/// The routes that need an API key, paths that do not exist included.
pub fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let (routes, document) = documented().split_for_parts();
    let bare = Bare::of(&document);
    protected_with(routes.fallback(nothing_here), app, bare)
}

/// The routes of bulk requests, which have a time limit of their own.
pub fn bulk_routes(app: &Arc<App>) -> Router<Arc<App>> {
    let (routes, document) = documented_bulk().split_for_parts();
    let bare = Bare::of(&document);
    protected_with(routes, app, bare)
}

/// A link as the API shows it.
pub fn show_link(link: &Link, config: &LinksConfig) -> Value {
    json!(view::LinkView::new(link, config))
}

/// Routes behind API keys and rate limits.
pub(super) fn protected(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    protected_with(routes, app, Arc::default())
}

/// Routes behind API keys and rate limits, some of which take no parameters.
fn protected_with(routes: Router<Arc<App>>, app: &Arc<App>, bare: Arc<Bare>) -> Router<Arc<App>> {
    routes
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state((app.clone(), bare), protect))
}

/// Runs a request within the limits of its address and key, if its key has the right that it needs.
async fn protect(
    State((app, bare)): State<(Arc<App>, Arc<Bare>)>,
    request: Request,
    next: Next,
) -> Response {
    let run = async |mut request: Request| {
        if let Err(refusal) = require_api_key(&app.keys, &mut request).await {
            return refusal;
        }
        limits::counted(&app, request, async |request| match bare.check(&request) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        })
        .await
    };
    limits::guarded(&app, request, run).await
}
