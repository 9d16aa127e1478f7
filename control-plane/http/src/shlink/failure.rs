//! Problems as Shlink's clients know them: their types, titles, status codes and other members.

use super::super::auth::sends_key;
use super::VERSIONS;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use edgelink_clicks::analytics::EngineError;
use edgelink_service::problem::{Kind, Problem};
use http::{StatusCode, Uri, header};
use serde_json::{Map, Value, json};

/// Prefix of the types of Shlink's problems, from version 3 on.
const TYPE: &str = "https://shlink.io/api/error/";

/// The types of problems in versions 1 and 2, by the last part of today's.
const OLDER_TYPES: [(&str, &str); 11] = [
    ("invalid-data", "INVALID_ARGUMENT"),
    ("invalid-api-key", "INVALID_API_KEY"),
    ("missing-authentication", "INVALID_AUTHORIZATION"),
    ("forbidden-tag-operation", "FORBIDDEN_OPERATION"),
    ("not-found", "NOT_FOUND"),
    ("short-url-not-found", "INVALID_SHORTCODE"),
    ("tag-not-found", "TAG_NOT_FOUND"),
    ("domain-not-found", "DOMAIN_NOT_FOUND"),
    ("non-unique-slug", "INVALID_SLUG"),
    ("tag-conflict", "TAG_CONFLICT"),
    ("mercure-not-configured", "MERCURE_NOT_CONFIGURED"),
];

/// The type of a problem in the version that a path belongs to.
fn type_of(name: &str, path: &str) -> String {
    let older = OLDER_TYPES.iter().find(|(today, _)| *today == name);
    match older.filter(|_| !path.starts_with("/rest/v3/")) {
        Some((_, older)) => (*older).to_owned(),
        None => format!("{TYPE}{name}"),
    }
}

/// The form in which a problem is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) status: StatusCode,
    /// The last part of its type.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
}

/// The failure of a request.
pub(super) struct Failure {
    problem: Problem,
    details: Details,
}

/// Members of Shlink's problem that ours does not have.
#[derive(Clone, Default)]
struct Details {
    shown: Option<Shown>,
    members: Map<String, Value>,
}

impl Failure {
    /// A failure that the admin API does not have.
    pub(super) fn shown(shown: Shown) -> Self {
        let details = Details {
            shown: Some(shown),
            ..Details::default()
        };
        Self {
            problem: Problem::new(Kind::NotFound).with_detail(shown.title),
            details,
        }
    }

    /// The failure of a request that names an unknown domain.
    pub(super) fn domain_not_found(authority: &str) -> Self {
        let shown = Shown {
            status: StatusCode::NOT_FOUND,
            name: "domain-not-found",
            title: "Domain not found",
        };
        Self::shown(shown).with("authority", authority)
    }

    /// Adds a member.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.members.insert(name.to_owned(), value.into());
        self
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let details = Details::default();
        Self { problem, details }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.problem.into_response();
        response.extensions_mut().insert(self.details);
        response
    }
}

/// Shows problems, of handlers and of the layers around them, as Shlink does.
pub async fn translate(request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let has_key = sends_key(request.headers());
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    let details = response.extensions_mut().remove::<Details>();
    let details = details.unwrap_or_default();
    let shown = details.shown.or_else(|| shown(&problem, &uri, has_key));
    let Some(shown) = shown else {
        return response;
    };
    let Ok(Value::Object(mut document)) = serde_json::to_value(problem.answer()) else {
        return response;
    };
    let detail = match problem.kind() {
        Kind::Validation => json!("Provided data is not valid"),
        _ => document.remove("detail").unwrap_or(json!(shown.title)),
    };
    if problem.kind() == Kind::LinkNotFound {
        document.extend(link_of(&uri));
    }
    document.extend(details.members);
    document.insert("type".to_owned(), json!(type_of(shown.name, uri.path())));
    document.insert("title".to_owned(), json!(shown.title));
    document.insert("status".to_owned(), json!(shown.status.as_u16()));
    document.insert("detail".to_owned(), detail);
    *response.status_mut() = shown.status;
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(Value::Object(document).to_string());
    response
}

/// The form in which Shlink shows a problem; `None` if it has no equivalent, and the problem is shown as it is.
fn shown(problem: &Problem, uri: &Uri, has_key: bool) -> Option<Shown> {
    let (status, name, title) = match problem.kind() {
        Kind::Validation => (400, "invalid-data", "Invalid data"),
        Kind::InvalidBody | Kind::UnsupportedMediaType => {
            (400, "malformed-request-body", "Malformed request body")
        }
        Kind::Unauthorized if has_key => (401, "invalid-api-key", "Invalid API key"),
        Kind::Unauthorized => (401, "missing-authentication", "Invalid authorization"),
        Kind::Forbidden if below(uri).starts_with("tags") => {
            (403, "forbidden-tag-operation", "Forbidden tag operation")
        }
        Kind::NotFound => (404, "not-found", "Not found"),
        Kind::LinkNotFound => (404, "short-url-not-found", "Short URL not found"),
        Kind::TagNotFound => (404, "tag-not-found", "Tag not found"),
        Kind::SlugTaken => (400, "non-unique-slug", "Invalid custom slug"),
        Kind::TagTaken => (409, "tag-conflict", "Tag conflict"),
        _ => return None,
    };
    Some(Shown {
        status: StatusCode::from_u16(status).ok()?,
        name,
        title,
    })
}

/// The path below the base path of its version.
fn below(uri: &Uri) -> &str {
    let mut versions = VERSIONS.iter();
    let below = versions.find_map(|base| uri.path().strip_prefix(base)?.strip_prefix('/'));
    below.unwrap_or_default()
}

/// Code and domain of the link that a request names.
fn link_of(uri: &Uri) -> Map<String, Value> {
    let mut members = Map::new();
    let code = below(uri).split('/').nth(1).unwrap_or_default();
    members.insert("shortCode".to_owned(), json!(code));
    let query = uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    if let Some((_, domain)) = pairs.find(|(name, _)| name == "domain") {
        members.insert("domain".to_owned(), json!(domain));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_when_shown_is_named_by_kind_path_and_key() {
        let name = |kind, path: &'static str, has_key| {
            let shown = shown(&Problem::new(kind), &Uri::from_static(path), has_key);
            shown.map(|shown| (shown.status.as_u16(), shown.name))
        };
        for (kind, path, has_key, expected) in [
            (
                Kind::Unauthorized,
                "/rest/v3/tags",
                true,
                Some((401, "invalid-api-key")),
            ),
            (
                Kind::Unauthorized,
                "/rest/v3/tags",
                false,
                Some((401, "missing-authentication")),
            ),
            (
                Kind::Forbidden,
                "/rest/v3/tags",
                true,
                Some((403, "forbidden-tag-operation")),
            ),
            (Kind::Forbidden, "/rest/v3/domains", true, None),
            (Kind::RateLimited, "/rest/v3/tags", true, None),
        ] {
            assert_eq!(name(kind, path, has_key), expected, "{kind:?} {path}");
        }
    }

    #[test]
    fn problem_when_of_an_older_version_has_its_type() {
        let types = ["/rest/v1/tags", "/rest/v2/tags", "/rest/v3/tags"];
        let types = types.map(|path| type_of("tag-conflict", path));
        let today = "https://shlink.io/api/error/tag-conflict";
        assert_eq!(types, ["TAG_CONFLICT", "TAG_CONFLICT", today]);
    }

    #[test]
    fn link_when_not_found_is_named_in_the_problem() {
        let uri = Uri::from_static("/rest/v3/short-urls/a-b/visits?page=1&domain=x.example%3A80");
        let link = Value::Object(link_of(&uri));
        assert_eq!(
            link,
            json!({ "shortCode": "a-b", "domain": "x.example:80" })
        );
        let uri = Uri::from_static("/rest/v3/short-urls/a");
        let link = Value::Object(link_of(&uri));
        assert_eq!(link, json!({ "shortCode": "a" }));
    }
}
