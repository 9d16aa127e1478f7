//! Use cases of tenants, for operators of the installation.

use super::{Accounts, no_random};
use crate::api_key::ApiKey;
use crate::caller::{Caller, Right};
use crate::page::{self, Page};
use crate::problem::Problem;
use crate::request::request;
use crate::values;
use edgelink_model::clock;
use edgelink_model::tenancy::AccountName;
use edgelink_store::ApiKeyRow;
pub use edgelink_store::TenantRow;

/// Name of the first key of a tenant.
const FIRST_KEY_NAME: &str = "admin";

request! {
    /// A tenant to be created, with a user and a key of it.
    #[schema(example = json!({ "name": "acme" }))]
    pub struct NewTenant() {
        /// 1 to 100 characters without control characters; unique.
        #[schema(format = "account-name", min_length = 1, max_length = 100)]
        "name" name: required AccountName as String = values::account_name;
    }
}

/// A tenant that was created, with the key of its first user, an admin.
pub struct CreatedTenant {
    /// Row of the tenant.
    pub tenant: TenantRow,
    /// Row of the key and its secret, which is not available later.
    pub admin_key: (ApiKeyRow, ApiKey),
}

impl Accounts {
    /// Creates a tenant, with a user and a key of it.
    pub async fn create_tenant(
        &self,
        caller: &Caller,
        request: NewTenant,
    ) -> Result<CreatedTenant, Problem> {
        caller.require(Right::Operate)?;
        let key = ApiKey::generate().map_err(no_random)?;
        let row = key.row(FIRST_KEY_NAME, clock::unix_millis());
        let actor = caller.actor();
        let made = self.store.insert_tenant(&request.name, &row, &actor);
        let (tenant, row) = made.await??;
        self.keys.add(&row.id);
        Ok(CreatedTenant {
            tenant,
            admin_key: (row, key),
        })
    }

    /// A page of the tenants, after the one with that number.
    pub async fn list_tenants(
        &self,
        caller: &Caller,
        limit: u32,
        after: Option<u64>,
    ) -> Result<Page<TenantRow>, Problem> {
        caller.require(Right::Operate)?;
        let after = u32::try_from(after.unwrap_or(0)).unwrap_or(u32::MAX);
        let mut tenants = self.store.list_tenants(after, limit + 1).await?;
        let next = page::cut(&mut tenants, limit).map(|tenant| page::place(tenant.id.into()));
        Ok(Page {
            items: tenants,
            next,
        })
    }
}
