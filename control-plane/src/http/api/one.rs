//! `GET` and `DELETE /links/{code}`, and which link a request is about.

use super::fields::Fields;
use super::if_match::IfMatch;
use super::{values, view};
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use axum::extract::{Extension, FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::{Code, LinkKey};
use http::StatusCode;
use http::request::Parts;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The link that path and query name: `/links/{code}?domain=`; without `domain` on the default domain.
pub(crate) struct RequestedLink(pub(crate) LinkKey);

impl FromRequestParts<Arc<App>> for RequestedLink {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let links = &app.config.links;
        let mut fields = Fields::of_query(parts.uri.query())?;
        let domain = fields.optional("domain", |value| values::domain(value, links));
        fields.finish()?;
        let domain = domain.unwrap_or_else(|| links.default_domain().clone());
        // A text that cannot be a code names no link, as a code that was never issued.
        let code = Path::<String>::from_request_parts(parts, app)
            .await
            .ok()
            .and_then(|Path(code)| Code::parse(&code).ok())
            .ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
        Ok(Self(LinkKey::new(domain, code)))
    }
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
) -> Result<Response, Problem> {
    let link = app.store.find_link(&key).await?;
    let link = link.filter(|link| caller.check(link).is_ok());
    let link = link.ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
    Ok(view::found(&link, &app.config.links))
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
) -> Result<Response, Problem> {
    let before = Arc::new(AtomicU64::new(0));
    let check = {
        let before = before.clone();
        Box::new(move |link: &Link| {
            before.store(link.rev, Ordering::Relaxed);
            caller.check(link)?;
            if_match.check(link)
        })
    };
    let from = app.feed.end();
    match app.store.delete_link(&key, check).await? {
        Some(Ok(())) => {
            let deleted = (key, before.load(Ordering::Relaxed) + 1);
            Ok(AwaitedChanges::new(from, [deleted])
                .attach_to(StatusCode::NO_CONTENT.into_response()))
        }
        Some(Err(error)) => Err(error.into()),
        None => Err(Problem::new(Kind::LinkNotFound)),
    }
}
