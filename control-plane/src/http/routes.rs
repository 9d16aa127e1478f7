//! Which handler serves a path, and through which layers.

use super::{api, edge_api, health, openapi, redirect, shlink, unlock};
use super::{layers, observe};
use crate::config::ListenerKind;
use crate::console;
use crate::http::app::App;
use crate::problem::{self, Kind, Problem, method_not_allowed};
use crate::public::{self, home, preview};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, Method, Uri, header};
use std::sync::Arc;

/// The router of a listener that serves these. Polls have a bound of their own, and so has the time of bulk requests. Probes and
/// metrics have none, because they matter most when all else is busy.
pub(crate) fn router(app: &Arc<App>, serves: &[ListenerKind]) -> Router {
    let mut routes = health_routes(serves);
    if serves.contains(&ListenerKind::Main) {
        routes = routes.merge(main_routes(app));
    }
    if serves.contains(&ListenerKind::Edge) {
        routes = routes.merge(edge_routes(app));
    }
    let routes = match serves.contains(&ListenerKind::Public) {
        true => routes.merge(visitor_routes(app)).fallback(nothing_here),
        false => routes.fallback(problem::nothing_here),
    };
    observed(routes).with_state(app.clone())
}

fn main_routes(app: &Arc<App>) -> Router<Arc<App>> {
    let api = Router::new()
        .nest("/api/v1", api::routes(app))
        .layer(from_fn_with_state(app.clone(), layers::limit_time))
        .merge(Router::new().nest("/api/v1", api::bulk_routes(app)));
    let shlink = Router::new()
        .nest("/rest/v3", shlink::routes(app))
        .route("/rest/v3/health", get(shlink::health))
        .layer(from_fn_with_state(app.clone(), layers::limit_time));
    let shlink = bounded(shlink, app).layer(from_fn(shlink::translate));
    let api = bounded(api, app)
        .merge(shlink)
        .layer(map_response(layers::forbid_caching));
    let api = match layers::cors(&app.config.server.cors_origins) {
        Some(cors) => api.layer(cors),
        None => api,
    };
    let docs = Router::new()
        .route("/openapi.json", get(openapi::json))
        .route("/api/docs", get(openapi::page))
        .layer(from_fn_with_state(app.clone(), layers::limit_time));
    let console = bounded(console::routes(app), app);
    api.merge(bounded(docs, app))
        .merge(console::finish(console))
}

fn edge_routes(app: &Arc<App>) -> Router<Arc<App>> {
    let nested = |routes: Router<Arc<App>>| {
        Router::new().nest(
            "/edge/v1",
            routes.layer(map_response(layers::forbid_caching)),
        )
    };
    let routes = nested(edge_api::routes(app));
    let routes = routes.layer(from_fn_with_state(app.clone(), layers::limit_time));
    bounded(routes, app).merge(nested(edge_api::waiting_routes(app)))
}

fn visitor_routes(app: &Arc<App>) -> Router<Arc<App>> {
    let routes = Router::new()
        .route("/", get(root))
        .route("/{code}", get(visit).post(form))
        .merge(public::routes(app))
        .layer(from_fn_with_state(app.clone(), layers::limit_time));
    bounded(routes, app)
}

fn bounded(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes
        .layer(from_fn_with_state(app.clone(), layers::limit_requests))
        .layer(from_fn_with_state(
            app.clone(),
            layers::wait_until_published,
        ))
}

/// The router of further connections to a listener that serves these when all are taken: probes and metrics.
pub(crate) fn health_router(app: &Arc<App>, serves: &[ListenerKind]) -> Router {
    observed(health_routes(serves).fallback(overloaded)).with_state(app.clone())
}

/// Probes are answered by every listener: balancers ask the one that they send requests to.
fn health_routes(serves: &[ListenerKind]) -> Router<Arc<App>> {
    let routes = Router::new()
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready));
    match serves.contains(&ListenerKind::Metrics) {
        true => routes.route("/metrics", get(observe::metrics)),
        false => routes,
    }
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
    let nothing = || Problem::new(Kind::NotFound).into_response();
    if is_for_programs(request.uri()) {
        return nothing();
    }
    let may_be_link = redirect::may_be_link(request.uri());
    match *request.method() {
        Method::GET | Method::HEAD if may_be_link => {
            let follow = redirect::follow(State(Arc::clone(&app)), request);
            within_bounds(&app, follow).await
        }
        Method::GET | Method::HEAD => redirect::no_code(&app, &request),
        Method::POST if may_be_link => {
            let answered = unlock::answer(&app, request);
            let answer = async { answered.await.unwrap_or_else(nothing) };
            Box::pin(within_bounds(&app, answer)).await
        }
        _ => nothing(),
    }
}

/// Answers a visitor of `/`.
async fn root(State(app): State<Arc<App>>, request: Request) -> Response {
    redirect::root(&app, &request, home::page(&app, request.headers()))
}

/// Answers a visitor of a link, or of its preview.
async fn visit(State(app): State<Arc<App>>, request: Request) -> Response {
    match preview::requested_code(request.uri()) {
        Some(code) if app.config.pages.previews => {
            preview::answer(&app, code, request.headers()).await
        }
        _ => redirect::follow(State(app), request).await,
    }
}

/// Answers a form with the password of a link. All else that is sent to a link is 405.
async fn form(State(app): State<Arc<App>>, request: Request) -> Response {
    let answered = unlock::answer(&app, request).await;
    answered.unwrap_or_else(|| {
        let allow = [(header::ALLOW, HeaderValue::from_static("GET,HEAD"))];
        (allow, Problem::new(Kind::MethodNotAllowed)).into_response()
    })
}

/// An answer within the bounds of all requests.
async fn within_bounds(app: &App, answer: impl Future<Output = Response>) -> Response {
    let Ok(_permit) = app.request_permits.try_acquire() else {
        return Problem::new(Kind::Overloaded).into_response();
    };
    let limit = app.config.server.request_timeout_ms;
    let answered = tokio::time::timeout(limit, answer).await;
    answered.unwrap_or_else(|_| Problem::new(Kind::RequestTimeout).into_response())
}

fn is_for_programs(uri: &Uri) -> bool {
    let prefixes = ["/api/", "/edge/", "/rest/"];
    prefixes.iter().any(|prefix| uri.path().starts_with(prefix))
}
