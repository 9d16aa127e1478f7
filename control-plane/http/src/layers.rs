//! Layers around all requests: bounds, panics, caching.

use super::admitted::Admitted;
use super::answers;
use super::limits;
use crate::app::App;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use edgelink_feed::AwaitedChanges;
use edgelink_model::deadline;
use edgelink_service::problem::{Kind, Problem};
use edgelink_settings::admission::{Admission, Claim, Refusal};
use edgelink_settings::config::Origin;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// Time for which browsers may cache the CORS permissions of an origin.
const CORS_MAX_AGE: Duration = Duration::from_hours(1);

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";

/// Bounds of requests to a group of routes.
#[derive(Clone)]
pub struct RouteBounds {
    app: Arc<App>,
    requests: Admission,
    /// The most time of a request, after which it is answered with 503; `None` for routes with a limit of their own.
    time: Option<Duration>,
    /// True if responses may be large, and take memory until they are sent.
    has_large: bool,
}

impl RouteBounds {
    /// A permit of `requests` for each request, and `server.request_timeout_ms`.
    #[must_use]
    pub fn new(app: &Arc<App>, requests: &Admission) -> Self {
        Self {
            app: Arc::clone(app),
            requests: requests.clone(),
            time: Some(app.config.server.request_timeout_ms),
            has_large: false,
        }
    }

    /// Without the time limit.
    #[must_use]
    pub fn untimed(self) -> Self {
        Self { time: None, ..self }
    }

    /// With room for large responses.
    #[must_use]
    pub fn with_large(self) -> Self {
        Self {
            has_large: true,
            ..self
        }
    }
}

/// Runs a request within its bounds. Without a permit for the client it answers 503 at once; a request releases the permit while it
/// waits for its body. The response to a change is sent when edges have applied it, unless the client prefers not to wait: that wait
/// holds no permit and no connection to the database, and has a limit of its own.
///
/// One layer, because each further one clones all below it for each request.
pub async fn bound(
    State(bounds): State<RouteBounds>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let app = &*bounds.app;
    let admitted = admit(app, &bounds.requests, &mut request)?;
    let is_read = request.method().is_safe();
    let is_async = prefers_async(request.headers());
    let mut response = match bounds.time {
        Some(time) => tokio::time::timeout(time, next.run(request))
            .await
            .map_err(|_| Problem::new(Kind::RequestTimeout))?,
        None => next.run(request).await,
    };
    if bounds.has_large {
        response = answers::admit(app, &admitted, is_read, response)?;
    }
    drop(admitted);
    let awaited = response.extensions_mut().remove::<AwaitedChanges>();
    match awaited.filter(AwaitedChanges::is_any) {
        Some(_) if is_async => {
            let applied = HeaderValue::from_static(RESPOND_ASYNC);
            response.headers_mut().insert(PREFERENCE_APPLIED, applied);
        }
        Some(awaited) => {
            let settings = &app.config.feed;
            app.feed.wait_until_visible(awaited, settings).await;
        }
        None => {}
    }
    Ok(response)
}

/// True if the client does not wait for edges: it sends `Prefer: respond-async` (RFC 7240, section 4.1).
fn prefers_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all(PREFER).into_iter();
    let preferences = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut names = preferences.map(|preference| {
        let (name, _) = preference.split_once(';').unwrap_or((preference, ""));
        name.trim()
    });
    names.any(|name| name.eq_ignore_ascii_case(RESPOND_ASYNC))
}

/// Gives a request its permit, which it keeps as long as the returned value lives.
pub fn admit(app: &App, requests: &Admission, request: &mut Request) -> Result<Admitted, Refusal> {
    let admitted = Admitted::default();
    admitted.take(requests, Claim::of_address(limits::address(app, request)))?;
    request.extensions_mut().insert(admitted.clone());
    Ok(admitted)
}

/// Answers 503 if a request takes longer than `server.request_timeout_ms`.
pub async fn limit_time(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    tokio::time::timeout(app.config.server.request_timeout_ms, next.run(request))
        .await
        .map_err(|_| Problem::new(Kind::RequestTimeout))
}

/// Ends database calls for a request of an edge while the edge still waits, if its Envoy sends its timeout.
pub(crate) async fn heed_edge_timeout(request: Request, next: Next) -> Response {
    let until = deadline::of_request(request.headers());
    deadline::within(until, next.run(request)).await
}

/// Turns the panic of a handler into a 500; the server continues.
pub fn catch_panics() -> CatchPanicLayer<PanicHandler> {
    let handler: PanicHandler = |panic| panicked(panic.as_ref());
    CatchPanicLayer::custom(handler)
}

type PanicHandler = fn(Box<dyn Any + Send>) -> Response;

/// Logs the panic, whose message the client does not see.
fn panicked(panic: &(dyn Any + Send)) -> Response {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(message, "handler panicked; answering 500");
    Problem::new(Kind::Internal).into_response()
}

/// Forbids caches to keep answers of the APIs, and browsers to take them for pages.
pub async fn forbid_caching(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Lets pages of other origins use the API from a browser; `None` if there are none.
pub fn cors(origins: &[Origin]) -> Option<CorsLayer> {
    let names = origins.iter().map(Origin::as_str);
    let allowed = if names.clone().any(|name| name == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(names.filter_map(|name| HeaderValue::from_str(name).ok()))
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_MATCH,
            header::IF_NONE_MATCH,
            PREFER,
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static("x-api-key"),
            HeaderName::from_static("x-request-id"),
        ])
        .expose_headers([
            header::ETAG,
            header::LOCATION,
            header::RETRY_AFTER,
            PREFERENCE_APPLIED,
            HeaderName::from_static("idempotency-replayed"),
            HeaderName::from_static("ratelimit"),
            HeaderName::from_static("ratelimit-policy"),
            HeaderName::from_static("x-request-id"),
        ])
        .max_age(CORS_MAX_AGE);
    (!origins.is_empty()).then_some(layer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    #[test]
    fn preference_when_among_others_is_found() {
        let is_async = |values: &[&'static str]| {
            let values = values.iter().map(|value| HeaderValue::from_static(value));
            prefers_async(&values.map(|value| (PREFER, value)).collect())
        };
        for values in [
            &["respond-async"][..],
            &["Respond-Async; a=b"],
            &["return=minimal, respond-async , wait=10"],
            &["return=minimal", "respond-async"],
        ] {
            assert!(is_async(values), "{values:?}");
        }
        for values in [
            &[][..],
            &["wait=10"],
            &["a=respond-async"],
            &["respond-asynchronously"],
        ] {
            assert!(!is_async(values), "{values:?}");
        }
    }

    async fn fail() -> &'static str {
        panic!("a secret detail")
    }

    #[tokio::test]
    async fn panic_when_caught_is_a_problem_without_its_message() {
        let router = Router::new().route("/", get(fail)).layer(catch_panics());
        let request = Request::builder().body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.into()).unwrap();
        assert!(
            body.contains("urn:edgelink:problem:internal") && !body.contains("secret"),
            "{body}"
        );
    }
}
