//! The OpenAPI document of the admin API, and a page that shows it.
//!
//! Handlers declare their part beside their code; everything that follows from it, such as the problems, is added here. `make
//! reference` writes `openapi.json`, and a test compares it.

use super::api;
use axum::response::{Html, IntoResponse, Response};
use edgelink_service::problem::{self, Kind, MEDIA_TYPE};
use http::{HeaderValue, header};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Content, Ref, RefOr, ResponseBuilder};

const PAGE: &str = include_str!("openapi/page.html");

/// Content security policy of the page: it may load the document, and nothing else from outside.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
);

static TEXT: LazyLock<String> = LazyLock::new(|| document().to_pretty_json().unwrap_or_default());

/// `GET /openapi.json`.
pub async fn json() -> Response {
    let media_type = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, media_type)], TEXT.as_str()).into_response()
}

/// `GET /api/docs`: a page that shows the document, without resources of other hosts.
pub async fn page() -> Response {
    ([(header::CONTENT_SECURITY_POLICY, PAGE_POLICY)], Html(PAGE)).into_response()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "edgelink",
        description = "Short links: their creation, changes and listing, and the accounts that may do so."
    ),
    components(schemas(problem::Document<'static>)),
    security(("key" = []), ("bearer" = [])),
    tags(
        (name = "links", description = "Links"),
        (name = "analytics", description = "Clicks"),
        (name = "domains", description = "Domains of short links"),
        (name = "accounts", description = "Keys, users and tenants, and who has changed what"),
        (name = "webhooks", description = "Where events are sent"),
        (name = "reports", description = "Abuse that visitors have reported"),
        (name = "operation", description = "The installation"),
    ),
)]
struct DocumentFrame;

/// The document: the declarations of the routes, and everything that follows from them.
fn document() -> utoipa::openapi::OpenApi {
    let mut document = DocumentFrame::openapi();
    document.merge(api::document());
    let components = document.components.get_or_insert_default();
    let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-Api-Key")));
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("key", key);
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    for (path, mut item) in std::mem::take(&mut document.paths.paths) {
        for operation in operations(&mut item) {
            add_problems(operation, &path, components);
            add_preference(operation);
        }
        document.paths.paths.insert(format!("/api/v1{path}"), item);
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let methods = [
        &mut item.get,
        &mut item.post,
        &mut item.put,
        &mut item.patch,
        &mut item.delete,
    ];
    methods.into_iter().flatten()
}

/// Adds the header by which clients do not wait for edges, to an operation that does.
fn add_preference(operation: &mut Operation) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    if AWAITED.contains(&id) {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let prefer = ParameterBuilder::new()
            .name("Prefer")
            .parameter_in(ParameterIn::Header)
            .description(Some(PREFERENCE))
            .schema(Some(text));
        operation
            .parameters
            .get_or_insert_default()
            .push(prefer.build().into());
    }
}

const PREFERENCE: &str = "`respond-async` (RFC 7240): the answer does not wait until every edge has the change, and says \
    `Preference-Applied: respond-async` if there was something to wait for. It has the same status and body.";

/// Operations whose answers wait until every edge has the change.
const AWAITED: &[&str] = &[
    "createLink",
    "putLink",
    "createLinks",
    "importLinks",
    "changeLink",
    "changeLinks",
    "deleteLink",
    "deleteLinks",
    "moveLink",
    "restoreLink",
    "setRules",
    "changeReport",
    "createDomain",
    "changeDomain",
    "verifyDomain",
    "deleteDomain",
];

/// Adds the problems of an operation, each status with its kinds.
fn add_problems(operation: &mut Operation, path: &str, components: &mut Components) {
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in kinds(operation, path) {
        by_status.entry(kind.reference().0).or_default().push(kind);
    }
    for (status, kinds) in by_status {
        let references = kinds.iter().map(|kind| kind.reference());
        let name = references.clone().map(|(_, name, _)| name);
        let name = name.collect::<Vec<_>>().join(".");
        let cause = references.map(|(_, name, cause)| format!("`{name}`: {cause}"));
        let response = ResponseBuilder::new()
            .description(cause.collect::<Vec<_>>().join("\n\n"))
            .content(
                MEDIA_TYPE,
                Content::new(Some(Ref::from_schema_name("Problem"))),
            );
        let reference = RefOr::Ref(Ref::from_response_name(&name));
        components.responses.insert(name, response.build().into());
        let responses = &mut operation.responses.responses;
        responses.insert(status.to_string(), reference);
    }
}

/// The problems that an operation may answer: its own ones, and the ones that follow from its declaration.
fn kinds(operation: &Operation, path: &str) -> Vec<Kind> {
    let parameters = operation.parameters.iter().flatten();
    let parameters = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    });
    let has = |name: &str| parameters.clone().any(|parameter| parameter.name == name);
    let has_body = operation.request_body.is_some();
    let cases: &[(bool, &[Kind])] = &[
        (
            true,
            &[
                Kind::Unauthorized,
                Kind::Forbidden,
                Kind::Validation,
                Kind::RateLimited,
                Kind::Internal,
                Kind::StoreUnavailable,
                Kind::Overloaded,
                Kind::RequestTimeout,
            ],
        ),
        (path.contains("{code}"), &[Kind::LinkNotFound]),
        (path.contains("{tag}"), &[Kind::TagNotFound]),
        (path.contains("{id}"), &[Kind::NotFound]),
        (path.contains("/domains/{name}"), &[Kind::DomainNotFound]),
        (
            has_body,
            &[
                Kind::InvalidBody,
                Kind::BodyTimeout,
                Kind::BodyTooLarge,
                Kind::UnsupportedMediaType,
            ],
        ),
        (
            has("Idempotency-Key"),
            &[Kind::InvalidIdempotencyKey, Kind::IdempotencyKeyReused],
        ),
        (has("If-Match"), &[Kind::PreconditionFailed]),
    ];
    let of_case = |(applies, kinds): &(bool, &'static [Kind])| if *applies { *kinds } else { &[] };
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let of_its_own = OF_THEIR_OWN.iter().filter(|(ids, _)| ids.contains(&id));
    let of_its_own = of_its_own.flat_map(|(_, kinds)| *kinds);
    cases
        .iter()
        .flat_map(of_case)
        .chain(of_its_own)
        .copied()
        .collect()
}

/// Problems of certain operations.
const OF_THEIR_OWN: &[(&[&str], &[Kind])] = &[
    (
        &["createLink", "putLink", "createLinks", "importLinks"],
        &[
            Kind::QuotaExhausted,
            Kind::CodesExhausted,
            Kind::CodesTaken,
            Kind::IssuerUnavailable,
        ],
    ),
    (&["createLink", "putLink", "moveLink"], &[Kind::SlugTaken]),
    (
        &["createLink", "putLink", "changeLink", "restoreLink"],
        &[Kind::ExternalIdTaken],
    ),
    (&["moveLink"], &[Kind::QuotaExhausted]),
    (&["restoreLink"], &[Kind::NotDeleted, Kind::LinkPurged]),
    (&["renameTag"], &[Kind::TagTaken]),
    (&["createWebhook"], &[Kind::TooManyWebhooks]),
    (
        &["createDomain"],
        &[Kind::DomainTaken, Kind::TooManyDomains],
    ),
    (
        &[
            "getAnalytics",
            "getOrphans",
            "listClicks",
            "deleteClicks",
            "listOrphans",
            "deleteOrphans",
        ],
        &[Kind::AnalyticsUnavailable],
    ),
    (
        &["getOrphans", "listClicks", "listOrphans"],
        &[Kind::ClicksNotKept],
    ),
    (
        &["trackConversion"],
        &[Kind::ClickNotFound, Kind::TooManyConversions],
    ),
    (&["getAnalytics", "streamEvents"], &[Kind::LinkNotFound]),
    (&["verifyDomain"], &[Kind::VerificationFailed]),
    (&["deleteDomain"], &[Kind::DomainInUse]),
    (
        &["createUser", "changeUser", "createTenant"],
        &[Kind::NameTaken],
    ),
    (&["changeUser"], &[Kind::NotAwaitable]),
    (
        &["changeUser", "changeKey", "revokeKey", "rotateKey"],
        &[Kind::LastAdmin],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::permission::RULES;
    use edgelink_model::reference;
    use std::collections::BTreeSet;

    #[test]
    fn api_reference_when_generated_equals_the_file() {
        reference::assert_file("openapi.json", &format!("{}\n", *TEXT));
    }

    /// Path, method and id of all operations.
    fn documented() -> Vec<(String, String, String)> {
        let document: serde_json::Value = serde_json::from_str(&TEXT).unwrap();
        let mut found = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                found.push((path.clone(), method.to_uppercase(), id.to_owned()));
            }
        }
        found
    }

    /// The document is built from the routes, so this holds for the router as well: a route without a rule answers no request.
    /// Shlink's API has its own document.
    #[test]
    fn route_when_served_has_a_rule_and_is_documented() {
        let routes = RULES
            .iter()
            .filter(|rule| !rule.path.starts_with("/rest/"))
            .map(|rule| (format!("/api/v1{}", rule.path), rule.method.to_string()));
        let documented = documented()
            .into_iter()
            .map(|(path, method, _)| (path, method));
        assert_eq!(
            documented.collect::<BTreeSet<_>>(),
            routes.collect::<BTreeSet<_>>()
        );
    }

    #[test]
    fn operation_when_documented_has_a_unique_id() {
        let documented = documented();
        let ids: BTreeSet<&str> = documented.iter().map(|(.., id)| id.as_str()).collect();
        assert_eq!(ids.len(), documented.len());
        let listed = OF_THEIR_OWN.iter().flat_map(|(ids, _)| *ids);
        for id in listed.chain(AWAITED) {
            assert!(ids.contains(id), "{id}");
        }
    }
}
