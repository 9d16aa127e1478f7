//! Errors as HTTP: `application/problem+json` (RFC 9457). This is the one place where an error becomes a status code.

use crate::store::StoreError;
use crate::telemetry::LogThrottle;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

/// How long clients are asked to wait after a 503, in seconds.
pub(crate) const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The kind of a problem. Names and status codes are part of the API and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    InvalidBatches,
    InvalidBody,
    InvalidKey,
    Unauthorized,
    #[expect(dead_code, reason = "quotas are not taken yet")]
    QuotaExhausted,
    Forbidden,
    NotFound,
    LinkNotFound,
    MethodNotAllowed,
    BodyTimeout,
    SlugTaken,
    NameTaken,
    LastAdmin,
    PreconditionFailed,
    InvalidIdempotencyKey,
    IdempotencyKeyReused,
    BodyTooLarge,
    UnsupportedMediaType,
    Validation,
    Internal,
    StoreUnavailable,
    Overloaded,
    RequestTimeout,
    CodesExhausted,
    IssuerUnavailable,
    CodesTaken,
    Stopping,
}

impl Kind {
    /// Status code, last part of the `type` URI, title.
    #[rustfmt::skip]
    fn describe(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Self::InvalidBatches => (S::BAD_REQUEST, "invalid-batches", "The body is not one of batches of clicks"),
            Self::InvalidBody => (S::BAD_REQUEST, "invalid-body", "The body is not a JSON object"),
            Self::InvalidKey => (S::BAD_REQUEST, "invalid-key", "The path names no link"),
            Self::Unauthorized => (S::UNAUTHORIZED, "unauthorized", "A valid key is needed"),
            Self::QuotaExhausted => (S::PAYMENT_REQUIRED, "quota-exhausted", "The key may create no more links"),
            Self::Forbidden => (S::FORBIDDEN, "forbidden", "The key may not do this"),
            Self::NotFound => (S::NOT_FOUND, "not-found", "There is nothing here"),
            Self::LinkNotFound => (S::NOT_FOUND, "link-not-found", "There is no such link"),
            Self::MethodNotAllowed => (S::METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not allowed here"),
            Self::BodyTimeout => (S::REQUEST_TIMEOUT, "body-timeout", "The body took too long"),
            Self::InvalidIdempotencyKey => (S::BAD_REQUEST, "invalid-idempotency-key", "The idempotency key is not valid"),
            Self::IdempotencyKeyReused => (S::UNPROCESSABLE_ENTITY, "idempotency-key-reused", "The idempotency key was used for another request"),
            Self::SlugTaken => (S::CONFLICT, "slug-taken", "The slug is taken"),
            Self::NameTaken => (S::CONFLICT, "name-taken", "The name is taken"),
            Self::LastAdmin => (S::CONFLICT, "last-admin", "The tenant would have no admin"),
            Self::PreconditionFailed => (S::PRECONDITION_FAILED, "precondition-failed", "The link has changed meanwhile"),
            Self::BodyTooLarge => (S::PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large"),
            Self::UnsupportedMediaType => (S::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body must be JSON"),
            Self::Validation => (S::UNPROCESSABLE_ENTITY, "validation", "Fields are not valid"),
            Self::Internal => (S::INTERNAL_SERVER_ERROR, "internal", "Something went wrong here"),
            Self::StoreUnavailable => (S::SERVICE_UNAVAILABLE, "store-unavailable", "The database does not answer"),
            Self::Overloaded => (S::SERVICE_UNAVAILABLE, "overloaded", "Too many requests are being worked on"),
            Self::RequestTimeout => (S::SERVICE_UNAVAILABLE, "request-timeout", "The request took too long"),
            Self::CodesExhausted => (S::SERVICE_UNAVAILABLE, "codes-exhausted", "All codes of this length are in use"),
            Self::IssuerUnavailable => (S::SERVICE_UNAVAILABLE, "issuer-unavailable", "The source of numbers does not answer"),
            Self::CodesTaken => (S::SERVICE_UNAVAILABLE, "codes-taken", "No free code was found"),
            Self::Stopping => (S::SERVICE_UNAVAILABLE, "stopping", "This instance is stopping"),
        }
    }
}

/// An error as the client sees it, without anything internal.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: Option<Cow<'static, str>>,
    errors: Vec<FieldError>,
}

/// A field of the request and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FieldError {
    /// The field in the API's spelling.
    pub(crate) field: Cow<'static, str>,
    /// What is wrong with it.
    pub(crate) reason: Cow<'static, str>,
}

impl Problem {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            detail: None,
            errors: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The problem as JSON.
    pub(crate) fn document(&self) -> Document<'_> {
        let (status, name, title) = self.kind.describe();
        Document {
            r#type: format!("urn:edgelink:problem:{name}"),
            title,
            status: status.as_u16(),
            detail: self.detail.as_deref(),
            errors: &self.errors,
        }
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.errors = errors;
        self
    }

    /// The problem of a request whose fields break rules.
    pub(crate) fn validation(errors: Vec<FieldError>) -> Self {
        Self::new(Kind::Validation).with_errors(errors)
    }

    /// The problem of a failed database. It is logged here, throttled, because each request meets it.
    pub(crate) fn store(error: &StoreError) -> Self {
        static UNAVAILABLE: LogThrottle = LogThrottle::new();
        static FAILED: LogThrottle = LogThrottle::new();
        let cause = error as &dyn std::error::Error;
        if error.is_transient() {
            if let Some(left_out) = UNAVAILABLE.admit(Instant::now()) {
                tracing::warn!(
                    error = cause,
                    left_out,
                    "the database does not answer: the request is refused with 503"
                );
            }
            Self::new(Kind::StoreUnavailable)
        } else {
            if let Some(left_out) = FAILED.admit(Instant::now()) {
                tracing::error!(
                    error = cause,
                    left_out,
                    "the database failed: the request is refused with 500"
                );
            }
            Self::new(Kind::Internal)
        }
    }
}

/// Answers for a path that does not exist.
pub(crate) async fn nothing_here() -> Problem {
    Problem::new(Kind::NotFound)
}

/// Answers for a method that a path does not have. The router adds `Allow`.
pub(crate) async fn method_not_allowed() -> Problem {
    Problem::new(Kind::MethodNotAllowed)
}

impl From<Arc<StoreError>> for Problem {
    fn from(error: Arc<StoreError>) -> Self {
        Self::store(&error)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::store(&error)
    }
}

impl FieldError {
    pub(crate) fn new(
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

/// A problem as JSON.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    r#type: String,
    title: &'static str,
    pub(crate) status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, ..) = self.kind.describe();
        let mut response = (status, Json(self.document())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
        match status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, RETRY_AFTER);
            }
            StatusCode::UNAUTHORIZED => {
                let challenge = HeaderValue::from_static("Bearer realm=\"edgelink\"");
                headers.insert(header::WWW_AUTHENTICATE, challenge);
            }
            _ => {}
        }
        response
    }
}
