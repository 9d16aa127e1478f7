//! `/tenants`: for admins of the first one.

use super::accounts;
use super::body::JsonObject;
use super::fields::Fields;
use super::keys::{self, KeyView};
use super::page;
use super::schema;
use crate::clock;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::store::TenantRow;
use crate::timestamp;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The name of the key that a tenant begins with.
const FIRST_KEY_NAME: &str = "admin";

/// A tenant as the API shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tenant)]
struct TenantView {
    id: u32,
    name: String,
    created_at: String,
    /// The key of its first user, an admin: in the answer that makes the tenant only.
    #[serde(skip_serializing_if = "Option::is_none")]
    admin_key: Option<KeyView>,
}

impl TenantView {
    fn new(row: TenantRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            created_at: timestamp::from_millis(row.created_at),
            admin_key: None,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TenantPage)]
struct TenantsView {
    tenants: Vec<TenantView>,
    next_cursor: Option<String>,
}

/// Creates a tenant, with a user and a key of it.
///
/// For admins of the first tenant.
#[utoipa::path(
    post,
    path = "/tenants",
    operation_id = "createTenant",
    tag = "accounts",
    request_body = schema::NewTenant,
    responses((status = 201, description = "The tenant, with the key of its first user", body = TenantView))
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let mut fields = Fields::new(object);
    let name = fields.required("name", accounts::name);
    fields.finish()?;
    // A missing name was refused above.
    let name = name.ok_or_else(|| Problem::new(Kind::Validation))?;
    let key = keys::generate()?;
    let row = key.row(FIRST_KEY_NAME, clock::unix_millis());
    let actor = caller.actor();
    let made = app.store.insert_tenant(&name, &row, &actor);
    let (tenant, row) = made.await??;
    app.keys.add(&row.id);
    let view = TenantView {
        admin_key: Some(KeyView::with_secret(row, &key)),
        ..TenantView::new(tenant)
    };
    Ok((StatusCode::CREATED, Json(view)).into_response())
}

/// Lists the tenants.
///
/// For admins of the first tenant.
#[utoipa::path(
    get,
    path = "/tenants",
    operation_id = "listTenants",
    tag = "accounts",
    params(schema::Page),
    responses((status = 200, description = "A page of tenants", body = TenantsView))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, after) = page::parameters(query.as_deref())?;
    let after = u32::try_from(after.unwrap_or(0)).unwrap_or(u32::MAX);
    let mut tenants = app.store.list_tenants(after, limit + 1).await?;
    let last = page::cut(&mut tenants, limit);
    let next_cursor = last.map(|tenant| page::place(tenant.id.into()));
    let tenants = tenants.into_iter().map(TenantView::new).collect();
    Ok(Json(TenantsView {
        tenants,
        next_cursor,
    })
    .into_response())
}
