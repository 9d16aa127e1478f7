//! `GET /links`.

use super::fields::{Fields, Reason};
use super::view::LinkView;
use super::{cursor, values};
use crate::config::LinksConfig;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::model::Link;
use crate::problem::Problem;
use crate::store::{ListCursor, ListQuery};
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 500;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListView<'a> {
    links: Vec<LinkView<'a>>,
    next_cursor: Option<String>,
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let config = &app.config.links;
    let query = parse(query.as_deref(), config)?;
    // One link more than asked for shows whether there is a next page.
    let more = ListQuery {
        scope: Some(caller.scope().as_ref().clone()),
        limit: query.limit + 1,
        ..query.clone()
    };
    let mut links = app.store.list_links(&more).await?;
    let next_cursor = cut(&mut links, query.limit).map(cursor::format);
    let links = links
        .iter()
        .map(|link| LinkView::new(link, config))
        .collect();
    Ok(Json(ListView { links, next_cursor }).into_response())
}

fn parse(query: Option<&str>, config: &LinksConfig) -> Result<ListQuery, Problem> {
    let mut fields = Fields::of_query(query)?;
    let domain = fields.optional("domain", |value| values::domain(value, config));
    let after = fields.optional("cursor", cursor::parse);
    let limit = fields.optional("limit", limit).unwrap_or(DEFAULT_LIMIT);
    fields.finish()?;
    Ok(ListQuery {
        scope: None,
        domain,
        after,
        limit,
    })
}

fn limit(value: &Value) -> Result<u32, Reason> {
    value
        .as_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        .ok_or(Reason::Borrowed("must be a number of 1 to 500"))
}

/// Cuts the page to `limit`; the cursor of its last link if something was cut off.
fn cut(links: &mut Vec<Link>, limit: u32) -> Option<ListCursor> {
    let limit = usize::try_from(limit).ok()?;
    if links.len() <= limit {
        return None;
    }
    links.truncate(limit);
    links.last().map(|link| ListCursor {
        created_at: link.created_at,
        id: link.id,
    })
}
