//! The HTML pages that visitors see instead of a redirect.

use crate::ui::frame::{Message, PasswordPage};
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use edgelink_service::problem::RETRY_AFTER;
use edgelink_settings::config::{FileText, PagesConfig};
use edgelink_settings::domains::model::Brand;
use edgelink_wire::Outcome;
use edgelink_wire::password::Notice;
use edgelink_wire::redirect::NO_STORE;
use http::{HeaderValue, StatusCode, header};

/// The pages of the configuration, ready to be sent. Others are built in.
pub struct StatusPages {
    not_found: Option<Bytes>,
    gone: Option<Bytes>,
    unavailable: Option<Bytes>,
}

impl StatusPages {
    pub(crate) fn new(config: &PagesConfig) -> Self {
        let page = |own: &Option<FileText>| {
            let html = own.as_ref().map(|html| html.text().to_owned());
            html.map(Bytes::from)
        };
        Self {
            not_found: page(&config.not_found),
            gone: page(&config.gone),
            unavailable: page(&config.unavailable),
        }
    }

    /// 404: there is no such link, or not yet.
    pub(crate) fn not_found(&self, brand: Brand<'_>) -> Response {
        let own = self.not_found.as_ref();
        respond(StatusCode::NOT_FOUND, Outcome::NotFound, own, brand)
    }

    /// 410: the link has expired or is disabled.
    pub(crate) fn gone(&self, brand: Brand<'_>) -> Response {
        respond(StatusCode::GONE, Outcome::Gone, self.gone.as_ref(), brand)
    }

    /// 503: the link cannot be looked up at the moment.
    pub fn unavailable(&self, brand: Brand<'_>) -> Response {
        let (status, own) = (StatusCode::SERVICE_UNAVAILABLE, self.unavailable.as_ref());
        let mut response = respond(status, Outcome::Unavailable, own, brand);
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        response
    }
}

fn respond(
    status: StatusCode,
    outcome: Outcome,
    own: Option<&Bytes>,
    brand: Brand<'_>,
) -> Response {
    let Some(own) = own else {
        return Message::of(outcome, brand).send(status, outcome.cache_control());
    };
    let cache_control = HeaderValue::from_static(outcome.cache_control());
    (
        status,
        [(header::CACHE_CONTROL, cache_control)],
        Html(own.clone()),
    )
        .into_response()
}

/// The page with the form for the password of a link.
pub(crate) fn password_page(notice: Notice, brand: Brand<'_>) -> Response {
    let status = StatusCode::from_u16(notice.status()).unwrap_or(StatusCode::FORBIDDEN);
    PasswordPage::new(notice, brand).send(status, NO_STORE)
}
