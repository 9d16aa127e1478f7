//! Requests that are retried while the server is unavailable.

use bytes::Bytes;
use edgelink_settings::https::{self, HttpsClient};
use edgelink_wire::backoff::Bounds;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The most attempts of a request without an answer: about two minutes with the pauses.
const MAX_ATTEMPTS: u32 = 10;
const BACKOFF: Bounds = Bounds {
    first_millis: 250,
    cap_millis: 20_000,
};

/// Timeout of a request, extended by a second for each [`BODY_RATE`] bytes of its body.
const TIMEOUT: Duration = Duration::from_secs(60);
const BODY_RATE: u64 = 65_536;

/// The longest answer in bytes.
const MAX_ANSWER_BYTES: usize = 128 << 20;

/// An HTTPS client; see [`with_retries`].
#[derive(Clone, Debug)]
pub(super) struct Http(HttpsClient);

/// Failure of a request after all retries.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The system's certificates cannot be read.
    #[error("failed to read the system's trusted certificates: {0}")]
    Certificates(#[source] std::io::Error),
    /// URL or key cannot be sent.
    #[error("invalid URL or key of the API: {0}")]
    Invalid(#[source] http::Error),
    /// The API has refused the request.
    #[error("the API refused the request: {0}")]
    Refused(String),
    /// The API did not answer, or answered only that it is unavailable.
    #[error("the API is unavailable; gave up retrying: {0}")]
    Away(String),
}

/// Failure of one attempt.
pub enum AttemptError {
    /// For good.
    Refused(String),
    /// Worth a retry.
    Away(String),
}

impl AttemptError {
    /// Failure by an answer with this status and reason.
    pub fn of_status(status: StatusCode, reason: Option<String>) -> Self {
        let reason = match reason {
            Some(reason) => format!("{status}: {reason}"),
            None => status.to_string(),
        };
        match status {
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Self::Away(reason),
            status if status.is_server_error() => Self::Away(reason),
            _ => Self::Refused(reason),
        }
    }
}

/// Makes attempts until one succeeds or is refused, at most [`MAX_ATTEMPTS`].
pub(super) async fn with_retries<T>(
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

impl Http {
    /// A client that trusts the certificates of the system.
    pub(super) fn new() -> Result<Self, ClientError> {
        Ok(Self(https::client().map_err(ClientError::Certificates)?))
    }

    /// Sends a request once, and reads the JSON of the answer. `reason` reads the error from the body of an unsuccessful answer.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
        reason: fn(&[u8]) -> Option<String>,
    ) -> Result<T, AttemptError> {
        let limit = TIMEOUT + Duration::from_secs(request.body().size_hint().lower() / BODY_RATE);
        let exchange = async {
            let answer = self.0.request(request).await;
            let (head, body) = answer.map_err(|error| away(&error))?.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| away(&*error))?;
            Ok((head.status, body.to_bytes()))
        };
        let (status, body) = tokio::time::timeout(limit, exchange)
            .await
            .unwrap_or_else(|_| Err(AttemptError::Away("no answer in time".to_owned())))?;
        read(status, &body, reason)
    }
}

/// Reads the JSON of an answer.
fn read<T: DeserializeOwned>(
    status: StatusCode,
    body: &[u8],
    reason: fn(&[u8]) -> Option<String>,
) -> Result<T, AttemptError> {
    if !status.is_success() {
        return Err(AttemptError::of_status(status, reason(body)));
    }
    serde_json::from_slice(body)
        .map_err(|error| AttemptError::Refused(format!("the answer cannot be read: {error}")))
}

/// A transient failure.
fn away(error: &dyn std::error::Error) -> AttemptError {
    AttemptError::Away(https::with_causes(error))
}
