//! `POST /links/{code}/resolve`: explains where a visitor would be sent, without counting anything.

use super::body::JsonObject;
use super::one::RequestedLink;
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use edgelink_service::dry_run::{ResolvedView, Visitor};
use edgelink_service::problem::Problem;

/// Says where a visitor would be sent, and why. Nothing is counted.
#[utoipa::path(
    post,
    path = "/links/{code}/resolve",
    operation_id = "resolveLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain),
    request_body = Visitor,
    responses((status = 200, description = "Where, and which rule matched", body = ResolvedView))
)]
pub(crate) async fn resolve(
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
    JsonObject(object): JsonObject,
) -> Result<Json<ResolvedView>, Problem> {
    let visitor = Visitor::read(object)?;
    let resolved = app.links.dry_run(&caller, &key, visitor).await?;
    Ok(Json(resolved))
}
