//! `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header): the header of a request that is safe to retry.

use crate::auth::sent_key;
use edgelink_service::caller::Caller;
pub(super) use edgelink_service::idempotency::{RequestId, Route, invalid};
use edgelink_service::problem::Problem;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header of a request.
const KEY: &str = "idempotency-key";

/// The header of an answer that repeats an earlier one.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
pub(super) const TRUE: HeaderValue = HeaderValue::from_static("true");

/// Reads the header; `None` if there is none.
pub(super) fn read(
    headers: &HeaderMap,
    caller: &Caller,
    route: Route,
) -> Result<Option<RequestId>, Problem> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let (Ok(key), None) = (value.to_str(), values.next()) else {
        return Err(invalid());
    };
    let api_key = sent_key(headers).unwrap_or_default();
    RequestId::new(key, caller, route, api_key.as_ref()).map(Some)
}
