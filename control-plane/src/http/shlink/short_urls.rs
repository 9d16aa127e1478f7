//! `/short-urls`: one short URL, and its redirect rules.

use super::failure::Failure;
use super::fields::{NamedLink, take_foreign, unless_wrong};
use super::view;
use crate::http::api::body::JsonObject;
use crate::http::api::if_match::IfMatch;
use crate::http::api::one::RequestedLink;
use crate::http::api::{create as creating, one, patch as changing, rules as admin_rules};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use axum::extract::{Extension, State};
use axum::response::Response;
use std::sync::Arc;

/// `POST /short-urls`: 200 with the short URL, new or found.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(mut object): JsonObject,
) -> Result<Response, Failure> {
    let links = &app.links(&caller);
    let slug = object.get("customSlug").cloned();
    let foreign = take_foreign(&mut object, links);
    let order = creating::parse(object, links, &caller, None);
    let draft = unless_wrong(foreign, order)?;
    let order = draft.hash(&app.passwords, caller.claim()).await?;
    let taken = |problem: Problem| match problem.kind() {
        Kind::SlugTaken => Failure::from(problem).with("customSlug", slug.unwrap_or_default()),
        _ => problem.into(),
    };
    let made = creating::carry_out(&app, &caller, order).await;
    let (made, awaited) = made.map_err(taken)?;
    Ok(awaited.attach_to(view::found(&app, &made.link).await?))
}

/// `GET /short-urls/{code}`.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    NamedLink(key, fields): NamedLink,
) -> Result<Response, Failure> {
    fields.finish()?;
    let link = one::find(&app, &caller, &key).await?;
    view::found(&app, &link).await
}

/// `PATCH /short-urls/{code}`: what is missing stays, null sets the default.
pub(super) async fn patch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    NamedLink(key, fields): NamedLink,
    if_match: IfMatch,
    JsonObject(mut object): JsonObject,
) -> Result<Response, Failure> {
    fields.finish()?;
    let links = &app.links(&caller);
    let foreign = take_foreign(&mut object, links);
    let patch = unless_wrong(foreign, changing::parse(object, links))?;
    let changed = changing::carry_out(&app, caller, key, if_match, patch).await;
    let (link, awaited) = changed?;
    Ok(awaited.attach_to(view::found(&app, &link).await?))
}

/// `DELETE /short-urls/{code}`.
pub(super) async fn delete(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    NamedLink(key, fields): NamedLink,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    fields.finish()?;
    Ok(one::delete(app, caller, RequestedLink(key), if_match).await?)
}

/// `GET /short-urls/{code}/redirect-rules`.
pub(super) async fn rules(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    NamedLink(key, fields): NamedLink,
) -> Result<Response, Failure> {
    fields.finish()?;
    Ok(admin_rules::get(app, caller, RequestedLink(key)).await?)
}

/// `POST /short-urls/{code}/redirect-rules`: replaces all of them.
pub(super) async fn replace_rules(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    NamedLink(key, fields): NamedLink,
    if_match: IfMatch,
    body: JsonObject,
) -> Result<Response, Failure> {
    fields.finish()?;
    let key = RequestedLink(key);
    Ok(admin_rules::replace(app, caller, key, if_match, body).await?)
}
