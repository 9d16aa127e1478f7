//! The client of our own API.

use super::http::{AttemptError, ClientError, Http, with_retries};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A destination of imports: the API of a control plane, or the use cases of this process.
pub trait Destination {
    /// Imports links, in one attempt. There is a result for each, in their order.
    fn import(
        &self,
        items: &[Map<String, Value>],
        mode: &ImportMode,
    ) -> impl Future<Output = Result<Vec<ItemResult>, AttemptError>>;
}

/// A client of the API.
#[derive(Clone)]
pub struct ApiClient {
    http: Http,
    base: String,
    key: String,
}

/// The result of an item of an import.
#[derive(Clone, Debug)]
pub struct ItemResult {
    /// A status code of HTTP.
    pub status: u16,
    /// Problem of an item that was refused, in one line.
    pub problem: Option<String>,
}

/// A problem, RFC 9457.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ApiProblem {
    title: String,
    detail: Option<String>,
    #[serde(default)]
    errors: Vec<ApiFieldError>,
}

#[derive(Clone, Debug, Deserialize)]
struct ApiFieldError {
    field: String,
    reason: String,
}

/// An item of [`BulkAnswer`].
#[derive(Deserialize)]
struct ApiItem {
    status: u16,
    error: Option<ApiProblem>,
}

#[derive(Deserialize)]
struct BulkAnswer {
    results: Vec<ApiItem>,
}

/// A page of the list of links.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListingPage {
    pub(super) links: Vec<Value>,
    pub(super) next_cursor: Option<String>,
}

/// Effect of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportMode {
    /// Links are created, under this `Idempotency-Key`.
    Create(String),
    /// Nothing is created.
    DryRun,
}

/// A problem in one line: its fields, or else its detail.
pub fn problem_line<'a>(
    title: &str,
    detail: Option<&str>,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let fields: Vec<String> = fields
        .map(|(field, reason)| format!("{field} {reason}"))
        .collect();
    match detail {
        _ if !fields.is_empty() => fields.join("; "),
        Some(detail) => format!("{title}: {detail}"),
        None => title.to_owned(),
    }
}

impl ApiProblem {
    fn to_line(&self) -> String {
        let errors = self.errors.iter();
        let fields = errors.map(|error| (error.field.as_str(), error.reason.as_str()));
        problem_line(&self.title, self.detail.as_deref(), fields)
    }

    /// Reads the problem in the body of an answer.
    fn reason(body: &[u8]) -> Option<String> {
        let problem: Self = serde_json::from_slice(body).ok()?;
        Some(problem.to_line())
    }
}

impl ApiClient {
    /// Creates a client of the API at `base` (`http://host:port`) with this key.
    ///
    /// # Errors
    /// [`ClientError::Certificates`].
    pub fn new(base: &str, key: impl Into<String>) -> Result<Self, ClientError> {
        Ok(Self {
            http: Http::new()?,
            base: base.trim_end_matches('/').to_owned(),
            key: key.into(),
        })
    }

    /// Reads a page of the list of links.
    pub(super) async fn list(
        &self,
        domain: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<ListingPage, ClientError> {
        let query = url::form_urlencoded::Serializer::new("limit=100&withRules=true".to_owned())
            .extend_pairs(domain.map(|domain| ("domain", domain)))
            .extend_pairs(cursor.map(|cursor| ("cursor", cursor)))
            .finish();
        let get = Request::get(format!("{}/api/v1/links?{query}", self.base))
            .header("x-api-key", &self.key)
            .body(Full::default())
            .map_err(ClientError::Invalid)?;
        with_retries(async || self.http.send(get.clone(), ApiProblem::reason).await).await
    }
}

impl Destination for ApiClient {
    async fn import(
        &self,
        items: &[Map<String, Value>],
        mode: &ImportMode,
    ) -> Result<Vec<ItemResult>, AttemptError> {
        let body = Bytes::from(serde_json::to_vec(items).unwrap_or_default());
        let post = match mode {
            ImportMode::Create(id) => {
                let url = format!("{}/api/v1/import", self.base);
                Request::post(url).header("idempotency-key", id)
            }
            ImportMode::DryRun => Request::post(format!("{}/api/v1/import?dryRun=true", self.base)),
        };
        let post = post
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-api-key", &self.key)
            .body(Full::new(body))
            .map_err(|error| AttemptError::Refused(ClientError::Invalid(error).to_string()))?;
        let answer: BulkAnswer = self.http.send(post, ApiProblem::reason).await?;
        let results = answer.results.into_iter().map(|item| ItemResult {
            status: item.status,
            problem: item.error.as_ref().map(ApiProblem::to_line),
        });
        Ok(results.collect())
    }
}
