//! `/rest/v3`: the REST API of Shlink 5.1, for its clients, and its versions 1 and 2, which differ in the types of problems.
//!
//! Handlers only translate: requests into requests of use cases, which check the caller and carry them out, and the
//! outcomes into Shlink's JSON. Requests for features that edgelink does not have are
//! refused.

mod domains;
mod failure;
mod fields;
mod list;
mod pages;
mod short_urls;
mod tags;
mod view;
mod visits;

pub use super::auth::SHLINK_VERSIONS as VERSIONS;
pub use failure::translate;

use super::api;
use crate::app::App;
use crate::health::Health;
use axum::extract::State;
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use edgelink_service::problem::nothing_here;
use failure::{Failure, Shown};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use std::sync::Arc;

/// The version of Shlink that is emulated. Clients offer features by it.
const VERSION: &str = "5.1.5";

const HEALTH_TYPE: HeaderValue = HeaderValue::from_static("application/health+json");

/// The routes that need an API key, paths that do not exist included.
pub fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let routes = Router::new()
        .route("/short-urls", get(list::list).post(short_urls::create))
        .route("/short-urls/shorten", get(short_urls::shorten))
        .route(
            "/short-urls/{code}",
            get(short_urls::get)
                .patch(short_urls::patch)
                .delete(short_urls::delete),
        )
        .route(
            "/short-urls/{code}/redirect-rules",
            get(short_urls::rules).post(short_urls::replace_rules),
        )
        .route(
            "/short-urls/{code}/visits",
            get(visits::of_short_url).delete(visits::delete),
        )
        .route(
            "/tags",
            get(tags::list).put(tags::rename).delete(tags::delete),
        )
        .route("/tags/stats", get(tags::stats))
        .route("/tags/{tag}/visits", get(visits::of_tag))
        .route("/domains", get(domains::list))
        .route("/domains/redirects", patch(domains::redirects))
        .route("/domains/{domain}/visits", get(visits::of_domain))
        .route("/visits", get(visits::overview))
        .route("/visits/non-orphan", get(visits::non_orphan))
        .route(
            "/visits/orphan",
            get(visits::orphan).delete(visits::delete_orphan),
        )
        .route("/mercure-info", get(mercure_info))
        .fallback(nothing_here);
    api::protected(routes, app).layer(map_request(short_urls::key_of_query))
}

/// `GET /health`, without a key: the readiness of this process.
pub async fn health(State(health): State<Health>) -> Response {
    let (status, word) = if health.is_ready().await {
        (StatusCode::OK, "pass")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "fail")
    };
    let body = json!({
        "status": word,
        "version": VERSION,
        "edgelink": env!("CARGO_PKG_VERSION"),
    });
    (status, [(header::CONTENT_TYPE, HEALTH_TYPE)], Json(body)).into_response()
}

/// `GET /mercure-info`: there is no Mercure hub, as in a Shlink instance without one.
async fn mercure_info() -> Failure {
    Failure::shown(Shown {
        status: StatusCode::NOT_IMPLEMENTED,
        name: "mercure-not-configured",
        title: "Mercure integration not configured",
    })
}
