//! `GET` and `DELETE /links/{code}`, and which link a request is about.

use super::fields::Fields;
use super::if_match::{IfMatch, IfNoneMatch, entity_tag};
use super::schema;
use super::{values, view};
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::checked::CheckedContent;
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use crate::store::{ChangeError, ChangeOutcome};
use axum::extract::{Extension, FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::{Code, LinkKey};
use http::request::Parts;
use http::{StatusCode, header};
use std::sync::Arc;

/// The link that path and query name: `/links/{code}?domain=`; without `domain` on the default domain.
pub(crate) struct RequestedLink(pub(crate) LinkKey);

impl FromRequestParts<Arc<App>> for RequestedLink {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let LinkAndQuery(key, fields) = LinkAndQuery::from_request_parts(parts, app).await?;
        fields.finish()?;
        Ok(Self(key))
    }
}

/// The link that path and query name, and the other parameters of the query.
pub(crate) struct LinkAndQuery(pub(crate) LinkKey, pub(crate) Fields);

impl FromRequestParts<Arc<App>> for LinkAndQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>();
        let caller = caller.ok_or_else(|| Problem::new(Kind::Unauthorized))?;
        let links = &app.links(caller);
        let mut fields = Fields::of_query(parts.uri.query())?;
        let domain = fields.optional("domain", |value| values::domain(value, links));
        // A wrong domain is refused with all other mistakes.
        let domain = domain.unwrap_or_else(|| links.default_domain().clone());
        // A text that cannot be a code names no link, as a code that was never issued.
        let code = Path::<String>::from_request_parts(parts, app)
            .await
            .ok()
            .and_then(|Path(code)| Code::parse(&code).ok())
            .ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
        Ok(Self(LinkKey::new(domain, code), fields))
    }
}

/// Gets a link.
#[utoipa::path(
    get,
    path = "/links/{code}",
    operation_id = "getLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::UnlessMatch),
    responses(
        (
            status = 200, description = "The link",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
        (
            status = 304, description = "`If-None-Match` names its revision",
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    if_none_match: IfNoneMatch,
) -> Result<Response, Problem> {
    let link = find(&app, &caller, &key).await?;
    let visits = match link.content.details.max_visits {
        Some(_) => Some(app.store.find_visits(link.id).await?),
        None => None,
    };
    // The count of visits changes without the link.
    if visits.is_none() && if_none_match.has(&link) {
        return Ok((
            StatusCode::NOT_MODIFIED,
            [(header::ETAG, entity_tag(&link))],
        )
            .into_response());
    }
    Ok(view::found_with_visits(&link, visits, &app.config.links))
}

/// The link, if it exists for the caller.
pub(crate) async fn find(app: &App, caller: &Caller, key: &LinkKey) -> Result<Link, Problem> {
    let link = app.store.find_link(key).await?;
    let link = link.filter(|link| caller.check(link).is_ok());
    link.ok_or_else(|| Problem::new(Kind::LinkNotFound))
}

/// Replaces the content of a link that the caller may see by `change` of it.
pub(super) async fn change(
    app: &App,
    caller: Caller,
    key: LinkKey,
    if_match: IfMatch,
    change: impl Fn(CheckedContent) -> Result<CheckedContent, ChangeError> + Send + Sync + 'static,
) -> Result<(Link, AwaitedChanges), Problem> {
    let actor = caller.actor();
    let change = Box::new(move |link: &Link| {
        caller.check(link)?;
        if_match.check(link)?;
        change(CheckedContent::existing(link))
    });
    let from = app.feed.end();
    let link = outcome(app.store.update_link(&key, change, &actor).await?)?;
    let awaited = AwaitedChanges::new(from, [(key, link.rev)]);
    Ok((link, awaited))
}

/// Deletes a link.
///
/// Its code is free at once, and until it is purged or taken the link can be restored.
#[utoipa::path(
    delete,
    path = "/links/{code}",
    operation_id = "deleteLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    responses(
        (
            status = 204, description = "The link is deleted",
            headers(("ETag" = String, description = "The revision of the deletion, for a restore")),
        ),
    )
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
) -> Result<Response, Problem> {
    let actor = caller.actor();
    let check = Box::new(move |link: &Link| {
        caller.check(link)?;
        if_match.check(link)
    });
    let from = app.feed.end();
    let deleted = app.store.delete_link(&key, check, &actor).await?;
    let deleted = outcome(deleted)?;
    let awaited = AwaitedChanges::new(from, [(key, deleted.rev)]);
    let answer = (
        StatusCode::NO_CONTENT,
        [(header::ETAG, entity_tag(&deleted))],
    );
    Ok(awaited.attach_to(answer.into_response()))
}

/// What the API answers for the outcome of a change.
pub(super) fn outcome(changed: ChangeOutcome) -> Result<Link, Problem> {
    let changed = changed.ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
    Ok(changed?)
}
