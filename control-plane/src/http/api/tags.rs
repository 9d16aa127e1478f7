//! `GET /tags`, `PATCH` and `DELETE /tags/{tag}`.

use super::body::JsonObject;
use super::fields::{Fields, Reason};
use super::schema;
use super::{cursor, page, values};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{FieldError, Kind, Problem};
use crate::store::{Actor, MAX_COUNTED, TagCount, TagQuery};
use axum::Json;
use axum::extract::{Extension, FromRequestParts, Path, RawQuery, State};
use http::request::Parts;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// The most links that one request changes.
const MAX_LINKS: usize = 10_000;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TagPage)]
pub(crate) struct TagsView {
    tags: Vec<TagView>,
    next_cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TagCount)]
struct TagView {
    tag: String,
    links: u64,
    /// Whether there may be more links than were counted.
    at_least: bool,
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<TagsView>, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let limit = page::limit(&mut fields);
    let query = TagQuery {
        tenant_id: caller.tenant_id(),
        prefix: fields.optional("prefix", values::tag).unwrap_or_default(),
        after: fields.optional("cursor", after),
        limit: limit + 1,
    };
    fields.finish()?;
    let mut tags = app.store.list_tags(&query).await?;
    let next_cursor = page::cut(&mut tags, limit).map(|last| cursor::format_name(&last.tag));
    let view = |TagCount { tag, links }| TagView {
        tag,
        links,
        at_least: links >= MAX_COUNTED,
    };
    let tags = tags.into_iter().map(view).collect();
    Ok(Json(TagsView { tags, next_cursor }))
}

/// The last tag of the page before.
fn after(value: &Value) -> Result<String, Reason> {
    let tag = cursor::parse_name(value)?;
    values::tag(&Value::from(tag)).map_err(|_| cursor::NO_CURSOR)
}

/// The tag that the path names, percent-encoded.
pub(crate) struct RequestedTag(String);

impl FromRequestParts<Arc<App>> for RequestedTag {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        // A text that cannot be a tag is one that no link has.
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
    request_body = schema::TagPatch,
    responses((status = 200, description = "How many links were changed", body = ReplacedView))
)]
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedTag(tag): RequestedTag,
    JsonObject(object): JsonObject,
) -> Result<Json<ReplacedView>, Problem> {
    let mut fields = Fields::new(object);
    let by = fields.required("tag", values::tag);
    let may_merge = fields.optional("merge", values::flag).unwrap_or_default();
    if by.as_ref() == Some(&tag) {
        fields.refuse("tag", "is the present name");
    }
    fields.finish()?;
    let by = by.unwrap_or_default();
    if !app.store.has_tag(caller.tenant_id(), &tag).await? {
        return Err(Problem::new(Kind::TagNotFound));
    }
    if !may_merge && !may_rename(&app, &caller, &tag, &by).await? {
        let error = FieldError::new(
            "tag",
            "is a tag of other links; merge: true puts them together",
        );
        return Err(Problem::new(Kind::TagTaken).with_errors(vec![error]));
    }
    let replaced = replace(&app, &caller.actor(), &tag, Some(&by)).await?;
    Ok(Json(replaced))
}

/// Whether a tag may be renamed to `by`: no other link has that, or a request before has given it to a part of the links.
pub(crate) async fn may_rename(
    app: &App,
    caller: &Caller,
    tag: &str,
    by: &str,
) -> Result<bool, Problem> {
    let tenant_id = caller.tenant_id();
    Ok(!app.store.has_tag(tenant_id, by).await?
        || app.store.is_half_renamed(tenant_id, tag, by).await?)
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedTag(tag): RequestedTag,
) -> Result<Json<ReplacedView>, Problem> {
    if !app.store.has_tag(caller.tenant_id(), &tag).await? {
        return Err(Problem::new(Kind::TagNotFound));
    }
    let replaced = replace(&app, &caller.actor(), &tag, None).await?;
    Ok(Json(replaced))
}

/// How many links a request has changed.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedTag)]
pub(crate) struct ReplacedView {
    links: usize,
    /// Whether no link has the tag any more. If not, the request is to be sent again.
    pub(crate) complete: bool,
}

/// Replaces a tag of links until none has it, or so many are done that the rest is for another request.
pub(crate) async fn replace(
    app: &App,
    actor: &Actor,
    tag: &str,
    by: Option<&str>,
) -> Result<ReplacedView, Problem> {
    let mut links = 0;
    while links < MAX_LINKS {
        let done = app.store.replace_tag(actor, tag, by).await?;
        if done == 0 {
            break;
        }
        links += done;
    }
    let complete = links < MAX_LINKS || !app.store.has_tag(actor.tenant_id, tag).await?;
    Ok(ReplacedView { links, complete })
}
