//! What the resources of an account share: values of fields, and how the store's refusals are answered.

use super::fields::{Fields, Reason};
use crate::problem::{FieldError, Kind, Problem};
use crate::service::passwords::NewPassword;
use crate::store::AccountError;
use crate::tenancy::{AccountName, Role};
use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// How long the password of a user may be, in bytes.
const PASSWORD_LENGTHS: RangeInclusive<usize> = 8..=255;

/// The longest overlap of a rotation in seconds: a week.
const MAX_OVERLAP_SECONDS: u64 = 7 * 24 * 60 * 60;

/// The greatest number that every reader of JSON reads as it was written: 2^53 - 1.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The name of a tenant, user or key.
pub(super) fn name(value: &Value) -> Result<AccountName, Reason> {
    let name = AccountName::parse(value.as_str().unwrap_or_default());
    name.map_err(|error| error.to_string().into())
}

/// The password of a user.
pub(crate) fn password(value: &Value) -> Result<NewPassword, Reason> {
    let is_password = |text: &&str| PASSWORD_LENGTHS.contains(&text.len());
    let password = value.as_str().filter(is_password).map(NewPassword::new);
    password.ok_or(Reason::Borrowed("must be 8 to 255 bytes"))
}

pub(super) fn role(value: &Value) -> Result<Role, Reason> {
    let role = value.as_str().and_then(Role::of_word);
    role.ok_or(Reason::Borrowed("must be admin, editor, reader or creator"))
}

pub(super) fn number(value: &Value) -> Result<u64, Reason> {
    let number = value.as_u64().filter(|number| *number <= MAX_NUMBER);
    number.ok_or(Reason::Borrowed(
        "must be a whole number of 0 to 9007199254740991",
    ))
}

/// How long a secret works beside the one that replaces it, in seconds: the body of a rotation.
pub(super) fn overlap(object: Map<String, Value>) -> Result<u64, Problem> {
    let parse = |value: &Value| {
        let seconds = value.as_u64();
        let seconds = seconds.filter(|seconds| *seconds <= MAX_OVERLAP_SECONDS);
        seconds.ok_or(Reason::Borrowed(
            "must be a whole number of seconds, 0 to 604800",
        ))
    };
    let mut fields = Fields::new(object);
    let overlap = fields.optional("overlapSeconds", parse);
    fields.finish().map(|()| overlap.unwrap_or(0))
}

/// A filter of a query: any text.
pub(super) fn filter(value: &Value) -> Result<String, Reason> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or(Reason::Borrowed("must be a string"))
}

/// A field of a merge patch that has no default to go back to.
pub(super) fn change<T>(
    fields: &mut Fields,
    field: &'static str,
    parse: impl FnOnce(&Value) -> Result<T, Reason>,
) -> Option<T> {
    let change = fields.change(field, parse);
    if matches!(change, Some(None)) {
        fields.refuse(field, "must not be null");
    }
    change.flatten()
}

/// The id that a path names.
pub(crate) struct ResourceId(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for ResourceId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // Bytes that are no text are the id of nothing.
        let id = Path::<String>::from_request_parts(parts, state).await;
        id.map(|Path(id)| Self(id))
            .map_err(|_| Problem::new(Kind::NotFound))
    }
}

/// The number of a resource in a path; a text that is no number names none.
pub(super) fn id(text: &str) -> Result<u64, Problem> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|_| is_number);
    id.filter(|id| i64::try_from(*id).is_ok())
        .ok_or_else(|| Problem::new(Kind::NotFound))
}

/// 500, because there is no source of randomness.
pub(super) fn no_random(error: impl std::error::Error) -> Problem {
    tracing::error!(%error, "no secret can be made: the request is refused with 500");
    Problem::new(Kind::Internal)
}

/// 201 with a resource and its address.
pub(super) fn created(resource: &impl Serialize, location: &str) -> Response {
    let mut response = (StatusCode::CREATED, Json(resource)).into_response();
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
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
