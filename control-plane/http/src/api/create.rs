//! `POST /links`.

use super::body::JsonObject;
use super::idempotency_key;
use super::schema;
use super::view;
use crate::app::ApiCall;
use axum::response::Response;
use edgelink_service::create_link::{CreateLink, Created, LinkRequest};
pub(crate) use edgelink_service::idempotency::Route;
use edgelink_service::problem::Problem;
use edgelink_settings::config::LinksConfig;
use http::HeaderMap;

/// Creates a link.
///
/// The 201 is sent after the commit. An alias can be followed at every edge then.
#[utoipa::path(
    post,
    path = "/links",
    operation_id = "createLink",
    tag = "links",
    params(schema::Idempotency),
    request_body = LinkRequest,
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
            status = 200, description = "`findIfExists`: there is such a link",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn create(
    ApiCall { app, caller }: ApiCall,
    headers: HeaderMap,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.links.of_tenant(&caller);
    let id = idempotency_key::read(&headers, &caller, Route::One)?;
    let receipt = id.map(|id| id.receipt(0, &object));
    let request = CreateLink::read(object, links, &caller)?.with_receipt(receipt);
    let made = app.links.create(&caller, request).await?;
    Ok(made.answer(|made| answer(&made, links)))
}

fn answer(made: &Created, links: &LinksConfig) -> Response {
    let mut response = if made.is_found {
        view::found(&made.link, links)
    } else {
        view::created(&made.link, links)
    };
    if made.is_replayed {
        let headers = response.headers_mut();
        headers.insert(idempotency_key::REPLAYED, idempotency_key::TRUE);
    }
    response
}
