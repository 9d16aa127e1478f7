//! `GET` and `DELETE /links/{code}`, and the extractors of the link that a request names.

use super::if_match::{IfMatch, IfNoneMatch, entity_tag};
use super::schema;
use super::view;
use crate::app::{ApiCall, App};
use crate::auth::Caller;
use axum::extract::{FromRequestParts, Path};
use axum::response::{IntoResponse, Response};
use edgelink_service::fields::Fields;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::values;
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
        let links = &app.links.of_tenant(caller);
        let mut fields = Fields::of_query(parts.uri.query())?;
        let domain = fields.optional("domain", |value| values::domain(value, links));
        // A wrong domain is refused together with all other errors.
        let domain = domain.unwrap_or_else(|| links.default_domain().clone());
        // A text that cannot be a code names no link, like a code that was never issued.
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
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
    if_none_match: IfNoneMatch,
) -> Result<Response, Problem> {
    let (link, visits) = app.links.find_with_visits(&caller, &key).await?;
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
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
    IfMatch(revisions): IfMatch,
) -> Result<Response, Problem> {
    let deleted = app.links.delete(&caller, key, revisions).await?;
    Ok(deleted.answer(|link| {
        (StatusCode::NO_CONTENT, [(header::ETAG, entity_tag(&link))]).into_response()
    }))
}
