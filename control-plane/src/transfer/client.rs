//! The client of our own API.

use super::http::{AttemptError, ClientError, Http, read};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A client of the API.
#[derive(Clone)]
pub struct ApiClient {
    way: Way,
    base: String,
    key: String,
}

/// Answers a request to the API in this process: status and body.
pub(crate) type Here =
    Arc<dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, (StatusCode, Bytes)> + Send + Sync>;

/// How requests come to the API.
#[derive(Clone)]
enum Way {
    Remote(Box<Http>),
    Here(Here),
}

/// The result of an item of a bulk request.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ItemResult {
    pub(super) status: u16,
    pub(super) error: Option<ApiProblem>,
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

#[derive(Deserialize)]
struct BulkAnswer {
    results: Vec<ItemResult>,
}

/// A page of the list of links.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    pub(super) links: Vec<Value>,
    pub(super) next_cursor: Option<String>,
}

/// What becomes of items that are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are created, under this `Idempotency-Key`.
    Create(String),
    /// Nothing is created.
    DryRun,
}

impl ApiProblem {
    /// The problem in one line.
    pub(super) fn to_line(&self) -> String {
        let errors = self.errors.iter();
        let fields: Vec<String> = errors
            .map(|error| format!("{} {}", error.field, error.reason))
            .collect();
        match (&self.detail, fields.is_empty()) {
            (_, false) => fields.join("; "),
            (Some(detail), true) => format!("{}: {detail}", self.title),
            (None, true) => self.title.clone(),
        }
    }

    /// The problem in the body of an answer.
    fn reason(body: &[u8]) -> Option<String> {
        let problem: Self = serde_json::from_slice(body).ok()?;
        Some(problem.to_line())
    }
}

impl ApiClient {
    /// A client of the API at `base` (`http://host:port`) with this key.
    ///
    /// # Errors
    /// [`ClientError::Certificates`].
    pub fn new(base: &str, key: impl Into<String>) -> Result<Self, ClientError> {
        Ok(Self {
            way: Way::Remote(Box::new(Http::new()?)),
            base: base.trim_end_matches('/').to_owned(),
            key: key.into(),
        })
    }

    /// A client of the API of this process, which knows who asks.
    pub(crate) fn here(answer: Here) -> Self {
        Self {
            way: Way::Here(answer),
            base: String::new(),
            key: String::new(),
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<T, AttemptError> {
        match &self.way {
            Way::Remote(http) => http.send(request, ApiProblem::reason).await,
            Way::Here(answer) => {
                let (status, body) = answer(request).await;
                read(status, &body, ApiProblem::reason)
            }
        }
    }

    /// Imports links, with retries while the API or its database is unavailable.
    pub(super) async fn import(
        &self,
        items: &[Map<String, Value>],
        mode: &Mode,
    ) -> Result<Vec<ItemResult>, ClientError> {
        let body = Bytes::from(serde_json::to_vec(items).unwrap_or_default());
        let post = match mode {
            Mode::Create(id) => {
                let url = format!("{}/api/v1/import", self.base);
                Request::post(url).header("idempotency-key", id)
            }
            Mode::DryRun => Request::post(format!("{}/api/v1/import?dryRun=true", self.base)),
        };
        let post = post
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-api-key", &self.key)
            .body(Full::new(body))
            .map_err(ClientError::Invalid)?;
        let attempt = async || {
            let sent = self.send(post.clone());
            let answer: BulkAnswer = sent.await?;
            match answer.results.iter().find(|result| result.status >= 500) {
                Some(result) => {
                    let problem = result.error.as_ref().map(ApiProblem::to_line);
                    Err(AttemptError::Away(problem.unwrap_or_default()))
                }
                None if answer.results.len() == items.len() => Ok(answer.results),
                None => Err(AttemptError::Refused(
                    "an answer for every item is missing".to_owned(),
                )),
            }
        };
        Http::with_retries(attempt).await
    }

    /// A page of the list of links.
    pub(super) async fn list(
        &self,
        domain: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Page, ClientError> {
        let query = url::form_urlencoded::Serializer::new("limit=100&withRules=true".to_owned())
            .extend_pairs(domain.map(|domain| ("domain", domain)))
            .extend_pairs(cursor.map(|cursor| ("cursor", cursor)))
            .finish();
        let get = Request::get(format!("{}/api/v1/links?{query}", self.base))
            .header("x-api-key", &self.key)
            .body(Full::default())
            .map_err(ClientError::Invalid)?;
        let attempt = async || self.send(get.clone()).await;
        Http::with_retries(attempt).await
    }
}
