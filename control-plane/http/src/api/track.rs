//! `POST /track`: conversions.

use super::body::JsonObject;
use super::clicks::view::ConversionView;
use crate::app::ApiCall;
use axum::Json;
use axum::response::{IntoResponse, Response};
pub(super) use edgelink_service::conversions::{self, NewConversion, Tracked};
use edgelink_service::problem::Problem;
use http::StatusCode;

/// Counts a conversion of a click.
///
/// `clickId` is the value of the parameter `el_click` that the target of a link with `trackConversions` gets. A conversion counts once
/// for each `externalId` of the link, and without one once for each click and event.
#[utoipa::path(
    post,
    path = "/track",
    operation_id = "trackConversion",
    tag = "analytics",
    request_body = NewConversion,
    responses(
        (status = 201, description = "The conversion, which counts", body = ConversionView),
        (status = 200, description = "The conversion, which was counted before", body = ConversionView),
    )
)]
pub(crate) async fn track(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let conversion = conversions::read(object)?;
    let (status, conversion) = match app.links.track(&caller, conversion).await? {
        Tracked::New(conversion) => (StatusCode::CREATED, conversion),
        Tracked::Before(conversion) => (StatusCode::OK, conversion),
    };
    Ok((status, Json(ConversionView::new(conversion))).into_response())
}
