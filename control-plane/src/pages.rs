//! What visitors see instead of a redirect.

use crate::config::PagesConfig;
use crate::problem::RETRY_AFTER;
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

/// Browsers are to ask again at every visit, whatever the answer.
pub(crate) const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, max-age=0");

const NOT_FOUND: &str = include_str!("pages/not_found.html");
const GONE: &str = include_str!("pages/gone.html");
const UNAVAILABLE: &str = include_str!("pages/unavailable.html");

/// The pages, ready to be sent.
pub(crate) struct Pages {
    not_found: Bytes,
    gone: Bytes,
    unavailable: Bytes,
}

impl Pages {
    pub(crate) fn new(config: &PagesConfig) -> Self {
        let page = |own: &Option<String>, built_in: &'static str| match own {
            Some(html) => Bytes::from(html.clone()),
            None => Bytes::from_static(built_in.as_bytes()),
        };
        Self {
            not_found: page(&config.html.not_found, NOT_FOUND),
            gone: page(&config.html.gone, GONE),
            unavailable: page(&config.html.unavailable, UNAVAILABLE),
        }
    }

    /// 404: there is no such link, or not yet.
    pub(crate) fn not_found(&self) -> Response {
        respond(StatusCode::NOT_FOUND, &self.not_found)
    }

    /// 410: there was one.
    pub(crate) fn gone(&self) -> Response {
        respond(StatusCode::GONE, &self.gone)
    }

    /// 503: whether there is one is not known at the moment.
    pub(crate) fn unavailable(&self) -> Response {
        let mut response = respond(StatusCode::SERVICE_UNAVAILABLE, &self.unavailable);
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        response
    }
}

/// The same headers as at an edge: what is not there may be there soon, and a failure is nothing to keep at all.
fn respond(status: StatusCode, html: &Bytes) -> Response {
    let cache_control = match status {
        StatusCode::SERVICE_UNAVAILABLE => HeaderValue::from_static("no-store"),
        _ => CACHE_CONTROL,
    };
    (
        status,
        [(header::CACHE_CONTROL, cache_control)],
        Html(html.clone()),
    )
        .into_response()
}
