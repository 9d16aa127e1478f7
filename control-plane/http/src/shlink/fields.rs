//! Fields from Shlink's clients that the admin API does not accept as they are.

use crate::app::App;
use crate::auth::Caller;
use axum::extract::{FromRequestParts, Path};
use edgelink_service::fields::{Fields, Reason};
use edgelink_service::problem::{FieldError, Kind, Problem};
use edgelink_service::tenant_links::TenantLinks;
use edgelink_service::values;
use edgelink_settings::config::LinksConfig;
use edgelink_wire::{Code, Domain, LinkKey};
use http::request::Parts;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Name of the default domain in filters.
const DEFAULT_DOMAIN: &str = "DEFAULT";

/// The text in the path, percent-decoded and not checked, and the parameters of the query.
pub(super) struct Named(pub(super) String, pub(super) Fields);

impl FromRequestParts<Arc<App>> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let fields = Fields::of_query(parts.uri.query())?;
        let path = Path::<String>::from_request_parts(parts, app).await;
        let Path(text) = path.map_err(|_| Problem::new(Kind::NotFound))?;
        Ok(Self(text, fields))
    }
}

/// The link that path and query name, and the other parameters of the query. An unknown domain has no links.
pub(super) struct NamedLink(pub(super) LinkKey, pub(super) Fields);

impl FromRequestParts<Arc<App>> for NamedLink {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| Problem::new(Kind::Unauthorized))?;
        let links = &app.links.of_tenant(&caller);
        let Named(code, mut fields) = Named::from_request_parts(parts, app).await?;
        let not_found = || Problem::new(Kind::LinkNotFound);
        let code = Code::parse(&code).map_err(|_| not_found())?;
        let domain = match fields.optional("domain", values::string) {
            Some(text) => domain(&Value::from(text), links).map_err(|_| not_found())?,
            None => links.default_domain().clone(),
        };
        Ok(Self(LinkKey::new(domain, code), fields))
    }
}

/// A domain, or `DEFAULT`.
pub(super) fn domain(value: &Value, links: &TenantLinks<'_>) -> Result<Domain, Reason> {
    match value.as_str() {
        Some(DEFAULT_DOMAIN) => Ok(links.default_domain().clone()),
        _ => values::domain(value, links),
    }
}

/// Parses the number of a page, or of its items.
pub(super) fn number(value: &Value, most: usize) -> Result<usize, Reason> {
    let text = values::text(value)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| Reason::Owned(format!("must be a number of 1 to {most}")))
}

/// Takes the field of a short URL out of `object` that the admin API does not have. Returns the error if the field asks for
/// anything but the behaviour we have anyway.
pub(super) fn take_foreign(
    object: &mut Map<String, Value>,
    links: &LinksConfig,
) -> Option<FieldError> {
    let length = object.remove("shortCodeLength")?;
    if length.is_null() || length.as_u64() == Some(links.code_length.into()) {
        return None;
    }
    let reason = format!(
        "must be {}, the length of all codes here",
        links.code_length
    );
    Some(FieldError::new("shortCodeLength", reason))
}

/// Adds the error of another field to the result of reading a request.
pub(super) fn unless_wrong<T>(
    error: Option<FieldError>,
    read: Result<T, Problem>,
) -> Result<T, Problem> {
    let Some(error) = error else { return read };
    match read {
        Err(problem) if problem.kind() == Kind::Validation => Err(problem.and_error(error)),
        Err(problem) => Err(problem),
        Ok(_) => Err(Problem::validation(vec![error])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_when_out_of_range_is_refused() {
        let read = |text: &str| number(&Value::from(text), 20).ok();
        assert_eq!(read("1"), Some(1));
        assert_eq!(read("20"), Some(20));
        for text in ["", "0", "21", "-1", "+1", "1.0", "99999999999999999999999"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
