//! `/keys`: API keys of the tenant.

use super::accounts::{self, ResourceId, created, no_random};
use super::body::JsonObject;
use super::fields::{Fields, Reason};
use super::schema;
use super::{cursor, page, values};
use crate::clock;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::auth::api_key::ApiKey;
use crate::http::tenant_links::TenantLinks;
use crate::problem::{Kind, Problem};
use crate::store::{ApiKeyRow, KeyQuery, PreviousSecret};
use crate::tenancy::{AccountName, Bounds, Role};
use crate::timestamp;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::Domain;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use utoipa::ToSchema;

/// The most domains that a key is bound to.
const MAX_DOMAINS: usize = 100;

/// A key as the API shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Key)]
pub(super) struct KeyView {
    id: String,
    /// The secret, in the answer that makes it only.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    name: String,
    user_id: u64,
    role: &'static str,
    domains: Vec<String>,
    tags: Vec<String>,
    expires_at: Option<String>,
    quota: Option<u64>,
    used: Option<u64>,
    created_at: String,
    last_used_at: Option<String>,
}

impl KeyView {
    fn new(row: ApiKeyRow) -> Self {
        let domains = row.bounds.domains.iter();
        Self {
            domains: domains.map(|domain| domain.as_str().to_owned()).collect(),
            id: row.id,
            key: None,
            name: row.name,
            user_id: row.user_id,
            role: row.role.word(),
            tags: row.bounds.tags,
            expires_at: row.expires_at.map(timestamp::from_millis),
            quota: row.quota,
            used: row.quota.map(|_| row.used),
            created_at: timestamp::from_millis(row.created_at),
            last_used_at: row.last_used_at.map(timestamp::from_millis),
        }
    }

    /// With the secret, which is shown this once.
    pub(super) fn with_secret(row: ApiKeyRow, key: &ApiKey) -> Self {
        Self {
            key: Some(key.expose().to_owned()),
            ..Self::new(row)
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = KeyPage)]
struct KeysView {
    keys: Vec<KeyView>,
    next_cursor: Option<String>,
}

pub(super) fn generate() -> Result<ApiKey, Problem> {
    ApiKey::generate().map_err(no_random)
}

/// Creates a key.
#[utoipa::path(
    post,
    path = "/keys",
    operation_id = "createKey",
    tag = "accounts",
    request_body = schema::NewKey,
    responses(
        (
            status = 201, description = "The key, with its secret, which is shown this once",
            body = KeyView,
            headers(("Location" = String, description = "The resource")),
        ),
    )
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let key = generate()?;
    let row = parse(object, &app.links(&caller), &caller, &key)?;
    app.store.insert_api_key(&row, &caller.actor()).await??;
    app.keys.add(&row.id);
    let location = format!("/api/v1/keys/{}", row.id);
    Ok(created(&KeyView::with_secret(row, &key), &location))
}

fn parse(
    object: Map<String, Value>,
    links: &TenantLinks<'_>,
    caller: &Caller,
    key: &ApiKey,
) -> Result<ApiKeyRow, Problem> {
    let mut fields = Fields::new(object);
    let name = fields.required("name", accounts::name);
    let name = name.as_ref().map_or("", AccountName::as_str);
    let now = clock::unix_millis();
    let row = ApiKeyRow {
        tenant_id: caller.tenant_id(),
        user_id: fields
            .optional("userId", accounts::number)
            .unwrap_or_else(|| caller.user_id()),
        role: fields
            .optional("role", accounts::role)
            .unwrap_or(Role::Editor),
        bounds: Bounds {
            domains: fields
                .optional("domains", |value| domains(value, links))
                .unwrap_or_default(),
            tags: fields.optional("tags", values::tags).unwrap_or_default(),
        },
        expires_at: fields.optional("expiresAt", |value| later(value, now)),
        quota: fields.optional("quota", accounts::number),
        ..key.row(name, now)
    };
    fields.finish().map(|()| row)
}

fn domains(value: &Value, links: &TenantLinks<'_>) -> Result<Vec<Domain>, Reason> {
    let items = value.as_array().filter(|items| items.len() <= MAX_DOMAINS);
    let items = items.ok_or(Reason::Borrowed("must be a list of at most 100 domains"))?;
    let domains = items.iter().map(|item| values::domain(item, links));
    let mut domains = domains.collect::<Result<Vec<Domain>, Reason>>()?;
    domains.sort_unstable();
    domains.dedup();
    Ok(domains)
}

/// A time after `now`, in unix milliseconds.
fn later(value: &Value, now: u64) -> Result<u64, Reason> {
    let millis = values::time(value)?.saturating_mul(1000);
    match millis > now {
        true => Ok(millis),
        false => Err("must be in the future".into()),
    }
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let limit = page::limit(&mut fields);
    let after = fields.optional("cursor", cursor::parse_created);
    fields.finish()?;
    let query = KeyQuery {
        tenant_id: caller.tenant_id(),
        after: after.map(|(created_at, id)| (created_at, format!("{id:016x}"))),
        limit: limit + 1,
    };
    let mut keys = app.store.list_api_keys(&query).await?;
    let next_cursor = page::cut(&mut keys, limit).and_then(place);
    let view = KeysView {
        keys: keys.into_iter().map(KeyView::new).collect(),
        next_cursor,
    };
    Ok(Json(view).into_response())
}

/// The cursor of a key, whose id is a number in hexadecimal digits.
fn place(key: &ApiKeyRow) -> Option<String> {
    let id = u64::from_str_radix(&key.id, 16).ok()?;
    Some(cursor::format_created(key.created_at, id))
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let row = app.store.api_key_of(caller.tenant_id(), &id).await?;
    let row = row.ok_or_else(|| Problem::new(Kind::NotFound))?;
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
    request_body = schema::KeyPatch,
    responses((status = 200, description = "The key as it is now", body = KeyView))
)]
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let detail = Value::Object(object.clone());
    let patch = KeyPatch::parse(object, &app.links(&caller))?;
    let change = Box::new(move |row: &ApiKeyRow| (patch.apply(row), detail.clone()));
    let actor = caller.actor();
    let changed = app.store.change_api_key(&id, &actor, "key.update", change);
    let row = changed.await??;
    app.keys.forget(&id).await;
    Ok(Json(KeyView::new(row)).into_response())
}

/// The new values of the fields that change.
#[derive(Clone)]
struct KeyPatch {
    name: Option<AccountName>,
    role: Option<Role>,
    domains: Option<Vec<Domain>>,
    tags: Option<Vec<String>>,
    expires_at: Option<Option<u64>>,
    quota: Option<Option<u64>>,
}

impl KeyPatch {
    fn parse(object: Map<String, Value>, links: &TenantLinks<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::new(object);
        let now = clock::unix_millis();
        let domains = fields.change("domains", |value| domains(value, links));
        let tags = fields.change("tags", values::tags);
        let patch = Self {
            name: accounts::change(&mut fields, "name", accounts::name),
            role: accounts::change(&mut fields, "role", accounts::role),
            domains: domains.map(Option::unwrap_or_default),
            tags: tags.map(Option::unwrap_or_default),
            expires_at: fields.change("expiresAt", |value| later(value, now)),
            quota: fields.change("quota", accounts::number),
        };
        fields.finish().map(|()| patch)
    }

    fn apply(&self, old: &ApiKeyRow) -> ApiKeyRow {
        let new = self.clone();
        let old = old.clone();
        ApiKeyRow {
            name: new.name.map_or(old.name, |name| name.to_string()),
            role: new.role.unwrap_or(old.role),
            bounds: Bounds {
                domains: new.domains.unwrap_or(old.bounds.domains),
                tags: new.tags.unwrap_or(old.bounds.tags),
            },
            expires_at: new.expires_at.unwrap_or(old.expires_at),
            quota: new.quota.unwrap_or(old.quota),
            ..old
        }
    }
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
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    app.store.revoke_api_key(&id, &caller.actor()).await??;
    app.keys.forget(&id).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Replaces the secret of a key.
#[utoipa::path(
    post,
    path = "/keys/{id}/rotate",
    operation_id = "rotateKey",
    tag = "accounts",
    params(("id" = String, Path, description = "The id of the key")),
    request_body = schema::Rotation,
    responses((status = 200, description = "The key, with its new secret, which is shown this once", body = KeyView))
)]
pub(crate) async fn rotate(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let overlap = accounts::overlap(object)?;
    let key = ApiKey::rotated(&id).map_err(no_random)?;
    let hash = key.secret_hash();
    let until = clock::unix_millis() + overlap * 1000;
    let change = Box::new(move |row: &ApiKeyRow| {
        let previous = PreviousSecret {
            hash: row.secret_hash,
            until,
        };
        let rotated = ApiKeyRow {
            secret_hash: hash,
            previous: (overlap > 0).then_some(previous),
            ..row.clone()
        };
        (rotated, json!({ "overlapSeconds": overlap }))
    });
    let actor = caller.actor();
    let changed = app.store.change_api_key(&id, &actor, "key.rotate", change);
    let row = changed.await??;
    app.keys.forget(&id).await;
    Ok(Json(KeyView::with_secret(row, &key)).into_response())
}
