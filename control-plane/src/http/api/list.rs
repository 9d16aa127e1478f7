//! `GET /links`.

use super::schema;
use super::view::LinkView;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::words::SearchTerm;
use crate::problem::Problem;
use crate::service::cursor::Continuation;
use crate::service::fields::{Fields, Reason};
use crate::service::page;
use crate::service::seal::Seal;
use crate::service::tenant_links::TenantLinks;
use crate::service::values;
use crate::store::{ListOrder, ListQuery, ListedState, TagsMode};
use crate::tenancy::Scope;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// The most tags that a list is filtered by, of those wanted and of those excluded.
const MAX_FILTER_TAGS: usize = 10;

/// Parameters that may be given several times.
const LISTS: [&str; 2] = ["tags", "excludeTags"];

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LinkPage)]
struct ListView<'a> {
    links: Vec<LinkView<'a>>,
    next_cursor: Option<String>,
}

/// Lists and searches links.
#[utoipa::path(
    get,
    path = "/links",
    operation_id = "listLinks",
    tag = "links",
    params(schema::LinkQuery),
    responses((status = 200, description = "A page of links", body = ListView<'static>))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let config = &app.links.of_tenant(&caller);
    let scope = caller.scope().as_ref().clone();
    let seal = app.seal().await?;
    let (query, has_rules) = parse(query.as_deref(), scope, config, seal)?;
    let page = app.links.list(&caller, &query).await?;
    let view = |link| {
        if has_rules {
            LinkView::with_rules(link, config)
        } else {
            LinkView::new(link, config)
        }
    };
    let links = page.links.iter().map(view).collect();
    let order = query.order;
    let next = page.next.map(|place| Continuation { order, place });
    let next_cursor = next.map(|next| next.format(seal));
    Ok(Json(ListView { links, next_cursor }).into_response())
}

/// The list that is wanted, and whether it has the rules of links.
fn parse(
    query: Option<&str>,
    scope: Scope,
    config: &TenantLinks<'_>,
    seal: &Seal,
) -> Result<(ListQuery, bool), Problem> {
    let mut fields = Fields::of_query_with(query, &LISTS)?;
    let has_rules = fields.optional("withRules", values::query_flag);
    let limit = page::limit(&mut fields);
    let mut query = ListQuery {
        domain: fields.optional("domain", |value| values::domain(value, config)),
        tags: fields.optional("tags", filter_tags).unwrap_or_default(),
        tags_mode: fields.optional("tagsMode", tags_mode).unwrap_or_default(),
        exclude_tags: fields
            .optional("excludeTags", filter_tags)
            .unwrap_or_default(),
        without_tags: fields
            .optional("withoutTags", values::query_flag)
            .unwrap_or_default(),
        state: fields.optional("state", state),
        created_from: fields.optional("createdAfter", millis),
        created_before: fields.optional("createdBefore", millis),
        external_id: fields.optional("externalId", external_id),
        search: fields.optional("searchTerm", search),
        ..ListQuery::newest(scope, limit)
    };
    let order = fields.optional("orderBy", order);
    let cursor = fields.optional("cursor", |value| Continuation::parse(value, seal));
    query.order = match (&cursor, order) {
        (Some(cursor), None) => cursor.order,
        (_, order) => order.unwrap_or_default(),
    };
    if cursor
        .as_ref()
        .is_some_and(|cursor| cursor.order != query.order)
    {
        fields.refuse("cursor", "belongs to a list in another order");
    }
    query.after = cursor.map(|cursor| cursor.place);
    check(&query, &mut fields);
    fields.finish()?;
    Ok((query, has_rules.unwrap_or_default()))
}

/// Checks what parameters mean together.
fn check(query: &ListQuery, fields: &mut Fields) {
    if query.without_tags && !query.tags.is_empty() {
        fields.refuse("withoutTags", "cannot be combined with tags");
    }
    let by_code = matches!(query.order, ListOrder::Code | ListOrder::CodeDescending);
    if by_code && query.domain.is_none() {
        fields.refuse("orderBy", "by shortCode needs a domain");
    }
}

pub(crate) fn filter_tags(value: &Value) -> Result<Vec<String>, Reason> {
    let tags = values::tags(value)?;
    if tags.len() > MAX_FILTER_TAGS {
        return Err("must be at most 10 tags".into());
    }
    Ok(tags)
}

pub(crate) fn tags_mode(value: &Value) -> Result<TagsMode, Reason> {
    match values::text(value)? {
        "any" => Ok(TagsMode::Any),
        "all" => Ok(TagsMode::All),
        _ => Err("must be any or all".into()),
    }
}

fn state(value: &Value) -> Result<ListedState, Reason> {
    match values::text(value)? {
        "active" => Ok(ListedState::Active),
        "disabled" => Ok(ListedState::Disabled),
        "expired" => Ok(ListedState::Expired),
        "scheduled" => Ok(ListedState::Scheduled),
        "archived" => Ok(ListedState::Archived),
        _ => Err("must be active, disabled, expired, scheduled or archived".into()),
    }
}

fn order(value: &Value) -> Result<ListOrder, Reason> {
    match values::text(value)? {
        "createdAt-desc" => Ok(ListOrder::NewestFirst),
        "createdAt-asc" => Ok(ListOrder::OldestFirst),
        "shortCode-asc" => Ok(ListOrder::Code),
        "shortCode-desc" => Ok(ListOrder::CodeDescending),
        _ => Err("must be createdAt-desc, createdAt-asc, shortCode-asc or shortCode-desc".into()),
    }
}

pub(crate) fn search(value: &Value) -> Result<SearchTerm, Reason> {
    SearchTerm::parse(values::text(value)?).map_err(|error| Reason::Owned(error.to_string()))
}

fn external_id(value: &Value) -> Result<String, Reason> {
    let id = values::text(value)?;
    if (1..=values::MAX_EXTERNAL_ID_LENGTH).contains(&id.len()) {
        Ok(id.to_owned())
    } else {
        Err("must be 1 to 255 bytes".into())
    }
}

/// A time in unix milliseconds.
fn millis(value: &Value) -> Result<u64, Reason> {
    values::time(value).map(|seconds| seconds.saturating_mul(1000))
}
