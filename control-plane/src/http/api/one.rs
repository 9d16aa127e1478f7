//! `GET` and `DELETE /links/{code}`.

use super::if_match::IfMatch;
use super::key::RequestedLink;
use super::view;
use crate::feed::Untold;
use crate::http::app::App;
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
) -> Result<Response, Problem> {
    let before = Arc::new(AtomicU64::new(0));
    let check = {
        let before = before.clone();
        Box::new(move |link: &Link| {
            before.store(link.rev, Ordering::Relaxed);
            if_match.check(link)
        })
    };
    let from = app.feed.end();
    match app.store.delete_link(&key, check).await? {
        Some(Ok(())) => {
            let deleted = (key, before.load(Ordering::Relaxed) + 1);
            Ok(Untold::new(from, [deleted]).before(StatusCode::NO_CONTENT.into_response()))
        }
        Some(Err(error)) => Err(error.into()),
        None => Err(Problem::new(Kind::LinkNotFound)),
    }
}
