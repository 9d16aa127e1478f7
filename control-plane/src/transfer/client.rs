//! A client of the API that retries.

use bytes::Bytes;
use edgelink_wire::backoff::Bounds;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Body as _;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::time::Duration;

/// How often a request is sent at most while the API does not answer: about two minutes with the pauses.
const MAX_ATTEMPTS: u32 = 10;
const BACKOFF: Bounds = Bounds {
    first_millis: 250,
    cap_millis: 20_000,
};

/// How long one request may take, and a second more for each [`BODY_RATE`] bytes of its body.
const TIMEOUT: Duration = Duration::from_secs(60);
const BODY_RATE: u64 = 65_536;

/// A client of the API.
#[derive(Clone, Debug)]
pub struct ApiClient {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    key: String,
}

/// Why a request has failed after all retries.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The system's certificates cannot be read.
    #[error("the certificates that this system trusts cannot be read: {0}")]
    Certificates(#[source] std::io::Error),
    /// URL or key cannot be sent.
    #[error("the URL or the key of the API is not valid: {0}")]
    Invalid(#[source] http::Error),
    /// The API has refused the request.
    #[error("the API refuses the request: {0}")]
    Refused(String),
    /// The API did not answer, or answered only that it is unavailable.
    #[error("the API was away for too long: {0}")]
    Away(String),
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

/// Why one attempt has failed: for good, or worth a retry.
enum AttemptError {
    Refused(String),
    Away(String),
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
}

impl ApiClient {
    /// A client of the API at `base` (`http://host:port`) with this key.
    ///
    /// # Errors
    /// [`ClientError::Certificates`].
    pub fn new(base: &str, key: impl Into<String>) -> Result<Self, ClientError> {
        let provider = rustls::crypto::ring::default_provider();
        let https = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(ClientError::Certificates)?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            http: Client::builder(TokioExecutor::new()).build(https),
            base: base.trim_end_matches('/').to_owned(),
            key: key.into(),
        })
    }

    /// Creates links, with retries while the API or its database is unavailable. `request` is the `Idempotency-Key`.
    pub(super) async fn create(
        &self,
        items: &[Map<String, Value>],
        request: &str,
    ) -> Result<Vec<ItemResult>, ClientError> {
        let body = Bytes::from(serde_json::to_vec(items).unwrap_or_default());
        let url = format!("{}/api/v1/links/bulk", self.base);
        let post = Request::post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", request)
            .header("x-api-key", &self.key)
            .body(Full::new(body))
            .map_err(ClientError::Invalid)?;
        self.with_retries(async || {
            let answer: BulkAnswer = self.send(post.clone()).await?;
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
        })
        .await
    }

    /// A page of the list of links.
    pub(super) async fn list(
        &self,
        domain: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Page, ClientError> {
        let query = url::form_urlencoded::Serializer::new("limit=100".to_owned())
            .extend_pairs(domain.map(|domain| ("domain", domain)))
            .extend_pairs(cursor.map(|cursor| ("cursor", cursor)))
            .finish();
        let get = Request::get(format!("{}/api/v1/links?{query}", self.base))
            .header("x-api-key", &self.key)
            .body(Full::default())
            .map_err(ClientError::Invalid)?;
        self.with_retries(async || self.send(get.clone()).await)
            .await
    }

    async fn with_retries<T>(
        &self,
        attempt: impl AsyncFn() -> Result<T, AttemptError>,
    ) -> Result<T, ClientError> {
        let mut failures = 0;
        loop {
            match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(AttemptError::Refused(reason)) => return Err(ClientError::Refused(reason)),
                Err(AttemptError::Away(reason)) => {
                    failures += 1;
                    if failures == MAX_ATTEMPTS {
                        return Err(ClientError::Away(reason));
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(BACKOFF.longest_millis(failures))).await;
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<T, AttemptError> {
        let limit = TIMEOUT + Duration::from_secs(request.body().size_hint().lower() / BODY_RATE);
        let exchange = async {
            let answer = self.http.request(request).await;
            let (head, body) = answer.map_err(|error| away(&error))?.into_parts();
            let body = body.collect().await.map_err(|error| away(&error))?;
            Ok((head.status, body.to_bytes()))
        };
        let (status, body) = tokio::time::timeout(limit, exchange)
            .await
            .unwrap_or_else(|_| Err(AttemptError::Away("no answer in time".to_owned())))?;
        if !status.is_success() {
            return Err(refusal(status, &body));
        }
        serde_json::from_slice(&body)
            .map_err(|error| AttemptError::Refused(format!("the answer cannot be read: {error}")))
    }
}

/// A transient failure, with all causes, which the client library's message leaves out.
fn away(error: &dyn std::error::Error) -> AttemptError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    AttemptError::Away(text)
}

fn refusal(status: StatusCode, body: &[u8]) -> AttemptError {
    let problem: Option<ApiProblem> = serde_json::from_slice(body).ok();
    let reason = match problem {
        Some(problem) => format!("{status}: {}", problem.to_line()),
        None => status.to_string(),
    };
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => AttemptError::Away(reason),
        status if status.is_server_error() => AttemptError::Away(reason),
        _ => AttemptError::Refused(reason),
    }
}
