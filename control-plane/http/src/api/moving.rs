//! `POST /links/{code}/restore` and `/links/{code}/move`.

use super::body::JsonObject;
use super::if_match::IfMatch;
use super::one::RequestedLink;
use super::schema;
use super::view;
use crate::app::ApiCall;
use axum::response::Response;
use edgelink_service::moving::Move;
use edgelink_service::problem::Problem;

/// Restores a deleted link, with everything it had.
#[utoipa::path(
    post,
    path = "/links/{code}/restore",
    operation_id = "restoreLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    responses(
        (
            status = 200, description = "The link as it is now",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn restore(
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
    IfMatch(revisions): IfMatch,
) -> Result<Response, Problem> {
    let restored = app.links.restore(&caller, key, revisions).await?;
    Ok(restored.answer(|link| view::found(&link, &app.config.links)))
}

/// Moves a link to another code or domain.
#[utoipa::path(
    post,
    path = "/links/{code}/move",
    operation_id = "moveLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    request_body = Move,
    responses(
        (
            status = 201, description = "The link where it is now",
            body = view::LinkView<'static>,
            headers(
                ("ETag" = String, description = "The revision"),
                ("Location" = String, description = "The resource"),
            ),
        ),
    )
)]
pub(crate) async fn move_link(
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
    IfMatch(revisions): IfMatch,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.links.of_tenant(&caller);
    let request = Move::checked(object, &key, &caller, links)?;
    let moved = app.links.relocate(&caller, key, revisions, request).await?;
    Ok(moved.answer(|link| view::created(&link, links)))
}
