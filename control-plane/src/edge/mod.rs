//! The edge API, `/edge/v1`: what edges ask for, and where they report clicks. It needs an edge token, which so opens more than
//! reading: it adds to the counts by which links are hot.

mod clicks;
mod feed;
mod resolve;
mod snapshot;

use crate::app::App;
use crate::auth::require_edge_token;
use crate::problem::{method_not_allowed, nothing_here};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use http::{HeaderMap, header};
use std::sync::Arc;

/// Everything below needs an edge token, paths that do not exist included.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/links/{domain}/{code}", get(resolve::resolve))
        .route("/snapshot", get(snapshot::snapshot))
        .route(
            "/clicks",
            post(clicks::report).layer(DefaultBodyLimit::max(clicks::MAX_BODY)),
        )
        .fallback(nothing_here)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(
            app.edge_tokens.clone(),
            require_edge_token,
        ))
}

/// What edges wait for. It is not worked on meanwhile, so it is outside of the bounds on requests.
pub(crate) fn waiting_routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/feed", get(feed::poll))
        .layer(from_fn_with_state(
            app.edge_tokens.clone(),
            require_edge_token,
        ))
}

/// Whether people ask, and not an edge.
fn wants_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("application/json"))
}
