//! The console: pages for people, rendered on the server, which work without script.
//!
//! A page calls use cases as the caller who has logged in: the rights of a role, the validity of a field, and the entries of the
//! audit log are decided there alone. `guard` stands in front of all pages: it knows who has logged in, and lets
//! forms through that are our own.

pub(crate) mod api;
mod audit;
mod bulk;
mod clicks;
mod confirm;
mod cookies;
mod create;
mod disk;
mod domains;
mod edit;
pub(crate) mod errors;
pub(crate) mod fields;
pub(crate) mod form;
pub(crate) mod guard;
mod here;
mod imports;
mod jobs;
mod keys;
mod layout;
mod link;
mod links;
mod login;
mod moving;
mod oidc;
mod overview;
mod reports;
mod revision;
mod rules;
mod settings;
mod shown_clicks;
mod shown_link;
mod signed_in;
pub mod strings;
mod tags;
mod upload;
mod users;

use api::Console;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use edgelink_http::app::App;
use edgelink_http::layers;
use edgelink_http::ui::assets;
use edgelink_service::oidc::{BEGIN, CALLBACK};
use std::sync::Arc;

/// The routes of the console, with only the time limit of the bounds on all requests: changes of many links have a limit of their
/// own.
pub fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let console = Console::new(app);
    let guarded = |routes: Router<Console>| {
        routes
            .layer(from_fn_with_state(console.clone(), guard::guard))
            .with_state(console.clone())
    };
    let pages = Router::new()
        .merge(link_routes())
        .merge(account_routes())
        .route("/console/", get(errors::nothing_here))
        .route("/console/{*rest}", get(errors::nothing_here))
        .method_not_allowed_fallback(errors::method_not_allowed);
    guarded(pages)
        .merge(assets::routes())
        .layer(from_fn_with_state(app.clone(), layers::limit_time))
        .merge(guarded(bulk_routes()))
}

/// Changes of many links, and files of them.
fn bulk_routes() -> Router<Console> {
    Router::new()
        .route("/console/links", post(bulk::change))
        .route("/console/create-many", post(create::many))
        .route("/console/restore", post(bulk::restore))
        .route("/console/imports", post(imports::upload))
}

/// Pages about links.
fn link_routes() -> Router<Console> {
    Router::new()
        .route("/console", get(overview::page))
        .route("/console/login", get(login::page).post(login::log_in))
        .route("/console/logout", post(login::log_out))
        .route(BEGIN, get(oidc::begin))
        .route(CALLBACK, get(oidc::callback))
        .route("/console/links", get(links::page))
        .route("/console/create", get(create::page).post(create::one))
        .route("/console/create-many", get(create::many_page))
        .route("/console/links/{code}", get(link::page))
        .route(
            "/console/links/{code}/edit",
            get(edit::page).post(edit::change),
        )
        .route(
            "/console/links/{code}/rules",
            get(rules::page).post(rules::change),
        )
        .route("/console/links/{code}/dry-run", get(rules::dry_run))
        .route("/console/links/{code}/history", get(link::history))
        .route(
            "/console/links/{code}/move",
            get(moving::page).post(moving::relocate),
        )
        .route("/console/links/{code}/qr.svg", get(link::qr))
        .route("/console/links/{code}/delete", post(link::delete))
        .route("/console/links/{code}/deleted", get(link::deleted))
        .route(guard::LIVE, get(link::live))
}

/// Pages about everything else.
fn account_routes() -> Router<Console> {
    Router::new()
        .route("/console/tags", get(tags::page))
        .route("/console/tags/rename", post(tags::rename))
        .route(
            "/console/tags/delete",
            get(tags::ask_to_delete).post(tags::delete),
        )
        .route("/console/domains", get(domains::page).post(domains::create))
        .route(
            "/console/domains/{name}",
            get(domains::one).post(domains::change),
        )
        .route("/console/domains/{name}/verify", post(domains::verify))
        .route(
            "/console/domains/{name}/delete",
            get(domains::ask_to_delete).post(domains::delete),
        )
        .route("/console/keys", get(keys::page).post(keys::create))
        .route(
            "/console/keys/{id}/revoke",
            get(keys::ask_to_revoke).post(keys::revoke),
        )
        .route(
            "/console/keys/{id}/rotate",
            get(keys::rotation).post(keys::rotate),
        )
        .route("/console/users", get(users::page).post(users::create))
        .route("/console/users/{id}", get(users::one).post(users::change))
        .route("/console/reports", get(reports::page))
        .route("/console/reports/{id}", post(reports::change))
        .route("/console/imports", get(imports::page))
        .route("/console/imports/{id}", get(imports::one))
        .route("/console/imports/{id}/run", post(imports::run))
        .route("/console/imports/{id}/mapping", post(imports::map))
        .route("/console/imports/{id}/stop", post(imports::stop))
        .route("/console/imports/{id}/delete", post(imports::delete))
        .route("/console/imports/{id}/report", get(imports::report))
        .route("/console/audit", get(audit::page))
        .route("/console/settings", get(settings::page))
        .route(
            "/console/settings/password",
            post(settings::change_password),
        )
}

/// Routes of the console, with the headers of all their answers.
pub fn finish(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes.layer(from_fn(guard::finish))
}
