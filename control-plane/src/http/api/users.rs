//! `/users`: users of the tenant.

use super::accounts::{self, ResourceId, created};
use super::body::JsonObject;
use super::fields::{Fields, Reason};
use super::schema;
use super::{page, values};
use crate::clock;
use crate::config::Secret;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::service::passwords::NewPassword;
use crate::store::{UserPatch, UserRow};
use crate::tenancy::Role;
use crate::timestamp;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// A user as the API shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = User)]
struct UserView {
    id: u64,
    name: String,
    role: &'static str,
    disabled: bool,
    /// Whether it has a password for the console, which no answer has.
    has_password: bool,
    /// Whether it has logged in to the console by a provider of OpenID Connect, where it is one person from then on.
    has_identity: bool,
    /// Whether the next login by the provider under its name becomes this user.
    awaits_identity: bool,
    /// Until when; null if it does not.
    awaits_identity_until: Option<String>,
    created_at: String,
    updated_at: String,
}

impl UserView {
    fn new(row: UserRow) -> Self {
        let now = clock::unix_millis();
        let awaited = row.awaits_identity_until.filter(|until| *until > now);
        Self {
            id: row.id,
            name: row.name,
            role: row.role.word(),
            disabled: row.disabled,
            has_password: row.has_password,
            has_identity: row.has_identity,
            awaits_identity: awaited.is_some(),
            awaits_identity_until: awaited.map(timestamp::from_millis),
            created_at: timestamp::from_millis(row.created_at),
            updated_at: timestamp::from_millis(row.updated_at),
        }
    }
}

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
    request_body = schema::NewUser,
    responses(
        (
            status = 201, description = "The user",
            body = UserView,
            headers(("Location" = String, description = "The resource")),
        ),
    )
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let mut fields = Fields::new(object);
    let name = fields.required("name", accounts::name);
    let role = fields.optional("role", accounts::role);
    let role = role.unwrap_or(Role::Editor);
    let password = fields.optional("password", accounts::password);
    fields.finish()?;
    // A missing name was refused above.
    let name = name.ok_or_else(|| Problem::new(Kind::Validation))?;
    let password = match password {
        Some(password) => Some(hashed(&app, &caller, &password).await?),
        None => None,
    };
    let actor = caller.actor();
    let made = app
        .store
        .insert_user(&name, role, password.as_ref(), &actor);
    let row = made.await??;
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, after) = page::parameters(query.as_deref())?;
    let list = app
        .store
        .list_users(caller.tenant_id(), after.unwrap_or(0), limit + 1);
    let mut users = list.await?;
    let next_cursor = page::cut(&mut users, limit).map(|user| page::place(user.id));
    let users = users.into_iter().map(UserView::new).collect();
    Ok(Json(UsersView { users, next_cursor }).into_response())
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let id = accounts::id(&id)?;
    let row = app.store.find_user(caller.tenant_id(), id).await?;
    let row = row.ok_or_else(|| Problem::new(Kind::NotFound))?;
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
    request_body = schema::UserPatch,
    responses((status = 200, description = "The user as it is now", body = UserView))
)]
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let id = accounts::id(&id)?;
    let mut fields = Fields::new(object);
    let mut patch = UserPatch {
        name: accounts::change(&mut fields, "name", accounts::name),
        role: accounts::change(&mut fields, "role", accounts::role),
        disabled: accounts::change(&mut fields, "disabled", values::flag),
        password: None,
        forgets_identity: accounts::change(&mut fields, "hasIdentity", forgotten).is_some(),
        awaits_identity: accounts::change(&mut fields, "awaitsIdentity", values::flag),
    };
    let password = fields.change("password", accounts::password);
    fields.finish()?;
    patch.password = match password {
        Some(Some(password)) => Some(Some(hashed(&app, &caller, &password).await?)),
        Some(None) => Some(None),
        None => None,
    };
    let row = app.store.change_user(id, &patch, &caller.actor()).await??;
    app.keys.forget_all();
    Ok(Json(UserView::new(row)).into_response())
}

/// That it is forgotten who a user is at the provider.
fn forgotten(value: &Value) -> Result<(), Reason> {
    match value {
        Value::Bool(false) => Ok(()),
        _ => Err("must be false: a login makes it true".into()),
    }
}

/// The hash of a password that is to be kept.
async fn hashed(app: &App, caller: &Caller, password: &NewPassword) -> Result<Secret, Problem> {
    app.passwords.hash(password, caller.claim()).await?;
    Ok(Secret::new(password.hash()))
}
