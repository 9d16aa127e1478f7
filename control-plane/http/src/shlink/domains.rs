//! `/domains`.

use super::failure::Failure;
use crate::api::body::JsonObject;
use crate::app::ApiCall;
use axum::Json;
use axum::response::{IntoResponse, Response};
use edgelink_service::domains::{DomainService, DomainView};
use edgelink_service::fields::{Fields, Reason};
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::values;
use edgelink_settings::domains::DomainTable;
use edgelink_wire::Domain;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Targets of visitors who follow no link.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Redirects {
    base_url_redirect: Option<String>,
    regular404_redirect: Option<String>,
    invalid_short_url_redirect: Option<String>,
}

impl Redirects {
    fn new(root: Option<String>, not_found: Option<String>) -> Self {
        Self {
            base_url_redirect: root,
            regular404_redirect: not_found.clone(),
            invalid_short_url_redirect: not_found,
        }
    }

    fn of(table: &DomainTable, domain: &Domain) -> Self {
        let targets = table.targets(domain).map(|target| (*target).to_owned());
        Self::new(targets.root, targets.not_found)
    }
}

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

/// `PATCH /domains/redirects`: fields that are missing stay, null clears. What is not found is one target here, so that either
/// field changes it, and both at once must agree.
pub(super) async fn redirects(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Response, Failure> {
    let mut fields = Fields::new(object);
    let name = fields.required("domain", values::string);
    let mut redirect = |field| fields.nullable(field, redirect).map(Option::flatten);
    let root = redirect("baseUrlRedirect");
    let unused = redirect("regular404Redirect");
    let unknown = redirect("invalidShortUrlRedirect");
    let name = name.unwrap_or_default();
    let found = app.domain_service.find(&caller, &name).await;
    let seen = match found {
        Err(problem) if problem.kind() == Kind::DomainNotFound => {
            fields.finish()?;
            return Err(Failure::domain_not_found(&name));
        }
        found => found?,
    };
    let now = DomainView::of(&seen).not_found_url;
    let changed = |wanted: Option<Option<String>>| wanted.filter(|wanted| *wanted != now);
    let not_found = match (changed(unused), changed(unknown)) {
        (Some(one), Some(other)) if one != other => {
            fields.refuse(
                "regular404Redirect",
                "must be invalidShortUrlRedirect, which is one here",
            );
            None
        }
        (one, other) => one.or(other),
    };
    fields.finish()?;
    let mut change = Map::new();
    if let Some(root) = root {
        change.insert("rootUrl".to_owned(), root.into());
    }
    if let Some(not_found) = not_found {
        change.insert("notFoundUrl".to_owned(), not_found.into());
    }
    let links = app.links.of_tenant(&caller);
    let change = DomainService::read_change(&caller, &seen, change, &links).map_err(renamed)?;
    let changed = app.domain_service.change(&caller, &seen, change).await?;
    Ok(changed.answer(|seen| {
        let view = DomainView::of(&seen);
        Json(Redirects::new(view.root_url, view.not_found_url)).into_response()
    }))
}

/// A target; an empty text is none.
fn redirect(value: &Value) -> Result<Option<String>, Reason> {
    values::string(value).map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// A problem with the names that the fields have here.
fn renamed(problem: Problem) -> Problem {
    let errors = problem.errors().iter().cloned().map(|mut error| {
        error.field = match &*error.field {
            "rootUrl" => "baseUrlRedirect".into(),
            "notFoundUrl" => "invalidShortUrlRedirect".into(),
            _ => error.field,
        };
        error
    });
    match problem.kind() {
        Kind::Validation => Problem::validation(errors.collect()),
        _ => problem,
    }
}
