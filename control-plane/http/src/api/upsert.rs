//! `PUT /links`: creates the link with an external id, or changes it.
//!
//! A client that keeps links in sync with another system sends each of them, known here or not, as often as it likes.

use super::body::JsonObject;
use super::view;
use crate::app::ApiCall;
use axum::response::Response;
use edgelink_service::create_link::{LinkUpsert, PutLink};
pub(super) use edgelink_service::links::Put;
use edgelink_service::problem::Problem;

/// Creates the link with an external id, or changes it.
///
/// Fields that are missing stay. A request that changes nothing makes no revision.
#[utoipa::path(
    put,
    path = "/links",
    operation_id = "putLink",
    tag = "links",
    request_body = LinkUpsert,
    responses(
        (
            status = 201, description = "The link was created",
            body = view::LinkView<'static>,
            headers(
                ("ETag" = String, description = "The revision"),
                ("Location" = String, description = "The resource"),
            ),
        ),
        (
            status = 200, description = "The link as it is now",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn put(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.links.of_tenant(&caller);
    let request = PutLink::read(object, links, &caller)?;
    let done = app.links.put(&caller, request).await?;
    Ok(done.answer(|(put, link)| match put {
        Put::Created => view::created(&link, links),
        Put::Changed => view::found(&link, links),
    }))
}
