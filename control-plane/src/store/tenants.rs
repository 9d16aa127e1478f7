//! Tenants.

use super::accounts::AccountError;
use super::api_keys::{ApiKeyRow, insert as insert_key};
use super::audit::{Actor, Entry, append};
use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::session::Session;
use super::sql::{Value, sql};
use super::users::insert as insert_user;
use crate::tenancy::Role;
use serde_json::json;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct TenantRow {
    /// Its key.
    pub id: u32,
    /// Its name, unique.
    pub name: String,
    /// Unix time in milliseconds.
    pub created_at: u64,
}

/// The name of the user that a tenant begins with.
const FIRST_USER_NAME: &str = "admin";

impl Store {
    /// Makes a tenant with a user, its admin, and the key of that user: `key` with the new tenant and user. The audit logs
    /// of both tenants say so.
    pub async fn insert_tenant(
        &self,
        name: &str,
        key: &ApiKeyRow,
        actor: &Actor,
    ) -> Result<Result<(TenantRow, ApiKeyRow), AccountError>, StoreError> {
        run!(self.write("insert_tenant", "adding a tenant"), |session| {
            session.begin().await?;
            let made = match insert(session, name, key, actor).await {
                Err(fault) if fault.is_duplicate() => Err(AccountError::NameTaken),
                made => Ok(made?),
            };
            match made {
                Ok(_) => session.commit(1).await?,
                Err(_) => session.rollback().await?,
            }
            Ok(made)
        })
    }

    /// Tenants with a greater id than `after`, in the order of their ids.
    pub async fn list_tenants(&self, after: u32, limit: u32) -> Result<Vec<TenantRow>, StoreError> {
        run!(self.read("list_tenants", "listing tenants"), |session| {
            let query =
                sql("SELECT id, name, created_at FROM tenants WHERE id > ? ORDER BY id LIMIT ?");
            session.fetch_all(query.bind(after).bind(limit)).await
        })
    }
}

async fn insert(
    session: &mut Session,
    name: &str,
    key: &ApiKeyRow,
    actor: &Actor,
) -> Result<(TenantRow, ApiKeyRow), Fault> {
    let now = session.dialect().now_millis;
    let insert = sql(format!(
        "INSERT INTO tenants (name, created_at) VALUES (?, {now})"
    ));
    session.execute(insert.bind(Value::Text(name))).await?;
    let query = sql("SELECT id, name, created_at FROM tenants WHERE name = ?");
    let tenant: TenantRow = session.fetch_one(query.bind(Value::Text(name))).await?;
    let within = Actor {
        tenant_id: tenant.id,
        user_id: None,
        ..actor.clone()
    };
    let user = insert_user(session, (FIRST_USER_NAME, Role::Admin, None), &within).await?;
    let key = ApiKeyRow {
        tenant_id: tenant.id,
        user_id: user.id,
        ..key.clone()
    };
    insert_key(session, &key, &within).await?;
    let entry = Entry {
        actor,
        action: "tenant.create",
        subject: format!("tenant:{}", tenant.id),
        detail: json!({ "name": name }),
    };
    append(session, &entry).await?;
    Ok((tenant, key))
}
