//! Which handler serves a path, and through which layers.

use super::{api, edge_api, health, openapi, redirect, shlink};
use super::{layers, observe};
use crate::http::app::App;
use crate::problem::{Kind, Problem, method_not_allowed};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{Method, Uri};
use std::sync::Arc;

/// The router of all paths. Polls have a bound of their own, and so has the time of bulk requests. Probes and metrics have none,
/// because they matter most when all else is busy.
pub(crate) fn router(app: Arc<App>) -> Router {
    let api = Router::new()
        .nest("/api/v1", api::routes(&app))
        .layer(from_fn_with_state(app.clone(), layers::limit_time))
        .merge(Router::new().nest("/api/v1", api::bulk_routes(&app)));
    let shlink = Router::new()
        .nest("/rest/v3", shlink::routes(&app))
        .route("/rest/v3/health", get(shlink::health))
        .layer(from_fn_with_state(app.clone(), layers::limit_time));
    let shlink = bounded(shlink, &app).layer(from_fn(shlink::translate));
    let api = bounded(api, &app)
        .merge(shlink)
        .layer(map_response(layers::forbid_caching));
    let api = match layers::cors(&app.config.server.cors_origins) {
        Some(cors) => api.layer(cors),
        None => api,
    };
    let others = Router::new()
        .nest(
            "/edge/v1",
            edge_api::routes(&app).layer(map_response(layers::forbid_caching)),
        )
        .route("/openapi.json", get(openapi::json))
        .route("/api/docs", get(openapi::page))
        .route("/", get(redirect::root))
        .route("/{code}", get(redirect::follow))
        .layer(from_fn_with_state(app.clone(), layers::limit_time));
    let others = bounded(others, &app);
    let waiting = Router::new().nest(
        "/edge/v1",
        edge_api::waiting_routes(&app).layer(map_response(layers::forbid_caching)),
    );
    let all = api.merge(others).merge(waiting).merge(health_routes());
    observed(all.fallback(nothing_here)).with_state(app)
}

fn bounded(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes
        .layer(from_fn_with_state(app.clone(), layers::limit_requests))
        .layer(from_fn_with_state(
            app.clone(),
            layers::wait_until_published,
        ))
}

/// The router of further connections when all are taken: probes and metrics.
pub(crate) fn health_router(app: Arc<App>) -> Router {
    observed(health_routes().fallback(overloaded)).with_state(app)
}

fn health_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(observe::metrics))
}

fn observed(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .method_not_allowed_fallback(method_not_allowed)
        .layer(layers::catch_panics())
        .layer(from_fn(observe::observe))
}

async fn overloaded() -> Problem {
    Problem::new(Kind::Overloaded).with_detail("too many connections are open")
}

/// Answers a path that nothing is served at: it may go on behind the code of a link. Otherwise visitors get a page, programs a
/// problem.
async fn nothing_here(State(app): State<Arc<App>>, request: Request) -> Response {
    if is_for_visitors(request.method(), request.uri()) {
        return follow_within_bounds(app, request).await;
    }
    Problem::new(Kind::NotFound).into_response()
}

/// Follows a path below a code, within the bounds of all requests.
async fn follow_within_bounds(app: Arc<App>, request: Request) -> Response {
    if !redirect::may_be_link(request.uri()) {
        return app.pages.not_found();
    }
    let Ok(_permit) = app.request_permits.try_acquire() else {
        return Problem::new(Kind::Overloaded).into_response();
    };
    let limit = app.config.server.request_timeout_ms;
    let answered = redirect::follow(State(Arc::clone(&app)), request);
    tokio::time::timeout(limit, answered)
        .await
        .unwrap_or_else(|_| Problem::new(Kind::RequestTimeout).into_response())
}

fn is_for_visitors(method: &Method, uri: &Uri) -> bool {
    let is_api = ["/api/", "/edge/", "/rest/"]
        .iter()
        .any(|prefix| uri.path().starts_with(prefix));
    !is_api && matches!(*method, Method::GET | Method::HEAD)
}
