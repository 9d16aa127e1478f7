//! `GET /links`.

use super::schema;
use super::view::LinkView;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
use edgelink_service::problem::Problem;
use serde::Serialize;
use utoipa::ToSchema;

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
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let config = &app.config.links;
    let list = app.links.read_list(&caller, query.as_deref()).await?;
    let page = app.links.list(&caller, &list).await?;
    let view = |link| {
        if list.has_rules {
            LinkView::with_rules(link, config)
        } else {
            LinkView::new(link, config)
        }
    };
    let view = ListView {
        links: page.items.iter().map(view).collect(),
        next_cursor: page.next,
    };
    Ok(Json(view).into_response())
}
