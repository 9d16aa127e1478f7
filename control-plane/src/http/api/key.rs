//! Which link a request is about: `/links/{code}?domain=`.

use super::{query, values};
use crate::http::app::App;
use crate::problem::{Kind, Problem};
use axum::extract::{FromRequestParts, Path};
use edgelink_wire::{Code, LinkKey};
use http::request::Parts;
use std::sync::Arc;

/// The link that the path and `domain` name; the default domain where the latter is missing.
pub(crate) struct RequestedLink(pub(crate) LinkKey);

impl FromRequestParts<Arc<App>> for RequestedLink {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let links = &app.config.links;
        let mut fields = query::fields(parts.uri.query())?;
        let domain = fields.optional("domain", |value| values::domain(value, links));
        fields.finish()?;
        let domain = domain.unwrap_or_else(|| links.default_domain().clone());
        // What is not the shape of a code names no link, just as a code that was never given out.
        let code = Path::<String>::from_request_parts(parts, app)
            .await
            .ok()
            .and_then(|Path(code)| Code::parse(&code).ok())
            .ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
        Ok(Self(LinkKey::new(domain, code)))
    }
}
