//! `/short-urls`: one short URL, and its redirect rules.

use super::failure::Failure;
use super::fields::{NamedLink, take_foreign, unless_wrong};
use super::view;
use crate::api::body::JsonObject;
use crate::api::if_match::IfMatch;
use crate::api::one::RequestedLink;
use crate::api::{one, rules as admin_rules};
use crate::app::ApiCall;
use axum::response::Response;
use edgelink_service::create_link::CreateLink;
use edgelink_service::link_patch::LinkPatch;
use edgelink_service::problem::{Kind, Problem};

/// `POST /short-urls`: 200 with the short URL, new or found.
pub(super) async fn create(
    ApiCall { app, caller }: ApiCall,
    JsonObject(mut object): JsonObject,
) -> Result<Response, Failure> {
    let links = &app.links.of_tenant(&caller);
    let slug = object.get("customSlug").cloned();
    let foreign = take_foreign(&mut object, links);
    let request = CreateLink::read(object, links, &caller);
    let request = unless_wrong(foreign, request)?;
    let taken = |problem: Problem| match problem.kind() {
        Kind::SlugTaken => Failure::from(problem).with("customSlug", slug.unwrap_or_default()),
        _ => problem.into(),
    };
    let made = app.links.create(&caller, request).await.map_err(taken)?;
    let view = view::found(&app, &made.value.link).await?;
    Ok(made.answer(|_| view))
}

/// `GET /short-urls/{code}`.
pub(super) async fn get(
    ApiCall { app, caller }: ApiCall,
    NamedLink(key, fields): NamedLink,
) -> Result<Response, Failure> {
    fields.finish()?;
    let link = app.links.find(&caller, &key).await?;
    view::found(&app, &link).await
}

/// `PATCH /short-urls/{code}`: missing fields stay, null sets the default.
pub(super) async fn patch(
    ApiCall { app, caller }: ApiCall,
    NamedLink(key, fields): NamedLink,
    IfMatch(revisions): IfMatch,
    JsonObject(mut object): JsonObject,
) -> Result<Response, Failure> {
    fields.finish()?;
    let links = &app.links.of_tenant(&caller);
    let foreign = take_foreign(&mut object, links);
    let patch = unless_wrong(foreign, LinkPatch::read(object, links))?;
    let changed = app.links.change(&caller, key, revisions, patch).await?;
    let view = view::found(&app, &changed.value).await?;
    Ok(changed.answer(|_| view))
}

/// `DELETE /short-urls/{code}`.
pub(super) async fn delete(
    call: ApiCall,
    NamedLink(key, fields): NamedLink,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    fields.finish()?;
    Ok(one::delete(call, RequestedLink(key), if_match).await?)
}

/// `GET /short-urls/{code}/redirect-rules`.
pub(super) async fn rules(
    call: ApiCall,
    NamedLink(key, fields): NamedLink,
) -> Result<Response, Failure> {
    fields.finish()?;
    Ok(admin_rules::get(call, RequestedLink(key)).await?)
}

/// `POST /short-urls/{code}/redirect-rules`: replaces all rules.
pub(super) async fn replace_rules(
    call: ApiCall,
    NamedLink(key, fields): NamedLink,
    if_match: IfMatch,
    body: JsonObject,
) -> Result<Response, Failure> {
    fields.finish()?;
    let key = RequestedLink(key);
    Ok(admin_rules::replace(call, key, if_match, body).await?)
}
