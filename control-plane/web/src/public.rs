//! Pages for visitors: previews of links (`/{code}+`), the home page, and everything below `/+/`, which cannot be a code.
//!
//! Visitors of an edge get them too: its routes lead here. All have the branding of their domain, and work without script.

pub mod home;
pub mod preview;
mod report;
mod robots;

use crate::console::api::Console;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use edgelink_http::admitted::Admitted;
use edgelink_http::app::App;
use edgelink_http::ui::{assets, frame};
use edgelink_settings::domains::model::Brand;
use std::sync::Arc;

/// The routes of all pages but previews and the home page.
pub fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let creating = Router::new()
        .route("/+/new", post(home::create))
        .with_state(Console::new(app));
    Router::new()
        .merge(creating)
        .route("/+/made/{code}", get(home::made))
        .route("/+/qr/{code}", get(home::qr))
        .route("/+/report", get(report::page).post(report::take))
        .route_layer(from_fn_with_state(app.clone(), limit))
        .route("/robots.txt", get(robots::file))
        .route("/+/color/{name}", get(frame::color))
        .merge(assets::public_routes())
}

/// Limits concurrent requests, so that pages leave room for requests of edges.
async fn limit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let admitted = Admitted::of(request.extensions());
    match admitted.take(&app.bounded.pages, admitted.claim()) {
        Ok(()) => next.run(request).await,
        Err(_) => app.pages.unavailable(Brand::default()),
    }
}
