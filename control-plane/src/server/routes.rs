//! Routing of paths to handlers and layers.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use edgelink_http::app::App;
use edgelink_http::bounded::ListenerAdmission;
use edgelink_http::layers::RouteBounds;
use edgelink_http::visit::SentPath;
use edgelink_http::{api, edge_api, health, openapi, redirect, shlink, unlock};
use edgelink_http::{layers, observe};
use edgelink_service::problem::{self, Kind, Problem, method_not_allowed};
use edgelink_settings::admission::Admission;
use edgelink_settings::config::ListenerKind;
use edgelink_settings::domains::model::Brand;
use edgelink_web::console;
use edgelink_web::public::{self, home, preview};
use edgelink_wire::Outcome;
use http::uri::PathAndQuery;
use http::{Method, Uri};
use std::sync::Arc;

/// Router of a listener that serves these kinds. Each has its own permits for requests. Polls have a separate bound, and bulk requests a
/// separate time limit. Probes and metrics have none, because they matter most when everything else is busy.
pub(crate) fn router(
    app: &Arc<App>,
    serves: &[ListenerKind],
    admission: &ListenerAdmission,
) -> Router {
    let ListenerAdmission { requests, .. } = admission;
    let mut routes = health_routes(serves);
    if serves.contains(&ListenerKind::Main) {
        routes = routes.merge(main_routes(app, requests));
    }
    if serves.contains(&ListenerKind::Edge) {
        routes = routes.merge(edge_routes(app, requests));
    }
    let routes = if serves.contains(&ListenerKind::Public) {
        let bounds = requests.clone();
        routes.merge(visitor_routes(app, requests)).fallback(
            move |State(app): State<Arc<App>>, request| nothing_here(app, bounds, request),
        )
    } else {
        routes.fallback(problem::nothing_here)
    };
    let routes = routes.layer(Extension(admission.clone()));
    observed(routes, app).with_state(app.clone())
}

fn main_routes(app: &Arc<App>, requests: &Admission) -> Router<Arc<App>> {
    let bounds = RouteBounds::new(app, requests);
    let large = bounds.clone().with_large();
    let api = Router::new().nest("/api/v1", api::routes(app));
    let bulk = Router::new().nest("/api/v1", api::bulk_routes(app));
    let shlink = shlink::VERSIONS.iter().fold(Router::new(), |routes, base| {
        let health = format!("{base}/health");
        routes
            .nest(base, shlink::routes(app))
            .route(&health, get(shlink::health))
    });
    let api = bounded(api, &large)
        .merge(bounded(bulk, &large.clone().untimed()))
        .merge(bounded(shlink, &large).layer(from_fn(shlink::translate)))
        .layer(map_response(layers::forbid_caching));
    let api = match layers::cors(&app.config.server.cors_origins) {
        Some(cors) => api.layer(cors),
        None => api,
    };
    let docs = Router::new()
        .route("/openapi.json", get(openapi::json))
        .route("/api/docs", get(openapi::page));
    let console = bounded(console::routes(app), &large.untimed());
    api.merge(bounded(docs, &bounds))
        .merge(console::finish(console))
}

fn edge_routes(app: &Arc<App>, requests: &Admission) -> Router<Arc<App>> {
    let nested = |routes: Router<Arc<App>>| {
        Router::new().nest(
            "/edge/v1",
            routes.layer(map_response(layers::forbid_caching)),
        )
    };
    let bounds = RouteBounds::new(app, requests);
    bounded(nested(edge_api::routes(app)), &bounds).merge(nested(edge_api::waiting_routes(app)))
}

fn visitor_routes(app: &Arc<App>, requests: &Admission) -> Router<Arc<App>> {
    // Behind a prefix the root belongs to others.
    let routes = Router::new()
        .route(app.config.links.prefix.as_str(), get(root))
        .route("/{code}", get(visit).fallback(other_method))
        .merge(public::routes(app));
    bounded(routes, &RouteBounds::new(app, requests))
}

fn bounded(routes: Router<Arc<App>>, bounds: &RouteBounds) -> Router<Arc<App>> {
    routes.layer(from_fn_with_state(bounds.clone(), layers::bound))
}

/// Router for connections beyond `max_connections`: probes and metrics.
pub(crate) fn health_router(
    app: &Arc<App>,
    serves: &[ListenerKind],
    admission: &ListenerAdmission,
) -> Router {
    let routes = health_routes(serves).fallback(overloaded);
    let routes = routes.layer(Extension(admission.clone()));
    observed(routes, app).with_state(app.clone())
}

/// Routes of probes, on every listener: load balancers probe the one to which they send requests.
fn health_routes(serves: &[ListenerKind]) -> Router<Arc<App>> {
    let routes = Router::new()
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready));
    if serves.contains(&ListenerKind::Metrics) {
        routes.route("/metrics", get(observe::metrics))
    } else {
        routes
    }
}

fn observed(router: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    router
        .method_not_allowed_fallback(method_not_allowed)
        .layer(layers::catch_panics())
        .layer(from_fn_with_state(app.clone(), observe::observe))
}

async fn overloaded() -> Problem {
    Problem::new(Kind::Overloaded).with_detail("too many connections are open")
}

/// Answers a path without a route: it may continue after the code of a link. Otherwise visitors get a page, and programs a problem.
async fn nothing_here(app: Arc<App>, requests: Admission, request: Request) -> Response {
    let nothing = || Problem::new(Kind::NotFound).into_response();
    if is_for_programs(request.uri()) {
        return nothing();
    }
    let is_visit = matches!(*request.method(), Method::GET | Method::HEAD);
    let Some(mut request) = among_links(&app, request) else {
        return if is_visit {
            redirect::page(&app, Outcome::NotFound, Brand::default())
        } else {
            nothing()
        };
    };
    let may_be_link = redirect::may_be_link(request.uri());
    let is_followed = may_be_link || preview::requested_code(request.uri()).is_some();
    match is_visit {
        true if !is_followed => return redirect::no_code(&app, &request),
        false if !may_be_link => return nothing(),
        _ => {}
    }
    let _admitted = match layers::admit(&app, &requests, &mut request) {
        Ok(admitted) => admitted,
        Err(refusal) => return Problem::from(refusal).into_response(),
    };
    if is_visit {
        Box::pin(within_time(&app, follow(&app, request))).await
    } else {
        Box::pin(within_time(&app, send(&app, request))).await
    }
}

/// Strips the prefix of links from the path of a request; `None` if the path is not below it.
fn among_links(app: &App, mut request: Request) -> Option<Request> {
    let Some(paths) = &app.link_paths else {
        return Some(request);
    };
    let sent = request.uri().clone();
    let mut parts = sent.clone().into_parts();
    let path = parts
        .path_and_query
        .as_ref()
        .map_or("/", |path| path.as_str());
    let plain = paths.plain(path.as_bytes())?;
    parts.path_and_query = Some(PathAndQuery::try_from(plain.as_ref()).ok()?);
    *request.uri_mut() = Uri::from_parts(parts).ok()?;
    request.extensions_mut().insert(SentPath(sent));
    Some(request)
}

/// Answers a visitor of `/`, or of the prefix of links.
async fn root(State(app): State<Arc<App>>, request: Request) -> Response {
    let home = home::page(&app, request.headers());
    match among_links(&app, request) {
        Some(request) => redirect::root(&app, &request, home),
        None => redirect::page(&app, Outcome::NotFound, Brand::default()),
    }
}

/// Answers a visitor of a link, or of its preview.
async fn visit(State(app): State<Arc<App>>, request: Request) -> Response {
    match among_links(&app, request) {
        Some(request) => follow(&app, request).await,
        None => redirect::page(&app, Outcome::NotFound, Brand::default()),
    }
}

async fn follow(app: &Arc<App>, request: Request) -> Response {
    match preview::requested_code(request.uri()) {
        Some(code) if app.config.pages.previews => {
            let parts = (request.headers(), request.extensions());
            preview::answer(app, code, parts).await
        }
        _ => redirect::follow(app, request).await,
    }
}

/// Answers a request to a link with another method.
async fn other_method(State(app): State<Arc<App>>, request: Request) -> Response {
    match among_links(&app, request) {
        Some(request) => send(&app, request).await,
        None => Problem::new(Kind::NotFound).into_response(),
    }
}

/// Answers a form with the password of a link. Other requests are redirected, if the link keeps the method.
async fn send(app: &Arc<App>, request: Request) -> Response {
    if preview::requested_code(request.uri()).is_some() {
        return redirect::page(app, Outcome::NotAllowed, Brand::default());
    }
    if !redirect::may_be_link(request.uri()) {
        return Problem::new(Kind::NotFound).into_response();
    }
    if *request.method() != Method::POST {
        return redirect::follow(app, request).await;
    }
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head.clone(), Body::empty());
    match unlock::answer(app, Request::from_parts(head, body)).await {
        Some(answer) => answer,
        None => redirect::follow(app, request).await,
    }
}

/// Applies the time limit of requests to an answer.
async fn within_time(app: &App, answer: impl Future<Output = Response>) -> Response {
    let limit = app.config.server.request_timeout_ms;
    let answered = tokio::time::timeout(limit, answer).await;
    answered.unwrap_or_else(|_| Problem::new(Kind::RequestTimeout).into_response())
}

/// True if a path belongs to an API. Other paths below `/rest/` may continue the alias `rest`, or belong to the prefix of links.
fn is_for_programs(uri: &Uri) -> bool {
    let path = uri.path();
    let is_below = |base: &&str| {
        path.strip_prefix(*base)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    ["/api", "/edge"]
        .iter()
        .chain(&shlink::VERSIONS)
        .any(is_below)
}
