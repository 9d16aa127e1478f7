//! Layers around all requests: bounds, panics, caching.

use super::admitted::Admitted;
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
use http::{HeaderName, HeaderValue, Method, header};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// Time for which browsers may cache the CORS permissions of an origin.
const CORS_MAX_AGE: Duration = Duration::from_hours(1);

/// Answers 503 at once if there is no permit for the client. A request releases it while it waits for its body.
pub async fn limit_requests(
    State((app, requests)): State<(Arc<App>, Admission)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let _admitted = admit(&app, &requests, &mut request)?;
    Ok(next.run(request).await)
}

/// Gives a request its permit, which it keeps as long as the returned value lives.
pub fn admit(app: &App, requests: &Admission, request: &mut Request) -> Result<Admitted, Refusal> {
    let admitted = Admitted::default();
    admitted.take(requests, Claim::of_address(limits::address(app, request)))?;
    request.extensions_mut().insert(admitted.clone());
    Ok(admitted)
}

/// Sends the response to a change when the feed has carried it. Waiting holds no permit and no connection to the database, and
/// has a limit of its own.
pub async fn wait_until_published(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    if let Some(awaited) = response.extensions_mut().remove::<AwaitedChanges>() {
        app.feed
            .wait_until_published(awaited, &app.config.feed)
            .await;
    }
    response
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
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static("x-api-key"),
            HeaderName::from_static("x-request-id"),
        ])
        .expose_headers([
            header::ETAG,
            header::LOCATION,
            header::RETRY_AFTER,
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
