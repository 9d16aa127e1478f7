//! Use cases of logins to the console: users by name, and people at a provider of OpenID Connect.

use super::accounts::Accounts;
use super::caller::Caller;
use super::passwords::NewPassword;
use crate::problem::Problem;
use edgelink_model::tenancy::{AccountName, FIRST_TENANT};
use edgelink_store::UserPatch;
pub use edgelink_store::{
    Binding, FailedAccount, IdentityError, Logins, NamedIdentity, StoreError, UserRow,
};

impl Accounts {
    /// Finds a user by its name, with its means of login.
    pub async fn user_of_login(
        &self,
        tenant: &AccountName,
        name: &AccountName,
    ) -> Result<Option<(UserRow, Logins)>, StoreError> {
        self.store.user_of_login(tenant, name).await
    }

    /// Returns the account to which failed logins under unknown names are attributed: one for each tenant, and that of the first
    /// tenant for unknown ones.
    pub async fn unknown_account(
        &self,
        tenant: Option<&AccountName>,
    ) -> Result<FailedAccount, StoreError> {
        let tenant_id = match tenant {
            Some(tenant) => self.store.find_tenant(tenant).await?,
            None => None,
        };
        Ok(FailedAccount {
            tenant_id: tenant_id.unwrap_or(FIRST_TENANT),
            user_id: None,
        })
    }

    /// Changes the password of the user who is logged in. Returns its hash.
    pub async fn change_own_password(
        &self,
        caller: &Caller,
        user_id: u64,
        password: &NewPassword,
    ) -> Result<String, Problem> {
        let patch = UserPatch {
            password: Some(Some(self.hashed(caller, password).await?)),
            ..UserPatch::default()
        };
        let actor = caller.actor();
        self.store.change_user(user_id, &patch, &actor).await??;
        Ok(password.hash().to_owned())
    }

    /// Finds or makes the user of a person at the provider. Keys are forgotten if its role changes.
    pub async fn log_in_identity(
        &self,
        tenant: &AccountName,
        identity: &NamedIdentity<'_>,
    ) -> Result<Result<UserRow, IdentityError>, StoreError> {
        let found = self.store.log_in_identity(tenant, identity).await?;
        Ok(found.map(|(user, is_changed)| {
            if is_changed {
                self.keys.forget_all();
            }
            user
        }))
    }

    /// Ends the sessions of a person whom the provider gives no role.
    pub async fn end_sessions_of_identity(
        &self,
        tenant: &AccountName,
        identity: &NamedIdentity<'_>,
    ) -> Result<(), StoreError> {
        let ended = self.store.end_sessions_of_identity(tenant, identity);
        ended.await.map(drop)
    }
}
