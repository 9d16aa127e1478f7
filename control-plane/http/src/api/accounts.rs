//! Parts shared by all resources: ids in paths, and the answer to the creation of one.

use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::response::{IntoResponse, Response};
use edgelink_service::problem::{Kind, Problem};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

/// The id that a path names.
pub(crate) struct ResourceId(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for ResourceId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // Bytes that are not UTF-8 are no id.
        let id = Path::<String>::from_request_parts(parts, state).await;
        id.map(|Path(id)| Self(id))
            .map_err(|_| Problem::new(Kind::NotFound))
    }
}

/// 201 with a resource and its address.
pub(super) fn created(resource: &impl Serialize, location: &str) -> Response {
    let mut response = (StatusCode::CREATED, Json(resource)).into_response();
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
