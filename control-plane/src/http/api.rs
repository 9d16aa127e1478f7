//! The admin API, `/api/v1`. Handlers only translate: requests into types whose values are known to be right, and what
//! comes of them into JSON.

mod accounting;
mod body;
mod bulk;
mod create;
mod cursor;
mod fields;
mod idempotency;
mod if_match;
mod items;
mod key;
mod list;
mod one;
mod patch;
mod query;
mod values;
mod view;

use crate::http::app::App;
use crate::http::auth::require_api_key;
use crate::problem::{method_not_allowed, nothing_here};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use std::sync::Arc;

/// Everything below needs an API key, paths that do not exist included.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/links", post(create::create).get(list::list))
        .route(
            "/links/{code}",
            get(one::get).patch(patch::patch).delete(one::delete),
        )
        .route("/clicks/accounting", get(accounting::accounting))
        .fallback(nothing_here)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(app.keys.clone(), require_api_key))
}

/// Bulk requests, whose time has a bound of their own.
pub(crate) fn bulk_routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/links/bulk", post(bulk::create_many))
        .layer(from_fn_with_state(app.keys.clone(), require_api_key))
}
