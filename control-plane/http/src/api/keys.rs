//! `/keys`: API keys of the tenant.

use super::accounts::{ResourceId, created};
use super::body::JsonObject;
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
pub(super) use edgelink_service::accounts::keys::{self, KeyPatch, KeyView, NewKey, Rotation};
use edgelink_service::problem::Problem;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = KeyPage)]
struct KeysView {
    keys: Vec<KeyView>,
    next_cursor: Option<String>,
}

/// Creates a key.
#[utoipa::path(
    post,
    path = "/keys",
    operation_id = "createKey",
    tag = "accounts",
    request_body = NewKey,
    responses(
        (
            status = 201, description = "The key, with its secret, which is shown this once",
            body = KeyView,
            headers(("Location" = String, description = "The resource")),
        ),
    )
)]
pub(crate) async fn create(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let request = NewKey::read(object, &app.links.of_tenant(&caller))?;
    let (row, key) = app.accounts.create_key(&caller, request).await?;
    let location = format!("/api/v1/keys/{}", row.id);
    Ok(created(&KeyView::with_secret(row, &key), &location))
}

/// Lists the keys of the tenant.
#[utoipa::path(
    get,
    path = "/keys",
    operation_id = "listKeys",
    tag = "accounts",
    params(schema::KeysPage),
    responses((status = 200, description = "A page of keys", body = KeysView))
)]
pub(crate) async fn list(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, after) = keys::list_of(query.as_deref())?;
    let page = app.accounts.list_keys(&caller, limit, after).await?;
    let view = KeysView {
        keys: page.items.into_iter().map(KeyView::new).collect(),
        next_cursor: page.next,
    };
    Ok(Json(view).into_response())
}

/// Gets a key.
#[utoipa::path(
    get,
    path = "/keys/{id}",
    operation_id = "getKey",
    tag = "accounts",
    params(("id" = String, Path, description = "The id of the key")),
    responses((status = 200, description = "The key", body = KeyView))
)]
pub(crate) async fn get(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let row = app.accounts.key(&caller, &id).await?;
    Ok(Json(KeyView::new(row)).into_response())
}

/// Changes a key.
///
/// A JSON merge patch (RFC 7396).
#[utoipa::path(
    patch,
    path = "/keys/{id}",
    operation_id = "changeKey",
    tag = "accounts",
    params(("id" = String, Path, description = "The id of the key")),
    request_body = KeyPatch,
    responses((status = 200, description = "The key as it is now", body = KeyView))
)]
pub(crate) async fn patch(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let detail = Value::Object(object.clone());
    let patch = KeyPatch::read(object, &app.links.of_tenant(&caller))?;
    let changed = app.accounts.change_key(&caller, &id, patch, detail);
    Ok(Json(KeyView::new(changed.await?)).into_response())
}

/// Revokes a key.
#[utoipa::path(
    delete,
    path = "/keys/{id}",
    operation_id = "revokeKey",
    tag = "accounts",
    params(("id" = String, Path, description = "The id of the key")),
    responses((status = 204, description = "The key is revoked"))
)]
pub(crate) async fn delete(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    app.accounts.revoke_key(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Replaces the secret of a key.
#[utoipa::path(
    post,
    path = "/keys/{id}/rotate",
    operation_id = "rotateKey",
    tag = "accounts",
    params(("id" = String, Path, description = "The id of the key")),
    request_body = Rotation,
    responses((status = 200, description = "The key, with its new secret, which is shown this once", body = KeyView))
)]
pub(crate) async fn rotate(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let rotation = Rotation::read(object)?;
    let (row, key) = app.accounts.rotate_key(&caller, &id, rotation).await?;
    Ok(Json(KeyView::with_secret(row, &key)).into_response())
}
