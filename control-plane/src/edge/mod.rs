//! The edge API, `/edge/v1`: what edges ask for. It needs an edge token.

mod resolve;

use crate::app::App;
use crate::auth::require_edge_token;
use crate::problem::{Kind, Problem};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use std::sync::Arc;

/// Everything below needs an edge token, paths that do not exist included.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/links/{domain}/{code}", get(resolve::resolve))
        .fallback(nothing_here)
        .method_not_allowed_fallback(crate::server::method_not_allowed)
        .layer(from_fn_with_state(app.clone(), require_edge_token))
}

async fn nothing_here() -> Problem {
    Problem::new(Kind::NotFound)
}
