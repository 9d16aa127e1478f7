//! Tenants.

use super::accounts::AccountError;
use super::api_keys::{ApiKeyRow, insert as insert_key};
use super::audit::{Actor, Entry, append};
use super::ids::{IdTable, next_id};
use super::users::insert as insert_user;
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Value, sql};
use edgelink_model::tenancy::{AccountName, Role};
use serde_json::json;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct TenantRow {
    /// Its id.
    pub id: u32,
    /// Its name, unique.
    pub name: String,
    /// Unix time in milliseconds.
    pub created_at: u64,
}

impl Store {
    /// Creates a tenant with an admin user, and the API key of that user: `key` with the new tenant and user. Recorded in
    /// the audit logs of both tenants.
    pub async fn insert_tenant(
        &self,
        name: &AccountName,
        key: &ApiKeyRow,
        actor: &Actor,
    ) -> Result<Result<(TenantRow, ApiKeyRow), AccountError>, StoreError> {
        let token = self.newest.token();
        run!(self.write("insert_tenant", "adding a tenant"), |session| {
            session.begin().await?;
            let made = match insert(session, (name, key), actor, token).await {
                Err(fault) if fault.is_duplicate() => Err(AccountError::NameTaken),
                made => Ok(made?),
            };
            session.end(made).await
        })
    }

    /// The id of the tenant with a name.
    pub async fn find_tenant(&self, name: &AccountName) -> Result<Option<u32>, StoreError> {
        run!(
            self.read("find_tenant", "finding a tenant")
                .of(Class::Accounts),
            |session| find(session, name).await
        )
    }

    /// Tenants with an id greater than `after`, ordered by id.
    pub async fn list_tenants(&self, after: u32, limit: u32) -> Result<Vec<TenantRow>, StoreError> {
        run!(self.read("list_tenants", "listing tenants"), |session| {
            let query =
                sql("SELECT id, name, created_at FROM tenants WHERE id > ? ORDER BY id LIMIT ?");
            session.fetch_all(query.bind(after).bind(limit)).await
        })
    }
}

/// The id of the tenant with a name, as part of a transaction.
pub(super) async fn find(session: &mut Session, name: &AccountName) -> Result<Option<u32>, Fault> {
    let query = sql("SELECT id FROM tenants WHERE name = ?");
    let query = query.bind(Value::Text(name.as_str()));
    let found: Option<(u32,)> = session.fetch_optional(query).await?;
    Ok(found.map(|(id,)| id))
}

async fn insert(
    session: &mut Session,
    (name, key): (&AccountName, &ApiKeyRow),
    actor: &Actor,
    token: u64,
) -> Result<(TenantRow, ApiKeyRow), Fault> {
    let name = name.as_str();
    let id = next_id(session, IdTable::Tenants, token).await?;
    let now = session.dialect().now_millis;
    let insert = sql(format!(
        "INSERT INTO tenants (id, name, created_at) VALUES ({id}, ?, {now})"
    ));
    session.execute(insert.bind(Value::Text(name))).await?;
    let query = sql("SELECT id, name, created_at FROM tenants WHERE name = ?");
    let tenant: TenantRow = session.fetch_one(query.bind(Value::Text(name))).await?;
    let within = Actor {
        tenant_id: tenant.id,
        user_id: None,
        ..actor.clone()
    };
    let first = (&AccountName::of_first_user(), Role::Admin, None);
    let user = insert_user(session, first, &within, token).await?;
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
