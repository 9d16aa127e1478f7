//! The console: pages for people, and the files that they load.

mod assets;

use crate::http::app::App;
use axum::Router;
use std::sync::Arc;

/// The routes of the console.
pub(crate) fn routes() -> Router<Arc<App>> {
    assets::routes()
}
