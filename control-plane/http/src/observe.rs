//! Request ids, log spans, traces and metrics of requests.

use crate::app::App;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use edgelink_service::problem::CURRENT_REQUEST_ID;
use edgelink_settings::telemetry::prometheus::{HTTP_REQUESTS, HTTP_SECONDS, recorder};
use edgelink_settings::telemetry::traces::{self, Span};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use metrics::{counter, histogram};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::Instrument;
use tracing::field::{Empty, display};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID_LENGTH: usize = 64;
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Measures a request, and traces it if it is sampled. An id from Envoy is kept, so that both logs have one id for the request.
pub async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = request_id(&request);
    let method = method_label(request.method());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let span = tracing::info_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        method,
        route,
        trace_id = Empty
    );
    let traced = trace(&app, &request, method);
    if let Some(traced) = &traced {
        span.record("trace_id", display(traced.trace_id()));
    }

    let answer = next.run(request).instrument(span.clone());
    let answer = CURRENT_REQUEST_ID.scope(id.clone(), answer);
    let below = traced.as_ref().map(Span::below);
    let mut response = traces::within(below, answer).await;

    let status = response.status().as_u16();
    if let Some(mut traced) = traced {
        note_status(&mut traced, status);
    }
    let elapsed = start.elapsed();
    tracing::debug!(parent: &span, status, elapsed_us = elapsed.as_micros(), "answered");
    counter!(HTTP_REQUESTS, "route" => route.clone(), "method" => method, "status" => status.to_string())
        .increment(1);
    histogram!(HTTP_SECONDS, "route" => route, "method" => method).record(elapsed);
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The span of a request; `None` if it is not sampled.
fn trace(app: &App, request: &Request, method: &'static str) -> Option<Span> {
    let trace = app.tracer.as_ref()?.sample(request.headers())?;
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map(MatchedPath::as_str);
    Some(trace.request(method, route, request.uri().path()))
}

fn note_status(traced: &mut Span, status: u16) {
    traced.note("http.response.status_code", i64::from(status));
    if status >= 500 {
        traced.fail(status.to_string());
    }
}

/// The id that came with the request if it is valid, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let is_id = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let given = request.headers().get(REQUEST_ID).filter(|id| {
        let id = id.as_bytes();
        (1..=MAX_REQUEST_ID_LENGTH).contains(&id.len()) && id.iter().all(is_id)
    });
    given.cloned().unwrap_or_else(new_request_id)
}

fn new_request_id() -> HeaderValue {
    let number = getrandom::u64().unwrap_or_default();
    HeaderValue::from_str(&format!("{number:016x}"))
        .unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

/// The label of a method. Clients can invent methods, and label values are kept forever.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::PUT => "PUT",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

/// `GET /metrics`.
pub async fn metrics() -> Response {
    let Some(recorder) = recorder() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, content_type)], recorder.render()).into_response()
}

/// Folds the samples of histograms, which otherwise only a scrape does.
pub async fn keep_metrics_small() {
    let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
    loop {
        interval.tick().await;
        if let Some(recorder) = recorder() {
            recorder.run_upkeep();
        }
    }
}
