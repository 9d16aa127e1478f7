//! Reads the body of a request: a JSON object within bounds.

use crate::app::App;
use crate::arriving::Arriving;
use crate::auth::{Caller, check_again};
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use edgelink_service::problem::{Kind, Problem};
use http::{HeaderMap, header};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A body that is a JSON object with a JSON content type.
pub(crate) struct JsonObject(pub(crate) Map<String, Value>);

impl FromRequest<Arc<App>> for JsonObject {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        parse(&json(request, app).await?)
    }
}

/// A body that is a JSON object, or an empty list, as which PHP writes an object without members.
pub(crate) struct PhpObject(pub(crate) Map<String, Value>);

impl FromRequest<Arc<App>> for PhpObject {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let bytes = json(request, app).await?;
        match bytes.trim_ascii() {
            b"[]" => Ok(Self(Map::new())),
            bytes => parse(bytes).map(|JsonObject(object)| Self(object)),
        }
    }
}

/// The whole body of a request whose content type is JSON.
async fn json(request: Request, app: &App) -> Result<Bytes, Problem> {
    if !is_json(request.headers()) {
        return Err(Problem::new(Kind::UnsupportedMediaType)
            .with_detail("send the body with 'Content-Type: application/json'"));
    }
    let server = &app.config.server;
    let (parts, body) = request.into_parts();
    let bounds = (server.max_body_bytes, server.body_timeout_ms);
    let arriving = Arriving::new(&parts.extensions, body, bounds);
    let (bytes, arrived) = arriving.whole().await?;
    if arrived.was_waited_for()
        && let Some(caller) = parts.extensions.get::<Caller>()
    {
        check_again(&app.keys, &parts.headers, caller).await?;
    }
    Ok(bytes)
}

/// True if the type is `application/json`, or based on it, such as `application/merge-patch+json` (RFC 6839, section 3.1).
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let essence = value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match essence.strip_prefix("application/") {
        Some(subtype) => subtype == "json" || subtype.ends_with("+json"),
        None => false,
    }
}

fn parse(bytes: &[u8]) -> Result<JsonObject, Problem> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(JsonObject(object)),
        Ok(_) => Err(Problem::new(Kind::InvalidBody).with_detail("the body must be a JSON object")),
        Err(error) => Err(Problem::new(Kind::InvalidBody).with_detail(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn content_type_when_based_on_json_is_accepted() {
        for (content_type, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/merge-patch+json", true),
            ("application/json ;x=y", true),
            ("text/json", false),
            ("application/jsonx", false),
            ("application/x-www-form-urlencoded", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            assert_eq!(is_json(&headers), expected, "{content_type:?}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
