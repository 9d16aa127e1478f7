//! `PATCH /links/{code}`: a JSON merge patch (RFC 7396). A missing field stays, null sets the default.

use super::body::JsonObject;
use super::if_match::IfMatch;
use super::one::RequestedLink;
use super::schema;
use super::view;
use crate::app::ApiCall;
use axum::response::Response;
use edgelink_service::link_patch::LinkPatch;
use edgelink_service::problem::Problem;

/// Changes a link.
///
/// A JSON merge patch (RFC 7396).
#[utoipa::path(
    patch,
    path = "/links/{code}",
    operation_id = "changeLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    request_body = LinkPatch,
    responses(
        (
            status = 200, description = "The link as it is now",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn patch(
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
    IfMatch(revisions): IfMatch,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.links.of_tenant(&caller);
    let patch = LinkPatch::read(object, links)?;
    let changed = app.links.change(&caller, key, revisions, patch).await?;
    Ok(changed.answer(|link| view::found(&link, links)))
}
