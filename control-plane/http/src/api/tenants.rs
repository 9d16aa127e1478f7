//! `/tenants`: for admins of the first one.

use super::body::JsonObject;
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
use edgelink_model::timestamp;
pub(super) use edgelink_service::accounts::keys::KeyView;
pub(super) use edgelink_service::accounts::tenants::NewTenant;
use edgelink_service::accounts::tenants::TenantRow;
use edgelink_service::page;
use edgelink_service::problem::Problem;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

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
    request_body = NewTenant,
    responses((status = 201, description = "The tenant, with the key of its first user", body = TenantView))
)]
pub(crate) async fn create(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let request = NewTenant::read(object)?;
    let created = app.accounts.create_tenant(&caller, request).await?;
    let (row, key) = created.admin_key;
    let view = TenantView {
        admin_key: Some(KeyView::with_secret(row, &key)),
        ..TenantView::new(created.tenant)
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
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, after) = page::parameters(query.as_deref())?;
    let page = app.accounts.list_tenants(&caller, limit, after).await?;
    let view = TenantsView {
        tenants: page.items.into_iter().map(TenantView::new).collect(),
        next_cursor: page.next,
    };
    Ok(Json(view).into_response())
}
