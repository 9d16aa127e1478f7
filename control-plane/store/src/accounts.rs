//! Shared parts of changes to tenants, users and keys: they are serialized per tenant, and always leave it an admin.

use edgelink_database::columns::name;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_model::tenancy::Role;

/// Reason why a tenant, user or key is not created or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// It does not exist, or belongs to another tenant.
    #[error("there is no such key, user or tenant")]
    NotFound,
    /// The user of a new key does not exist in the tenant.
    #[error("there is no such user")]
    NoSuchUser,
    /// The name is in use in the tenant.
    #[error("the name is taken")]
    NameTaken,
    /// The first user of a tenant logs in only by key or password.
    #[error("the first user of a tenant cannot log in through a provider")]
    FirstUser,
    /// The user is already bound to an identity of the provider, which has to be removed first.
    #[error("the user has an identity")]
    HasIdentity,
    /// The tenant would have no unrestricted admin key that never expires, or the first user would not be
    /// an admin.
    #[error("the tenant would have no admin")]
    LastAdmin,
}

/// Makes other changes of the tenant's users and keys wait until the transaction ends; `false` if there is no such
/// tenant. The row is written, because nodes of a cluster see each other's writes, but not locks.
pub(super) async fn lock_tenant(session: &mut Session, tenant_id: u32) -> Result<bool, Fault> {
    let lock = sql("UPDATE tenants SET revision = revision + 1 WHERE id = ?").bind(tenant_id);
    Ok(session.execute(lock).await? > 0)
}

/// Number of unrestricted admin keys of the tenant that never expire.
pub(super) async fn admin_keys(session: &mut Session, tenant_id: u32) -> Result<i64, Fault> {
    let query = sql(
        "SELECT COUNT(*) FROM api_keys k JOIN users u ON u.id = k.user_id WHERE k.tenant_id = ? AND k.role = ? \
         AND u.role = ? AND NOT u.disabled AND k.revoked_at IS NULL AND k.expires_at IS NULL AND k.domains IS NULL \
         AND k.tags IS NULL",
    );
    let admin = Role::Admin.word();
    let query = query.bind(tenant_id).bind(admin).bind(admin);
    let (count,) = session.fetch_one(query).await?;
    Ok(count)
}

/// True if a change removed the last admin key. Without one before, any change is allowed.
pub(super) fn is_last_admin_gone(before: i64, after: i64) -> bool {
    before > 0 && after == 0
}

/// Parses the role in a column.
pub(super) fn role(word: &[u8]) -> Result<Role, Fault> {
    let word = name(word)?;
    Role::of_word(&word).ok_or_else(|| Fault::Corrupt(format!("role is {word}")))
}
