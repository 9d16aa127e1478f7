//! `/domains`.

use super::failure::Failure;
use crate::api::body::JsonObject;
use crate::app::ApiCall;
use axum::Json;
use edgelink_service::fields::Fields;
use edgelink_service::values;
use edgelink_settings::domains::DomainTable;
use edgelink_wire::Domain;
use serde::Serialize;
use serde_json::{Value, json};

/// Targets of visitors who follow no link.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Redirects {
    base_url_redirect: Option<String>,
    regular404_redirect: Option<String>,
    invalid_short_url_redirect: Option<String>,
}

impl Redirects {
    fn of(table: &DomainTable, domain: &Domain) -> Self {
        let targets = table.targets(domain).map(|target| (*target).to_owned());
        Self {
            base_url_redirect: targets.root,
            regular404_redirect: targets.not_found.clone(),
            invalid_short_url_redirect: targets.not_found,
        }
    }
}

/// The fields of [`Redirects`].
const REDIRECTS: [&str; 3] = [
    "baseUrlRedirect",
    "regular404Redirect",
    "invalidShortUrlRedirect",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShlinkDomain<'a> {
    domain: &'a str,
    is_default: bool,
    redirects: Redirects,
}

/// `GET /domains`: the domains of the caller, the default one first.
pub(super) async fn list(ApiCall { app, caller }: ApiCall) -> Json<Value> {
    let links = &app.config.links;
    let bounds = &caller.scope().domains;
    let is_allowed = |domain: &&Domain| bounds.is_empty() || bounds.contains(domain);
    let table = app.domains.current();
    let made = table.made_by(caller.tenant_id());
    let domains = table.configured().iter().chain(made).filter(is_allowed);
    let view = |domain| ShlinkDomain {
        domain: Domain::as_str(domain),
        is_default: domain == links.default_domain(),
        redirects: Redirects::of(&table, domain),
    };
    let data: Vec<ShlinkDomain<'_>> = domains.map(view).collect();
    let redirects = Redirects::default();
    Json(json!({ "domains": { "data": data, "defaultRedirects": redirects } }))
}

/// `PATCH /domains/redirects`: refused, because only the admin API sets them.
pub(super) async fn redirects(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Json<Value>, Failure> {
    let mut fields = Fields::new(object);
    let name = fields
        .required("domain", values::string)
        .unwrap_or_default();
    let domain = values::domain(&Value::from(name.as_str()), &app.links.of_tenant(&caller));
    let table = app.domains.current();
    let is = domain.as_ref().map(|domain| Redirects::of(&table, domain));
    let is = is.unwrap_or_default();
    let present = [
        &is.base_url_redirect,
        &is.regular404_redirect,
        &is.invalid_short_url_redirect,
    ];
    for (field, present) in REDIRECTS.into_iter().zip(present) {
        let wanted = fields.nullable(field, values::string);
        if wanted.is_some_and(|wanted| wanted != *present) {
            fields.refuse(field, "is changed by /api/v1/domains");
        }
    }
    fields.finish()?;
    domain.map_err(|_| Failure::domain_not_found(&name))?;
    Ok(Json(json!(is)))
}
