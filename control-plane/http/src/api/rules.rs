//! `GET` and `POST /links/{code}/rules`: the conditional targets of a link, in the JSON of Shlink.

use super::body::JsonObject;
use super::if_match::{IfMatch, entity_tag};
use super::one::RequestedLink;
use super::schema;
use super::view;
use crate::app::ApiCall;
use axum::Json;
use axum::response::{IntoResponse, Response};
use edgelink_model::links::model::Link;
use edgelink_service::problem::Problem;
use edgelink_service::schemas::NewRules;
use http::header;
use serde::Serialize;
use utoipa::ToSchema;

/// Gets the rules of a link in the order in which they count.
#[utoipa::path(
    get,
    path = "/links/{code}/rules",
    operation_id = "getRules",
    tag = "links",
    params(schema::OfCode, schema::OfDomain),
    responses(
        (
            status = 200, description = "The rules",
            body = RulesView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn get(
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
) -> Result<Response, Problem> {
    let link = app.links.find(&caller, &key).await?;
    Ok(answer(&link))
}

/// Replaces all rules of a link; an empty list removes them.
#[utoipa::path(
    post,
    path = "/links/{code}/rules",
    operation_id = "setRules",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    request_body = NewRules,
    responses(
        (
            status = 200, description = "The rules as they are now",
            body = RulesView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn replace(
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
    IfMatch(revisions): IfMatch,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = app.links.of_tenant(&caller);
    let rules = links.read_rules(object)?;
    let changed = app.links.set_rules(&caller, key, revisions, rules).await?;
    Ok(changed.answer(|link| answer(&link)))
}

/// The rules of a link as the API shows them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rules)]
struct RulesView<'a> {
    default_long_url: &'a str,
    redirect_rules: Vec<view::RuleView<'a>>,
}

fn answer(link: &Link) -> Response {
    let view = RulesView {
        default_long_url: link.content.target.as_str(),
        redirect_rules: view::rules(link),
    };
    ([(header::ETAG, entity_tag(link))], Json(view)).into_response()
}
