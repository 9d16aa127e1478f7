//! Use cases of users.

use super::Accounts;
use crate::caller::{Caller, Right};
use crate::fields::Reason;
use crate::page::{self, Page};
use crate::passwords::NewPassword;
use crate::problem::{Kind, Problem};
use crate::request::request;
use crate::schemas;
use crate::values;
use edgelink_model::clock;
use edgelink_model::tenancy::{AccountName, Role};
use edgelink_model::timestamp::Time;
use edgelink_store::UserRow;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

request! {
    /// A user to be created.
    #[schema(example = json!({ "name": "ada", "role": "editor" }))]
    pub struct NewUser() {
        /// 1 to 100 characters without control characters, in NFC and without spaces around them; unique in the tenant.
        #[schema(format = "account-name", min_length = 1, max_length = 100)]
        "name" name: required AccountName as String = values::account_name;
        /// By default `editor`.
        "role" role: optional Role as schemas::Role = values::role;
        /// The password for the console, 8 to 255 bytes; by default none. Answers say `hasPassword` only.
        #[schema(format = "password", min_length = 8, max_length = 255)]
        "password" password: optional NewPassword as String = values::password_of_user;
    }
}

request! {
    /// A JSON merge patch (RFC 7396) of a user; no field but `password` is null.
    #[schema(example = json!({ "name": "ada l", "role": "reader", "disabled": true }))]
    pub struct UserPatch() {
        #[schema(nullable = false, format = "account-name", min_length = 1, max_length = 100)]
        "name" name: not_null AccountName as String = values::account_name;
        #[schema(nullable = false)]
        "role" role: not_null Role as schemas::Role = values::role;
        /// Whether its keys and its password work no more.
        #[schema(nullable = false)]
        "disabled" disabled: not_null bool as bool = values::flag;
        /// The new password for the console, 8 to 255 bytes, which ends the sessions that began with the old one; null removes it.
        #[schema(format = "password", min_length = 8, max_length = 255)]
        "password" password: nullable NewPassword as String = values::password_of_user;
        /// False makes the user forget who logs in as it by the provider of OpenID Connect; it cannot be set to true.
        #[schema(nullable = false)]
        "hasIdentity" forgets_identity: not_null () as bool = forgotten;
        /// True has the next login by the provider under the user's name become this user, for an hour.
        #[schema(nullable = false)]
        "awaitsIdentity" awaits_identity: not_null bool as bool = values::flag;
    }
}

/// A user as the API shows it.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = User)]
pub struct UserView {
    pub id: u64,
    pub name: String,
    pub role: &'static str,
    pub disabled: bool,
    /// Whether it has a password for the console, which no answer has.
    pub has_password: bool,
    /// Whether it has logged in to the console by a provider of OpenID Connect, where it is one person from then on.
    pub has_identity: bool,
    /// Whether the next login by the provider under its name becomes this user.
    pub awaits_identity: bool,
    /// Until when; null if it does not.
    #[schema(value_type = Option<String>)]
    pub(crate) awaits_identity_until: Option<Time>,
    #[schema(value_type = String)]
    pub created_at: Time,
    #[schema(value_type = String)]
    pub(crate) updated_at: Time,
}

impl UserView {
    /// Builds the view of a stored user; an identity is awaited until its time has passed.
    pub fn new(row: UserRow) -> Self {
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
            awaits_identity_until: awaited.map(Time::of_millis),
            created_at: Time::of_millis(row.created_at),
            updated_at: Time::of_millis(row.updated_at),
        }
    }
}

impl Accounts {
    /// Creates a user of the caller's tenant.
    pub async fn create_user(&self, caller: &Caller, request: NewUser) -> Result<UserRow, Problem> {
        caller.require(Right::Administer)?;
        let password = match &request.password {
            Some(password) => Some(self.hashed(caller, password).await?),
            None => None,
        };
        let role = request.role.unwrap_or(Role::Editor);
        let actor = caller.actor();
        let made = self
            .store
            .insert_user(&request.name, role, password.as_ref(), &actor);
        Ok(made.await??)
    }

    /// A page of the users of the caller's tenant, after the one with that number.
    pub async fn list_users(
        &self,
        caller: &Caller,
        limit: u32,
        after: Option<u64>,
    ) -> Result<Page<UserRow>, Problem> {
        caller.require(Right::Administer)?;
        let tenant_id = caller.tenant_id();
        let users = self
            .store
            .list_users(tenant_id, after.unwrap_or(0), limit + 1);
        let mut users = users.await?;
        let next = page::cut(&mut users, limit).map(|user| page::place(user.id));
        Ok(Page { items: users, next })
    }

    /// A user of the caller's tenant.
    pub async fn user(&self, caller: &Caller, id: u64) -> Result<UserRow, Problem> {
        caller.require(Right::Administer)?;
        let row = self.store.find_user(caller.tenant_id(), id).await?;
        row.ok_or_else(|| Problem::new(Kind::NotFound))
    }

    /// Changes a user.
    pub async fn change_user(
        &self,
        caller: &Caller,
        id: u64,
        patch: UserPatch,
    ) -> Result<UserRow, Problem> {
        caller.require(Right::Administer)?;
        let password = match &patch.password {
            Some(Some(password)) => Some(Some(self.hashed(caller, password).await?)),
            Some(None) => Some(None),
            None => None,
        };
        let patch = edgelink_store::UserPatch {
            name: patch.name,
            role: patch.role,
            disabled: patch.disabled,
            password,
            forgets_identity: patch.forgets_identity.is_some(),
            awaits_identity: patch.awaits_identity,
        };
        let row = self
            .store
            .change_user(id, &patch, &caller.actor())
            .await??;
        self.keys.forget_all();
        Ok(row)
    }
}

/// Parses `hasIdentity`, which can only be set to false.
fn forgotten(value: &Value) -> Result<(), Reason> {
    match value {
        Value::Bool(false) => Ok(()),
        _ => Err("must be false: a login makes it true".into()),
    }
}
