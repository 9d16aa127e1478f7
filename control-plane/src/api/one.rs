//! `GET` and `DELETE /links/{code}`.

use super::if_match::IfMatch;
use super::key::RequestedLink;
use super::view;
use crate::app::App;
use crate::model::Link;
use crate::problem::{Kind, Problem};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use std::sync::Arc;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    RequestedLink(key): RequestedLink,
) -> Result<Response, Problem> {
    let link = app.store.find_link(&key).await?;
    let link = link.ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
    Ok(view::found(&link, &app.config.links))
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let check = Box::new(move |link: &Link| if_match.check(link));
    match app.store.delete_link(&key, check).await? {
        Some(Ok(())) => Ok(StatusCode::NO_CONTENT),
        Some(Err(error)) => Err(error.into()),
        None => Err(Problem::new(Kind::LinkNotFound)),
    }
}
