//! Layers around all requests: bounds, panics, caching.

use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::problem::{Kind, Problem};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use std::any::Any;
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;

/// Answers 503 at once if `server.max_requests` are being worked on.
pub(crate) async fn limit_requests(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Ok(_permit) = app.request_permits.try_acquire() else {
        return Err(Problem::new(Kind::Overloaded));
    };
    Ok(next.run(request).await)
}

/// Sends the response to a change when the feed has carried it. Waiting holds no permit and no connection to the database, and
/// has a limit of its own.
pub(crate) async fn wait_until_published(
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
pub(crate) async fn limit_time(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    tokio::time::timeout(app.config.server.request_timeout_ms, next.run(request))
        .await
        .map_err(|_| Problem::new(Kind::RequestTimeout))
}

/// Turns the panic of a handler into a 500; the server continues.
pub(crate) fn catch_panics() -> CatchPanicLayer<PanicHandler> {
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
    tracing::error!(
        message,
        "a handler panicked: the request is answered with 500"
    );
    Problem::new(Kind::Internal).into_response()
}

/// Sets `Cache-Control: no-store` on answers of the APIs.
pub(crate) async fn forbid_caching(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
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
    async fn a_panic_is_a_problem_without_its_message() {
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
