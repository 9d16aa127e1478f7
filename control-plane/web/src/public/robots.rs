//! `/robots.txt` of all domains.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use edgelink_http::app::App;
use http::{HeaderValue, header};
use std::sync::Arc;

/// The default file. Robots have to visit a link to see whether it may be listed; pages for people are of no use to them.
const BUILT_IN: &str = "User-agent: *\nDisallow: /+/\nDisallow: /*+$\nAllow: /\n";

/// `GET /robots.txt`.
pub(super) async fn file(State(app): State<Arc<App>>) -> Response {
    let own = app.config.pages.robots.as_ref();
    let text = own.map_or(BUILT_IN, |file| file.text()).to_owned();
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        ),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=3600"),
        ),
    ];
    (headers, text).into_response()
}
