//! The static files of the console.

use crate::http::app::App;
use axum::Router;
use axum::routing::get;
use http::header;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const STYLES: &str = include_str!("../../console/assets/console.css");

/// The address of a file, which changes with it.
pub(super) fn url(name: &str) -> String {
    let hash = hex::encode(&Sha256::digest(STYLES)[..8]);
    format!("/console/assets/{name}?v={hash}")
}

/// The address of the script; `None` if this binary was built without it, and pages do without.
pub(super) fn script() -> Option<String> {
    None
}

/// The routes of the files.
pub(super) fn routes() -> Router<Arc<App>> {
    let styles = async || {
        let headers = [
            (header::CONTENT_TYPE, "text/css; charset=utf-8"),
            (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        ];
        (headers, STYLES)
    };
    Router::new().route("/console/assets/console.css", get(styles))
}
