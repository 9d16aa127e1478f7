//! Users who log in through an OpenID Connect provider.

use super::accounts::{AccountError, lock_tenant};
use super::audit::{Actor, Entry, append};
use super::tenants;
use super::users::{self, UserPatch, UserRow};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Value, sql};
use edgelink_model::tenancy::{AccountName, Role};
use serde_json::json;

/// A person identified by a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedIdentity<'a> {
    /// SHA-256 of issuer and subject.
    pub hash: [u8; 32],
    /// The name at the provider; `None` without a valid one.
    pub name: Option<&'a AccountName>,
    /// The role given to the user; `None` leaves it unchanged.
    pub role: Option<Role>,
    /// The role of a newly created user; `None` if none may be created.
    pub new_role: Option<Role>,
    /// The rule for binding an existing user of that name.
    pub binding: Binding,
}

/// The local users to whom an identity of the same name may be bound at its first login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Only users whose login an admin awaits.
    Awaited,
    /// All users: the provider reports names that its users cannot choose.
    ByName,
}

/// Reason why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// The tenant does not exist.
    NoTenant,
    /// There is no such user, and none may be created.
    Unknown,
    /// The user of that name is another person, or the first one of the tenant, who logs in only by key or password.
    NameTaken,
    /// The user of that name was created locally, and no admin awaits that login.
    NotAwaited,
    /// The user is disabled.
    Disabled,
}

impl Store {
    /// Returns the user who logs in, and true if anything was written: the user already bound to the identity, else the one of that
    /// name in the tenant if the binding allows it, else a new one.
    pub async fn log_in_identity(
        &self,
        tenant: &AccountName,
        identity: &NamedIdentity<'_>,
    ) -> Result<Result<(UserRow, bool), IdentityError>, StoreError> {
        let call = self
            .read("find_identity", "finding the user of a login")
            .of(Class::Accounts);
        let known = run!(call, |session| known(session, tenant, identity).await)?;
        if let Some(user) = known.filter(|user| identity.role.is_none_or(|role| role == user.role))
        {
            return Ok(enabled(user).map(|user| (user, false)));
        }
        let token = self.newest.token();
        let call = self.write("log_in_identity", "finding the user of a login");
        let call = call.of(Class::Accounts);
        let call = call.locking([RowLine::Login(tenant.to_string())]);
        run!(call, |session| {
            session.begin().await?;
            let found = find_or_make(session, tenant, identity, token).await?;
            Ok(session.end(found).await?.map(|user| (user, true)))
        })
    }

    /// Ends the sessions that the user of this identity has begun without an API key.
    pub async fn end_sessions_of_identity(
        &self,
        tenant: &AccountName,
        identity: &NamedIdentity<'_>,
    ) -> Result<(), StoreError> {
        let call = self
            .read("find_identity", "finding the user of a login")
            .of(Class::Accounts);
        let Some(user) = run!(call, |session| known(session, tenant, identity).await)? else {
            return Ok(());
        };
        let call = self
            .write("end_sessions", "ending sessions of the console")
            .of(Class::Accounts);
        run!(call, |session| {
            session
                .autocommit(users::end_sessions(user.id))
                .await
                .map(drop)
        })
    }
}

fn enabled(user: UserRow) -> Result<UserRow, IdentityError> {
    if user.disabled {
        Err(IdentityError::Disabled)
    } else {
        Ok(user)
    }
}

async fn known(
    session: &mut Session,
    tenant: &AccountName,
    identity: &NamedIdentity<'_>,
) -> Result<Option<UserRow>, Fault> {
    let query =
        users::select("identity = ? AND tenant_id = (SELECT id FROM tenants WHERE name = ?)");
    let query = query.bind(&identity.hash);
    let query = query.bind(Value::Text(tenant.as_str()));
    users::fetch(session, query).await
}

async fn find_or_make(
    session: &mut Session,
    tenant: &AccountName,
    identity: &NamedIdentity<'_>,
    token: u64,
) -> Result<Result<UserRow, IdentityError>, Fault> {
    let Some(tenant_id) = tenants::find(session, tenant).await? else {
        return Ok(Err(IdentityError::NoTenant));
    };
    let actor = Actor {
        key_id: "oidc".to_owned(),
        ..Actor::command_line(tenant_id)
    };
    lock_tenant(session, tenant_id).await?;
    let user = match known(session, tenant, identity).await? {
        Some(user) => user,
        None => match bind(session, identity, &actor, token).await? {
            Ok(user) => user,
            Err(error) => return Ok(Err(error)),
        },
    };
    let role = identity
        .role
        .filter(|role| *role != user.role && !user.disabled);
    let user = match role {
        Some(role) => with_role(session, user, role, &actor).await?,
        None => user,
    };
    Ok(enabled(user))
}

/// Binds the user of the name, an existing or a new one, to the identity.
async fn bind(
    session: &mut Session,
    identity: &NamedIdentity<'_>,
    actor: &Actor,
    token: u64,
) -> Result<Result<UserRow, IdentityError>, Fault> {
    let Some(name) = identity.name else {
        return Ok(Err(IdentityError::Unknown));
    };
    let query = users::select("tenant_id = ? AND name = ?").bind(actor.tenant_id);
    let user = match (
        users::fetch(session, query.bind(Value::Text(name.as_str()))).await?,
        identity.new_role,
    ) {
        (Some(user), _) if user.has_identity || users::is_first(session, &user).await? => {
            return Ok(Err(IdentityError::NameTaken));
        }
        (Some(user), _) if may_bind(session, identity, &user).await? => user,
        (Some(_), _) => return Ok(Err(IdentityError::NotAwaited)),
        (None, Some(role)) => {
            let role = identity.role.unwrap_or(role);
            users::insert(session, (name, role, None), actor, token).await?
        }
        (None, None) => return Ok(Err(IdentityError::Unknown)),
    };
    let bind = sql("UPDATE users SET identity = ?, awaits_identity_until = NULL WHERE id = ?");
    session
        .execute(bind.bind(&identity.hash).bind(user.id))
        .await?;
    let entry = Entry {
        actor,
        action: "user.update",
        subject: users::subject(user.id),
        detail: json!({ "hasIdentity": true }),
    };
    append(session, &entry).await?;
    Ok(Ok(UserRow {
        has_identity: true,
        awaits_identity_until: None,
        ..user
    }))
}

/// True if the user of the name may be bound to the identity.
async fn may_bind(
    session: &mut Session,
    identity: &NamedIdentity<'_>,
    user: &UserRow,
) -> Result<bool, Fault> {
    if identity.binding == Binding::ByName {
        return Ok(true);
    }
    let now = session.dialect().now_millis;
    let query = sql(format!(
        "SELECT COUNT(*) FROM users WHERE id = ? AND awaits_identity_until > {now}"
    ));
    let (count,): (i64,) = session.fetch_one(query.bind(user.id)).await?;
    Ok(count > 0)
}

/// Gives a user the role reported by the provider, unless that would leave the tenant without an admin.
async fn with_role(
    session: &mut Session,
    user: UserRow,
    role: Role,
    actor: &Actor,
) -> Result<UserRow, Fault> {
    let patch = UserPatch {
        role: Some(role),
        ..UserPatch::default()
    };
    match users::change_locked(session, user.id, &patch, actor).await? {
        Ok(user) => Ok(user),
        Err(error) => {
            // A refused change is reverted by its caller: here without the rest of the transaction.
            let back = sql("UPDATE users SET role = ?, updated_at = ? WHERE id = ?");
            let back = back.bind(user.role.word()).bind(user.updated_at);
            session.execute(back.bind(user.id)).await?;
            if error == AccountError::LastAdmin {
                tracing::warn!(
                    user = user.id,
                    "ignored a provider claim that would demote the last admin"
                );
            }
            Ok(user)
        }
    }
}
