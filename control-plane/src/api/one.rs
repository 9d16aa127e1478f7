//! `GET` and `DELETE /links/{code}`.

use super::if_match::IfMatch;
use super::key::RequestedLink;
use super::view;
use crate::app::App;
use crate::problem::{FieldError, Kind, Problem};
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
    // The store deletes without a look at the revision. To ignore the condition would be worse than to refuse it.
    if if_match.is_given() {
        let error = FieldError::new("If-Match", "is not supported for DELETE");
        return Err(Problem::validation(vec![error]));
    }
    if app.store.delete_link(&key).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::new(Kind::LinkNotFound))
    }
}
