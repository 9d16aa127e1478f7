//! The HTML pages that visitors see instead of a redirect.

use crate::config::{FileText, PagesConfig};
use crate::problem::RETRY_AFTER;
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use edgelink_wire::Outcome;
use edgelink_wire::password::{Notice, PAGE_HEADERS};
use edgelink_wire::redirect::NO_STORE;
use http::{HeaderName, HeaderValue, StatusCode, header};

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
        let page = |own: &Option<FileText>, built_in: &'static str| match own {
            Some(html) => Bytes::from(html.text().to_owned()),
            None => Bytes::from_static(built_in.as_bytes()),
        };
        Self {
            not_found: page(&config.not_found, NOT_FOUND),
            gone: page(&config.gone, GONE),
            unavailable: page(&config.unavailable, UNAVAILABLE),
        }
    }

    /// 404: there is no such link, or not yet.
    pub(crate) fn not_found(&self) -> Response {
        respond(StatusCode::NOT_FOUND, Outcome::NotFound, &self.not_found)
    }

    /// 410: the link has expired or is disabled.
    pub(crate) fn gone(&self) -> Response {
        respond(StatusCode::GONE, Outcome::Gone, &self.gone)
    }

    /// 503: the link cannot be looked up at the moment.
    pub(crate) fn unavailable(&self) -> Response {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let mut response = respond(status, Outcome::Unavailable, &self.unavailable);
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        response
    }
}

fn respond(status: StatusCode, outcome: Outcome, html: &Bytes) -> Response {
    let cache_control = HeaderValue::from_static(outcome.cache_control());
    (
        status,
        [(header::CACHE_CONTROL, cache_control)],
        Html(html.clone()),
    )
        .into_response()
}

/// The page with the form for the password of a link.
pub(crate) fn password_page(notice: Notice) -> Response {
    let status = StatusCode::from_u16(notice.status()).unwrap_or(StatusCode::FORBIDDEN);
    let mut response = (status, Html(notice.page())).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(NO_STORE));
    for (name, value) in PAGE_HEADERS {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
