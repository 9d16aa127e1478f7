//! The admin API, `/api/v1`. Handlers only translate: requests into types whose values are valid, and outcomes into JSON.

mod accounts;
mod audit;
mod body;
mod bulk;
mod bulk_changes;
mod bulk_items;
mod create;
mod cursor;
mod dry_run;
mod fields;
mod idempotency;
mod if_match;
mod items;
mod keys;
mod list;
mod moving;
mod one;
mod page;
mod patch;
mod properties;
mod quota;
mod rules;
mod tags;
mod tenants;
mod upsert;
mod users;
mod values;
mod view;

use crate::http::app::App;
use crate::http::auth::require_api_key;
use crate::http::limits;
use crate::problem::{Problem, method_not_allowed, nothing_here};
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;

/// The routes that need an API key, paths that do not exist included.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let routes = Router::new()
        .route(
            "/links",
            post(create::create).get(list::list).put(upsert::put),
        )
        .route(
            "/links/{code}",
            get(one::get).patch(patch::patch).delete(one::delete),
        )
        .route("/keys", post(keys::create).get(keys::list))
        .route(
            "/keys/{id}",
            get(keys::get).patch(keys::patch).delete(keys::delete),
        )
        .route("/keys/{id}/rotate", post(keys::rotate))
        .route("/users", post(users::create).get(users::list))
        .route("/users/{id}", get(users::get).patch(users::patch))
        .route("/tenants", post(tenants::create).get(tenants::list))
        .route("/audit", get(audit::list))
        .route("/links/{code}/restore", post(moving::restore))
        .route("/links/{code}/history", get(audit::history))
        .route("/links/{code}/move", post(moving::move_link))
        .route("/links/{code}/rules", get(rules::get).post(rules::replace))
        .route("/links/{code}/resolve", post(dry_run::resolve))
        .route("/tags", get(tags::list))
        .route("/tags/{tag}", patch(tags::patch).delete(tags::delete))
        .route("/clicks/accounting", get(accounting))
        .fallback(nothing_here);
    protected(routes, app)
}

/// The route of bulk requests, whose time has a bound of its own.
pub(crate) fn bulk_routes(app: &Arc<App>) -> Router<Arc<App>> {
    let routes = Router::new().route(
        "/links/bulk",
        post(bulk::create_many)
            .patch(bulk_changes::patch_many)
            .delete(bulk_changes::delete_many),
    );
    protected(routes, app)
}

/// Routes behind API keys and rate limits.
fn protected(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(app.clone(), limits::count))
        .layer(from_fn_with_state(app.keys.clone(), require_api_key))
        .layer(from_fn_with_state(app.clone(), limits::guard))
}

/// `GET /clicks/accounting`: how many clicks were sent, counted and dropped.
async fn accounting(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    let accounts = app.store.click_accounts().await?;
    Ok(Json(json!({
        "sent": accounts.sent,
        "counted": accounts.counted,
        "dropped": accounts.dropped,
    })))
}
