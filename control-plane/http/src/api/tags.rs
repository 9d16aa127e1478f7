//! `GET /tags`, `PATCH` and `DELETE /tags/{tag}`.

use super::body::JsonObject;
use super::schema;
use crate::app::{ApiCall, App};
use axum::Json;
use axum::extract::{FromRequestParts, Path, RawQuery};
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::tags::{ReplacedTag, TagList, TagPatch, TagView};
use edgelink_service::values;
use http::request::Parts;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TagPage)]
pub(crate) struct TagsView {
    tags: Vec<TagView>,
    next_cursor: Option<String>,
}

/// Lists tags with their numbers of links.
#[utoipa::path(
    get,
    path = "/tags",
    operation_id = "listTags",
    tag = "links",
    params(schema::TagQuery),
    responses((status = 200, description = "A page of tags, in the order of their bytes", body = TagsView))
)]
pub(crate) async fn list(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Json<TagsView>, Problem> {
    let list = TagList::read(query.as_deref())?;
    let page = app.links.list_tags(&caller, list).await?;
    Ok(Json(TagsView {
        tags: page.items.into_iter().map(TagView::new).collect(),
        next_cursor: page.next,
    }))
}

/// The tag that the path names, percent-encoded.
pub(crate) struct RequestedTag(String);

impl FromRequestParts<Arc<App>> for RequestedTag {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        // A text that cannot be a tag names a tag that no link has.
        Path::<String>::from_request_parts(parts, app)
            .await
            .ok()
            .and_then(|Path(tag)| values::tag(&Value::from(tag)).ok())
            .map(Self)
            .ok_or_else(|| Problem::new(Kind::TagNotFound))
    }
}

/// Renames a tag in all links, or merges it into another one.
#[utoipa::path(
    patch,
    path = "/tags/{tag}",
    operation_id = "renameTag",
    tag = "links",
    params(schema::OfTag),
    request_body = TagPatch,
    responses((status = 200, description = "How many links were changed", body = ReplacedView))
)]
pub(crate) async fn patch(
    ApiCall { app, caller }: ApiCall,
    RequestedTag(tag): RequestedTag,
    JsonObject(object): JsonObject,
) -> Result<Json<ReplacedView>, Problem> {
    let patch = TagPatch::read(object)?;
    let replaced = app.links.rename_tag(&caller, &tag, &patch).await?;
    Ok(Json(replaced.into()))
}

/// Removes a tag from all links.
#[utoipa::path(
    delete,
    path = "/tags/{tag}",
    operation_id = "deleteTag",
    tag = "links",
    params(schema::OfTag),
    responses((status = 200, description = "How many links were changed", body = ReplacedView))
)]
pub(crate) async fn delete(
    ApiCall { app, caller }: ApiCall,
    RequestedTag(tag): RequestedTag,
) -> Result<Json<ReplacedView>, Problem> {
    let replaced = app.links.delete_tag(&caller, &tag).await?;
    Ok(Json(replaced.into()))
}

/// How many links a request has changed.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedTag)]
pub(crate) struct ReplacedView {
    links: usize,
    /// Whether no link has the tag any more. If not, the request is to be sent again.
    complete: bool,
}

impl From<ReplacedTag> for ReplacedView {
    fn from(replaced: ReplacedTag) -> Self {
        Self {
            links: replaced.links,
            complete: replaced.complete,
        }
    }
}
