//! Errors as HTTP: `application/problem+json` (RFC 9457). This is the one place where an error becomes a status code.

use axum::Json;
use axum::response::{IntoResponse, Response};
use edgelink_clicks::IngestError;
use edgelink_clicks::analytics::EngineError;
use edgelink_feed::FeedError;
use edgelink_feed::snapshot::SnapshotError;
use edgelink_settings::admission::Refusal;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_store::{
    AccountError, ChangeError, DomainError, MAX_COUNTED_LINKS, StoreError, WebhookError,
};
use edgelink_wire::rules::RuleError;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;

/// Value of `Retry-After` in a 503, in seconds.
pub const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Prefix of the `type` of each problem.
const TYPE: &str = "urn:edgelink:problem:";

tokio::task_local! {
    /// The id of the current request, which its problem repeats.
    pub static CURRENT_REQUEST_ID: HeaderValue;
}

/// Declares the kinds of problems. This is the one place of a kind: the reference in the book is generated from it
/// (`make reference`).
macro_rules! kinds {
    ($($(#[doc = $cause:literal])+ $kind:ident: $status:ident $name:literal, $title:literal;)+) => {
        /// The kind of a problem. Names and status codes are part of the API and stay.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[doc = $cause])+ $kind,)+
        }

        impl Kind {
            /// All kinds, in the order of the reference.
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$kind),+];

            /// Status code, last part of the `type` URI, title.
            fn describe(self) -> (StatusCode, &'static str, &'static str) {
                match self {
                    $(Self::$kind => (StatusCode::$status, $name, $title),)+
                }
            }

            /// Status code, last part of the `type` URI, and when it is answered.
            pub fn reference(self) -> (u16, &'static str, &'static str) {
                let (status, name, _) = self.describe();
                let cause = match self {
                    $(Self::$kind => concat!($($cause),+),)+
                };
                (status.as_u16(), name, cause.trim_start())
            }
        }
    };
}

kinds! {
    /// no JSON object, or a body that ended early
    InvalidBody: BAD_REQUEST "invalid-body", "The body is not a JSON object";
    /// empty, too long, given twice, or with other characters
    InvalidIdempotencyKey: BAD_REQUEST "invalid-idempotency-key", "The idempotency key is not valid";
    /// edge API: the path names no link
    InvalidKey: BAD_REQUEST "invalid-key", "The path names no link";
    /// edge API: the body is not one of click batches
    InvalidBatches: BAD_REQUEST "invalid-batches", "The body is not one of batches of clicks";
    /// edge API: the body is no request for visits
    InvalidVisits: BAD_REQUEST "invalid-visits", "The body is no request for visits";
    /// no key, or none that is known, or one that is revoked, has expired, or is a disabled user's
    Unauthorized: UNAUTHORIZED "unauthorized", "A valid key is needed";
    /// the key has created as many links as it may
    QuotaExhausted: PAYMENT_REQUIRED "quota-exhausted", "The key may create no more links";
    /// the role of the key's user, or the key's bounds, do not allow it
    Forbidden: FORBIDDEN "forbidden", "The key may not do this";
    /// no such path, key, user or webhook
    NotFound: NOT_FOUND "not-found", "There is nothing here";
    /// no such link
    LinkNotFound: NOT_FOUND "link-not-found", "There is no such link";
    /// no click has that id, or it is not known yet: that takes up to 5 s
    ClickNotFound: NOT_FOUND "click-not-found", "There is no such click";
    /// no link has the tag
    TagNotFound: NOT_FOUND "tag-not-found", "No link has the tag";
    /// no such domain
    DomainNotFound: NOT_FOUND "domain-not-found", "There is no such domain";
    /// `Allow` lists the right ones
    MethodNotAllowed: METHOD_NOT_ALLOWED "method-not-allowed", "The method is not allowed here";
    /// the body took longer than `server.body_timeout_ms`
    BodyTimeout: REQUEST_TIMEOUT "body-timeout", "The body took too long";
    /// edge API: a later request of the worker for visits of the link was answered
    StaleVisits: CONFLICT "stale-visits", "A later request was answered";
    /// another link has the alias
    SlugTaken: CONFLICT "slug-taken", "The slug is taken";
    /// other links have the new name of the tag
    TagTaken: CONFLICT "tag-taken", "The tag is taken";
    /// another tenant or user has the name
    NameTaken: CONFLICT "name-taken", "The name is taken";
    /// the configuration or a tenant has the domain, or links from before have it
    DomainTaken: CONFLICT "domain-taken", "The domain is taken";
    /// the domain is configured, or has links
    DomainInUse: CONFLICT "domain-in-use", "The domain cannot be removed";
    /// the DNS does not answer, or does not have the TXT record
    VerificationFailed: CONFLICT "verification-failed", "The domain could not be verified";
    /// the installation has 1,000 domains, or the tenant as many as it may have, or as many that are not verified
    TooManyDomains: CONFLICT "too-many-domains", "There are too many domains";
    /// the tenant would have no admin any more
    LastAdmin: CONFLICT "last-admin", "The tenant would have no admin";
    /// the user is the first of its tenant, or has logged in by the provider already
    NotAwaitable: CONFLICT "not-awaitable", "No login of the user can be awaited";
    /// the click has led to 100 conversions
    TooManyConversions: CONFLICT "too-many-conversions", "There are too many conversions of the click";
    /// the tenant has 20 webhooks
    TooManyWebhooks: CONFLICT "too-many-webhooks", "There are too many webhooks";
    /// another link has the external id, or the link that has it is elsewhere
    ExternalIdTaken: CONFLICT "external-id-taken", "Another link has the external id";
    /// the link that is to be restored is not deleted
    NotDeleted: CONFLICT "not-deleted", "The link is not deleted";
    /// the content of the deleted link was removed
    LinkPurged: GONE "link-purged", "The content of the link is gone";
    /// `If-Match` names another revision
    PreconditionFailed: PRECONDITION_FAILED "precondition-failed", "The link has changed meanwhile";
    /// too many bytes or items
    BodyTooLarge: PAYLOAD_TOO_LARGE "body-too-large", "The body is too large";
    /// the body is not sent as JSON
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE "unsupported-media-type", "The body must be JSON";
    /// fields are wrong, unknown or missing; all of them are listed
    Validation: UNPROCESSABLE_ENTITY "validation", "Fields are not valid";
    /// the key came with another body
    IdempotencyKeyReused: UNPROCESSABLE_ENTITY "idempotency-key-reused", "The idempotency key was used for another request";
    /// a rate limit is exceeded (`[limits]`); `Retry-After` says when there is room again
    RateLimited: TOO_MANY_REQUESTS "rate-limited", "Too many requests came";
    /// a defect, or a database error that will not go away by itself; the log says which
    Internal: INTERNAL_SERVER_ERROR "internal", "Something went wrong here";
    /// single clicks are not kept (`analytics.raw_days` is 0)
    ClicksNotKept: NOT_IMPLEMENTED "clicks-not-kept", "Single clicks are not kept here";
    /// ClickHouse does not answer
    AnalyticsUnavailable: SERVICE_UNAVAILABLE "analytics-unavailable", "Clicks cannot be read at the moment";
    /// the database does not answer; the change may have happened nevertheless
    StoreUnavailable: SERVICE_UNAVAILABLE "store-unavailable", "The database does not answer";
    /// a bound is reached, which the detail names: requests, bodies on their way, bulk requests, answers, passwords, polls, key lookups,
    /// links that wait for their commit, calls that wait for a row or a connection of the database. From the edge API also: the feed is
    /// not current, or not all keys are known yet
    Overloaded: SERVICE_UNAVAILABLE "overloaded", "Too many requests are being worked on";
    /// longer than `server.request_timeout_ms`; it may have happened nevertheless
    RequestTimeout: SERVICE_UNAVAILABLE "request-timeout", "The request took too long";
    /// no numbers of this length are left
    CodesExhausted: SERVICE_UNAVAILABLE "codes-exhausted", "All codes of this length are in use";
    /// no free code was found
    CodesTaken: SERVICE_UNAVAILABLE "codes-taken", "No free code was found";
    /// the source of numbers does not answer
    IssuerUnavailable: SERVICE_UNAVAILABLE "issuer-unavailable", "The source of numbers does not answer";
    /// the process is stopping
    Stopping: SERVICE_UNAVAILABLE "stopping", "This instance is stopping";
}

/// Most fields that a problem names.
const MAX_ERRORS: usize = 32;

/// Longest field name in a problem, in bytes, because clients may send any name. Longer ones are truncated.
const MAX_FIELD_BYTES: usize = 256;

/// An error as the client sees it, without anything internal.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: Kind,
    detail: Option<Cow<'static, str>>,
    errors: Vec<FieldError>,
}

/// A field of the request and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// The field in the API's spelling.
    pub field: Cow<'static, str>,
    /// What is wrong with it.
    pub reason: Cow<'static, str>,
}

impl From<FeedError> for Problem {
    fn from(error: FeedError) -> Self {
        tracing::debug!(%error, "a poll is refused");
        Self::new(Kind::Overloaded).with_detail(error.to_string())
    }
}

impl From<Arc<SnapshotError>> for Problem {
    fn from(error: Arc<SnapshotError>) -> Self {
        match &*error {
            SnapshotError::NotReady => {
                Self::new(Kind::Overloaded).with_detail("not all keys are known yet")
            }
            SnapshotError::Feed(error) => Self::from(*error),
            SnapshotError::Store(error) => Self::store(error),
        }
    }
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Undecodable(_) | IngestError::Malformed => {
                Self::new(Kind::InvalidBatches).with_detail(error.to_string())
            }
            IngestError::Full => Self::new(Kind::Overloaded).with_detail(error.to_string()),
            IngestError::Store(error) => Self::store(&error),
        }
    }
}

impl From<RuleError> for FieldError {
    fn from(error: RuleError) -> Self {
        Self::new(error.path, error.reason)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(Kind::Overloaded).with_detail(refusal.to_string())
    }
}

impl Problem {
    /// Creates a problem without detail and without invalid fields.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            detail: None,
            errors: Vec::new(),
        }
    }

    /// Kind of the problem, which sets its status, name and title.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Describes the problem in a sentence.
    pub fn text(&self) -> &str {
        let (_, _, title) = self.kind.describe();
        self.detail.as_deref().unwrap_or(title)
    }

    /// The invalid fields.
    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.kind.describe().0
    }

    /// True if the request may have taken effect nevertheless.
    pub fn is_possibly_done(&self) -> bool {
        matches!(
            self.kind,
            Kind::Internal | Kind::StoreUnavailable | Kind::RequestTimeout
        )
    }

    /// The problem as JSON.
    pub fn document(&self) -> Document<'_> {
        let (status, name, title) = self.kind.describe();
        Document {
            r#type: format!("{TYPE}{name}"),
            title,
            status: status.as_u16(),
            detail: self.detail.as_deref(),
            errors: &self.errors,
            invalid_elements: self.errors.iter().map(|error| &*error.field).collect(),
            request_id: None,
        }
    }

    /// Sets the sentence that describes this occurrence.
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the invalid fields, of which the first [`MAX_ERRORS`] are named.
    pub fn with_errors(mut self, mut errors: Vec<FieldError>) -> Self {
        let more = errors.len().saturating_sub(MAX_ERRORS);
        if more > 0 {
            errors.truncate(MAX_ERRORS);
            errors.shrink_to_fit();
            self.detail =
                Some(format!("{MAX_ERRORS} errors are listed, and there are {more} more").into());
        }
        self.errors = errors;
        self
    }

    /// Adds another invalid field.
    pub fn and_error(mut self, error: FieldError) -> Self {
        let mut errors = std::mem::take(&mut self.errors);
        errors.push(error);
        self.with_errors(errors)
    }

    /// The problem as JSON in the response to the current request, with its id.
    pub fn answer(&self) -> Document<'_> {
        let id = CURRENT_REQUEST_ID.try_with(|id| id.to_str().unwrap_or_default().to_owned());
        Document {
            request_id: id.ok(),
            ..self.document()
        }
    }

    /// The problem of a link whose external id another link has.
    pub(crate) fn external_id_taken() -> Self {
        let error = FieldError::new("externalId", "is that of another link");
        Self::new(Kind::ExternalIdTaken).with_errors(vec![error])
    }

    /// The problem of a request with invalid fields.
    pub fn validation(errors: Vec<FieldError>) -> Self {
        Self::new(Kind::Validation).with_errors(errors)
    }

    /// The problem of a request with one invalid field.
    pub fn of_field(
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::validation(vec![FieldError::new(field, reason)])
    }

    /// The problem of a failed database. It is logged here, throttled, because every request is affected.
    pub fn store(error: &StoreError) -> Self {
        static UNAVAILABLE: LogThrottle = LogThrottle::new();
        static FAILED: LogThrottle = LogThrottle::new();
        static CROWDED: LogThrottle = LogThrottle::new();
        let cause = error as &dyn std::error::Error;
        if let Some(limit) = error.limit() {
            if let Some(left_out) = CROWDED.admit(Instant::now()) {
                tracing::warn!(
                    error = cause,
                    left_out,
                    "too many database calls are waiting: the request is refused with 503"
                );
            }
            Self::new(Kind::Overloaded).with_detail(limit.to_string())
        } else if error.is_transient() {
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
pub async fn nothing_here() -> Problem {
    Problem::new(Kind::NotFound)
}

/// Answers for a method that a path does not have. The router adds `Allow`.
pub async fn method_not_allowed() -> Problem {
    Problem::new(Kind::MethodNotAllowed)
}

impl From<Arc<StoreError>> for Problem {
    fn from(error: Arc<StoreError>) -> Self {
        Self::store(&error)
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        static UNAVAILABLE: LogThrottle = LogThrottle::new();
        match error {
            EngineError::Store(error) => Self::store(&error),
            EngineError::Unsupported(detail) => Self::new(Kind::ClicksNotKept).with_detail(detail),
            EngineError::ClickHouse(error) => {
                if let Some(left_out) = UNAVAILABLE.admit(Instant::now()) {
                    tracing::warn!(
                        error,
                        left_out,
                        "ClickHouse does not answer: the request is refused with 503"
                    );
                }
                Self::new(Kind::AnalyticsUnavailable)
            }
        }
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Hidden => Self::new(Kind::LinkNotFound),
            ChangeError::Changed => Self::new(Kind::PreconditionFailed),
            ChangeError::ExternalIdTaken => Self::external_id_taken(),
            ChangeError::NotDeleted => Self::new(Kind::NotDeleted),
            ChangeError::Purged => Self::new(Kind::LinkPurged),
            ChangeError::Later => {
                let detail = "the link has properties of a later version: only a control plane of that one changes it";
                Self::new(Kind::Internal).with_detail(detail)
            }
            ChangeError::Invalid { field, reason } => Self::of_field(field, reason),
        }
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        let field = |field, reason: &'static str| vec![FieldError::new(field, reason)];
        match error {
            AccountError::NotFound => Self::new(Kind::NotFound),
            AccountError::NoSuchUser => {
                Self::validation(field("userId", "is no enabled user of the tenant"))
            }
            AccountError::NameTaken => {
                Self::new(Kind::NameTaken).with_errors(field("name", "is taken"))
            }
            AccountError::FirstUser => Self::new(Kind::NotAwaitable).with_errors(field(
                "awaitsIdentity",
                "must not be true of the first user of a tenant, who logs in by key or password alone",
            )),
            AccountError::HasIdentity => Self::new(Kind::NotAwaitable).with_errors(field(
                "awaitsIdentity",
                "must not be true of a user who has an identity, unless hasIdentity is false",
            )),
            AccountError::LastAdmin => Self::new(Kind::LastAdmin).with_detail(
                "a tenant keeps an admin key that is bound to nothing and does not expire, and user 1 stays an admin",
            ),
        }
    }
}

impl From<DomainError> for Problem {
    fn from(error: DomainError) -> Self {
        match error {
            DomainError::NotFound => Self::new(Kind::DomainNotFound),
            DomainError::Taken => {
                let error = FieldError::new("name", "is taken");
                Self::new(Kind::DomainTaken).with_errors(vec![error])
            }
            DomainError::TooMany => Self::new(Kind::TooManyDomains),
            DomainError::TooManyOfTenant(domains) => {
                let detail = format!("the tenant has {domains} domains, and may have no more");
                Self::new(Kind::TooManyDomains).with_detail(detail)
            }
            DomainError::TooManyUnverified(domains) => {
                let detail = format!(
                    "{domains} domains of the tenant are not verified, and no more may be: verify or remove them first"
                );
                Self::new(Kind::TooManyDomains).with_detail(detail)
            }
            DomainError::HasLinks(links) => {
                let more = if links >= MAX_COUNTED_LINKS {
                    " or more"
                } else {
                    ""
                };
                let detail = format!("the domain has {links}{more} links");
                Self::new(Kind::DomainInUse).with_detail(detail)
            }
        }
    }
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::NotFound => Self::new(Kind::NotFound),
            WebhookError::TooMany => Self::new(Kind::TooManyWebhooks),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::store(&error)
    }
}

impl FieldError {
    /// Creates the error of a field. A name of more than 256 bytes is truncated.
    pub fn new(field: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        let mut field = field.into();
        if field.len() > MAX_FIELD_BYTES {
            let beginning = &field[..field.floor_char_boundary(MAX_FIELD_BYTES)];
            field = format!("{beginning}...").into();
        }
        Self {
            field,
            reason: reason.into(),
        }
    }
}

/// A problem as JSON.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct Document<'a> {
    r#type: String,
    pub title: &'static str,
    pub status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    /// The fields of `errors`, under the name that Shlink's clients look for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    invalid_elements: Vec<&'a str>,
    /// The answer's `x-request-id`; `None` in an item of a bulk answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, ..) = self.kind.describe();
        let mut response = (status, Json(self.answer())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
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
        // For layers that render it in the format of another API.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_model::reference;
    use std::collections::HashSet;

    #[test]
    fn problem_reference_when_generated_equals_the_book() {
        let mut table = "| status | name | when |\n|---|---|---|\n".to_owned();
        for kind in Kind::ALL {
            let (status, name, cause) = kind.reference();
            table += &format!("| {status} | `{name}` | {cause} |\n");
        }
        reference::assert_generated("problems", &table);
    }

    #[test]
    fn problem_name_when_listed_is_of_one_kind() {
        let names: HashSet<&str> = Kind::ALL.iter().map(|kind| kind.describe().1).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }

    #[test]
    fn problem_when_its_fields_are_many_counts_the_rest() {
        let error = |number: usize| FieldError::new(format!("f{number}"), "is not known");
        let problem = Problem::validation((0..6_500).map(error).collect());
        assert_eq!(problem.errors().len(), MAX_ERRORS);
        assert!(
            problem.text().ends_with("and there are 6468 more"),
            "{}",
            problem.text()
        );
        let last = Problem::validation((0..MAX_ERRORS).map(error).collect());
        assert_eq!(
            (last.errors().len(), last.detail.as_deref()),
            (MAX_ERRORS, None)
        );
        let more = last.and_error(error(MAX_ERRORS));
        assert!(more.text().ends_with("there are 1 more"), "{}", more.text());
        let long = FieldError::new("ä".repeat(10_000), "is not known");
        assert!(long.field.len() <= MAX_FIELD_BYTES + 3);
    }

    #[tokio::test]
    async fn problem_when_answered_names_its_request_and_fields() {
        let errors = ["longUrl", "title"].map(|field| FieldError::new(field, "is wrong"));
        let problem = Problem::validation(errors.to_vec());
        let answer = async { problem.into_response() };
        let id = HeaderValue::from_static("r-1");
        let response = CURRENT_REQUEST_ID.scope(id, answer).await;
        let body = http_body_util::BodyExt::collect(response.into_body()).await;
        let body: serde_json::Value = serde_json::from_slice(&body.unwrap().to_bytes()).unwrap();
        assert_eq!(body["requestId"], "r-1");
        assert_eq!(
            body["invalidElements"],
            serde_json::json!(["longUrl", "title"])
        );
    }
}
