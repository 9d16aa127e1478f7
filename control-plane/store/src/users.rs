//! Users, who own links and keys, and log in to the console.

use super::accounts::{AccountError, admin_keys, is_last_admin_gone, lock_tenant, role};
use super::audit::{Actor, Entry, append};
use super::ids::{IdTable, next_id};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, Value, sql};
use edgelink_model::tenancy::{AccountName, FIRST_USER, Role};
use edgelink_settings::config::Secret;
use serde_json::{Map, Value as Json, json};
use std::time::Duration;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRow {
    /// Its id.
    pub id: u64,
    /// Its tenant.
    pub tenant_id: u32,
    /// Its name, unique in the tenant.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// True if its keys are refused.
    pub disabled: bool,
    /// True if it has a password for the console.
    pub has_password: bool,
    /// True if it is bound to an identity of the OpenID Connect provider.
    pub has_identity: bool,
    /// Time until which the next provider login under its name is bound to it, in unix milliseconds; `None` if no admin awaits one.
    pub awaits_identity_until: Option<u64>,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Unix time in milliseconds.
    pub updated_at: u64,
}

/// Changes of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPatch {
    /// The new name.
    pub name: Option<AccountName>,
    /// The new role.
    pub role: Option<Role>,
    /// True to refuse its keys from now on.
    pub disabled: Option<bool>,
    /// The hash of the new password, a PHC string; `Some(None)` removes the password.
    pub password: Option<Option<Secret>>,
    /// True to unbind the user from its identity at the OpenID Connect provider.
    pub forgets_identity: bool,
    /// True to bind the next provider login under its name to it, for [`IDENTITY_AWAITED`].
    pub awaits_identity: Option<bool>,
}

/// Time for which the first provider login of a user is awaited.
pub const IDENTITY_AWAITED: Duration = Duration::from_hours(1);

/// The statement that ends the sessions begun by a user without an API key.
pub(super) fn end_sessions<'v>(user_id: u64) -> Sql<'v> {
    sql("DELETE FROM console_sessions WHERE user_id = ? AND key_id IS NULL").bind(user_id)
}

impl Store {
    /// Creates a user in the actor's tenant. `password` is the hash of its password, a PHC string.
    pub async fn insert_user(
        &self,
        name: &AccountName,
        role: Role,
        password: Option<&Secret>,
        actor: &Actor,
    ) -> Result<Result<UserRow, AccountError>, StoreError> {
        let token = self.newest.token();
        let call = self.write("insert_user", "adding a user");
        let call = call.locking([RowLine::Tenant(actor.tenant_id)]);
        run!(call, |session| {
            session.begin().await?;
            lock_tenant(session, actor.tenant_id).await?;
            let made = match insert(session, (name, role, password), actor, token).await {
                Err(fault) if fault.is_duplicate() => Err(AccountError::NameTaken),
                made => Ok(made?),
            };
            session.end(made).await
        })
    }

    /// The user with this id in a tenant.
    pub async fn find_user(&self, tenant_id: u32, id: u64) -> Result<Option<UserRow>, StoreError> {
        run!(self.read("find_user", "finding a user"), |session| find(
            session, tenant_id, id
        )
        .await)
    }

    /// The user with this name in the named tenant, and its ways of logging in. `None` if there is none, or it is
    /// disabled.
    pub async fn user_of_login(
        &self,
        tenant: &AccountName,
        name: &AccountName,
    ) -> Result<Option<(UserRow, Logins)>, StoreError> {
        let call = self.read("user_of_login", "finding a user");
        run!(call.of(Class::Accounts), |session| {
            let query = select(
                "name = ? AND tenant_id = (SELECT id FROM tenants WHERE name = ?) AND NOT disabled",
            );
            let query = query.bind(Value::Text(name.as_str()));
            let query = query.bind(Value::Text(tenant.as_str()));
            with_logins(session, query).await
        })
    }

    /// Users of a tenant with an id greater than `after`, ordered by id.
    pub async fn list_users(
        &self,
        tenant_id: u32,
        after: u64,
        limit: u32,
    ) -> Result<Vec<UserRow>, StoreError> {
        run!(self.read("list_users", "listing users"), |session| {
            let query = select("tenant_id = ? AND id > ? ORDER BY id LIMIT ?");
            let query = query.bind(tenant_id).bind(after).bind(limit);
            let rows: Vec<UserColumns> = session.fetch_all(query).await?;
            rows.into_iter().map(UserColumns::into_user).collect()
        })
    }

    /// Changes a user of the actor's tenant.
    pub async fn change_user(
        &self,
        id: u64,
        patch: &UserPatch,
        actor: &Actor,
    ) -> Result<Result<UserRow, AccountError>, StoreError> {
        let call = self.write("change_user", "changing a user");
        let call = call.locking([RowLine::Tenant(actor.tenant_id)]);
        run!(call, |session| {
            session.begin().await?;
            let changed = match change_locked(session, id, patch, actor).await {
                Err(fault) if fault.is_duplicate() => Err(AccountError::NameTaken),
                changed => changed?,
            };
            session.end(changed).await
        })
    }
}

/// Adds a user as part of a transaction. Fails where [`next_id`] does.
pub(super) async fn insert(
    session: &mut Session,
    (name, role, password): (&AccountName, Role, Option<&Secret>),
    actor: &Actor,
    token: u64,
) -> Result<UserRow, Fault> {
    let tenant_id = actor.tenant_id;
    let id = next_id(session, IdTable::Users, token).await?;
    let now = session.dialect().now_millis;
    let insert = sql(format!(
        "INSERT INTO users (id, tenant_id, name, role, password_hash, created_at, updated_at) \
         VALUES ({id}, ?, ?, ?, ?, {now}, {now})"
    ));
    let name = name.as_str();
    let insert = insert.bind(tenant_id).bind(Value::Text(name));
    let insert = insert.bind(role.word()).bind(password.map(Secret::expose));
    session.execute(insert).await?;
    let query = select("tenant_id = ? AND name = ?").bind(tenant_id);
    let row: UserColumns = session.fetch_one(query.bind(Value::Text(name))).await?;
    let user = row.into_user()?;
    let entry = Entry {
        actor,
        action: "user.create",
        subject: subject(user.id),
        detail: json!({ "name": name, "role": role.word() }),
    };
    append(session, &entry).await?;
    Ok(user)
}

pub(super) fn subject(id: u64) -> String {
    format!("user:{id}")
}

async fn find(session: &mut Session, tenant_id: u32, id: u64) -> Result<Option<UserRow>, Fault> {
    let query = select("id = ? AND tenant_id = ?").bind(id).bind(tenant_id);
    fetch(session, query).await
}

/// The user found by [`select`].
pub(super) async fn fetch(session: &mut Session, query: Sql<'_>) -> Result<Option<UserRow>, Fault> {
    let row: Option<UserColumns> = session.fetch_optional(query).await?;
    row.map(UserColumns::into_user).transpose()
}

/// Changes a user as part of a transaction.
pub(super) async fn change_locked(
    session: &mut Session,
    id: u64,
    patch: &UserPatch,
    actor: &Actor,
) -> Result<Result<UserRow, AccountError>, Fault> {
    lock_tenant(session, actor.tenant_id).await?;
    let Some(old) = find(session, actor.tenant_id, id).await? else {
        return Ok(Err(AccountError::NotFound));
    };
    let mut new = patch.apply(&old);
    // The command line creates keys for the first user.
    if id == FIRST_USER && (new.role != Role::Admin || new.disabled) {
        return Ok(Err(AccountError::LastAdmin));
    }
    if patch.awaits_identity == Some(true) {
        if is_first(session, &old).await? {
            return Ok(Err(AccountError::FirstUser));
        }
        if old.has_identity && !patch.forgets_identity {
            return Ok(Err(AccountError::HasIdentity));
        }
    }
    let before = admin_keys(session, actor.tenant_id).await?;
    let now = session.dialect().now_millis;
    let update = sql(format!(
        "UPDATE users SET name = ?, role = ?, disabled = ?, updated_at = {now}"
    ));
    let update = update.bind(Value::Text(&new.name)).bind(new.role.word());
    let mut update = update.bind(new.disabled);
    if let Some(password) = &patch.password {
        let hash = password.as_ref().map(Secret::expose);
        update = update.push(", password_hash = ?").bind(hash);
    }
    if patch.forgets_identity {
        update = update.push(", identity = NULL");
    }
    update = match patch.awaits_identity {
        Some(true) => update
            .push(&format!(", awaits_identity_until = {now} + ?"))
            .bind(IDENTITY_AWAITED.as_secs() * 1000),
        Some(false) => update.push(", awaits_identity_until = NULL"),
        None => update,
    };
    session
        .execute(update.push(" WHERE id = ?").bind(id))
        .await?;
    if patch.forgets_identity {
        // The same person may be bound again, and must not find the old sessions then.
        session.execute(end_sessions(id)).await?;
    }
    let after = admin_keys(session, actor.tenant_id).await?;
    if is_last_admin_gone(before, after) {
        return Ok(Err(AccountError::LastAdmin));
    }
    if let Some(written) = find(session, actor.tenant_id, id).await? {
        new = written;
    }
    let entry = Entry {
        actor,
        action: "user.update",
        subject: subject(id),
        detail: patch.detail(),
    };
    append(session, &entry).await?;
    Ok(Ok(new))
}

impl UserPatch {
    fn apply(&self, old: &UserRow) -> UserRow {
        UserRow {
            name: match &self.name {
                Some(name) => name.to_string(),
                None => old.name.clone(),
            },
            role: self.role.unwrap_or(old.role),
            disabled: self.disabled.unwrap_or(old.disabled),
            ..old.clone()
        }
    }

    fn detail(&self) -> Json {
        let name = self.name.as_ref();
        let name = name.map(|name| ("name", name.as_str().into()));
        let role = self.role.map(|role| ("role", role.word().into()));
        let disabled = self.disabled.map(|disabled| ("disabled", disabled.into()));
        let password = self.password.as_ref();
        let password = password.map(|password| ("hasPassword", password.is_some().into()));
        let identity = self.forgets_identity.then(|| ("hasIdentity", false.into()));
        let awaits = self.awaits_identity;
        let awaits = awaits.map(|awaits| ("awaitsIdentity", awaits.into()));
        let changes = [name, role, disabled, password, identity, awaits];
        let changes = changes.into_iter().flatten();
        let changes = changes.map(|(field, value)| (field.to_owned(), value));
        Json::Object(changes.collect::<Map<String, Json>>())
    }
}

/// True if a user is the first one of its tenant, who was created as an admin.
pub(super) async fn is_first(session: &mut Session, user: &UserRow) -> Result<bool, Fault> {
    let query = sql("SELECT MIN(id) FROM users WHERE tenant_id = ?").bind(user.tenant_id);
    let (first,): (u64,) = session.fetch_one(query).await?;
    Ok(user.id == first)
}

/// Selects users that meet a condition.
pub(super) fn select<'v>(condition: &str) -> Sql<'v> {
    sql(format!(
        "SELECT id, tenant_id, name, role, disabled, password_hash, identity, awaits_identity_until, created_at, updated_at FROM users WHERE {condition}"
    ))
}

/// The ways in which a user may log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logins {
    /// The hash of its password.
    pub password_hash: Option<String>,
    /// SHA-256 of issuer and subject at the provider of OpenID Connect.
    pub identity: Option<Vec<u8>>,
}

/// The user found by [`select`], and its ways of logging in.
pub(super) async fn with_logins(
    session: &mut Session,
    query: Sql<'_>,
) -> Result<Option<(UserRow, Logins)>, Fault> {
    let row: Option<UserColumns> = session.fetch_optional(query).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let logins = Logins {
        password_hash: row.password_hash.as_deref().map(name).transpose()?,
        identity: row.identity.clone(),
    };
    Ok(Some((row.into_user()?, logins)))
}

#[derive(Debug, sqlx_macros::FromRow)]
struct UserColumns {
    id: u64,
    tenant_id: u32,
    name: String,
    role: Vec<u8>,
    disabled: bool,
    password_hash: Option<Vec<u8>>,
    identity: Option<Vec<u8>>,
    awaits_identity_until: Option<u64>,
    created_at: u64,
    updated_at: u64,
}

impl UserColumns {
    fn into_user(self) -> Result<UserRow, Fault> {
        Ok(UserRow {
            id: self.id,
            tenant_id: self.tenant_id,
            name: self.name,
            role: role(&self.role)?,
            disabled: self.disabled,
            has_password: self.password_hash.is_some(),
            has_identity: self.identity.is_some(),
            awaits_identity_until: self.awaits_identity_until,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}
