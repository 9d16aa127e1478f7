//! `/users`: users of the tenant.

use super::accounts::{ResourceId, created};
use super::body::JsonObject;
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
pub(super) use edgelink_service::accounts::users::{NewUser, UserPatch, UserView};
use edgelink_service::page;
use edgelink_service::problem::Problem;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UserPage)]
struct UsersView {
    users: Vec<UserView>,
    next_cursor: Option<String>,
}

/// Creates a user of the tenant.
#[utoipa::path(
    post,
    path = "/users",
    operation_id = "createUser",
    tag = "accounts",
    request_body = NewUser,
    responses(
        (
            status = 201, description = "The user",
            body = UserView,
            headers(("Location" = String, description = "The resource")),
        ),
    )
)]
pub(crate) async fn create(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let row = app
        .accounts
        .create_user(&caller, NewUser::read(object)?)
        .await?;
    let location = format!("/api/v1/users/{}", row.id);
    Ok(created(&UserView::new(row), &location))
}

/// Lists the users of the tenant.
#[utoipa::path(
    get,
    path = "/users",
    operation_id = "listUsers",
    tag = "accounts",
    params(schema::Page),
    responses((status = 200, description = "A page of users", body = UsersView))
)]
pub(crate) async fn list(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, after) = page::parameters(query.as_deref())?;
    let page = app.accounts.list_users(&caller, limit, after).await?;
    let view = UsersView {
        users: page.items.into_iter().map(UserView::new).collect(),
        next_cursor: page.next,
    };
    Ok(Json(view).into_response())
}

/// Gets a user.
#[utoipa::path(
    get,
    path = "/users/{id}",
    operation_id = "getUser",
    tag = "accounts",
    params(("id" = u64, Path, description = "The number of the user")),
    responses((status = 200, description = "The user", body = UserView))
)]
pub(crate) async fn get(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let id = page::number(&id)?;
    let row = app.accounts.user(&caller, id).await?;
    Ok(Json(UserView::new(row)).into_response())
}

/// Changes a user.
///
/// A JSON merge patch (RFC 7396).
#[utoipa::path(
    patch,
    path = "/users/{id}",
    operation_id = "changeUser",
    tag = "accounts",
    params(("id" = u64, Path, description = "The number of the user")),
    request_body = UserPatch,
    responses((status = 200, description = "The user as it is now", body = UserView))
)]
pub(crate) async fn patch(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let id = page::number(&id)?;
    let patch = UserPatch::read(object)?;
    let row = app.accounts.change_user(&caller, id, patch).await?;
    Ok(Json(UserView::new(row)).into_response())
}
