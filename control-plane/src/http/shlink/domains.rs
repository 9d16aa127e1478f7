//! `/domains`.

use super::failure::Failure;
use crate::http::api::body::JsonObject;
use crate::http::api::fields::Fields;
use crate::http::api::values;
use crate::http::app::App;
use crate::http::auth::Caller;
use axum::Json;
use axum::extract::{Extension, State};
use edgelink_wire::Domain;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Where visitors go that follow no link.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Redirects {
    base_url_redirect: Option<String>,
    regular404_redirect: Option<String>,
    invalid_short_url_redirect: Option<String>,
}

/// The fields of [`Redirects`].
const REDIRECTS: [&str; 3] = [
    "baseUrlRedirect",
    "regular404Redirect",
    "invalidShortUrlRedirect",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DomainView<'a> {
    domain: &'a str,
    is_default: bool,
    redirects: Redirects,
}

/// `GET /domains`: those of the caller, the default one first.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Json<Value> {
    let links = &app.config.links;
    let bounds = &caller.scope().domains;
    let is_allowed = |domain: &&Domain| bounds.is_empty() || bounds.contains(domain);
    let view = |domain| DomainView {
        domain: Domain::as_str(domain),
        is_default: domain == links.default_domain(),
        redirects: Redirects::default(),
    };
    let data: Vec<DomainView<'_>> = links.domains.iter().filter(is_allowed).map(view).collect();
    let redirects = Redirects::default();
    Json(json!({ "domains": { "data": data, "defaultRedirects": redirects } }))
}

/// `PATCH /domains/redirects`: there are none, so none can be set.
pub(super) async fn redirects(
    State(app): State<Arc<App>>,
    JsonObject(object): JsonObject,
) -> Result<Json<Value>, Failure> {
    let mut fields = Fields::new(object);
    let name = fields.required("domain", values::string);
    for field in REDIRECTS {
        if let Some(Some(_)) = fields.change(field, values::string) {
            fields.refuse(field, "must be null");
        }
    }
    fields.finish()?;
    let name = name.unwrap_or_default();
    values::domain(&Value::from(name.as_str()), &app.config.links)
        .map_err(|_| Failure::domain_not_found(&name))?;
    Ok(Json(json!(Redirects::default())))
}
