//! What every request goes through, and the bounds on all of them.

use crate::app::App;
use crate::problem::{Kind, Problem};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use std::any::Any;
use std::sync::Arc;

/// Answers 503 at once where as many requests as configured are being worked on.
pub(super) async fn limit_requests(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Ok(_permit) = app.request_permits.try_acquire() else {
        return Err(Problem::new(Kind::Overloaded));
    };
    Ok(next.run(request).await)
}

/// Gives a request up that takes longer than configured.
pub(super) async fn limit_time(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    tokio::time::timeout(app.config.server.request_timeout(), next.run(request))
        .await
        .map_err(|_| Problem::new(Kind::RequestTimeout))
}

/// Answers for a handler that panicked. The message is ours alone.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> Response {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(message, "a handler panicked");
    Problem::new(Kind::Internal).into_response()
}

/// What the API answers is for this client and this moment.
pub(super) async fn forbid_caching(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}
