//! API keys.

use super::accounts::{AccountError, admin_keys, is_last_admin_gone, lock_tenant, role};
use super::audit::{Actor, Entry, append};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, Value, pieces, sql};
use edgelink_model::tenancy::{Bounds, Role};
use edgelink_wire::Domain;
use serde_json::{Value as Json, json};

/// A stored API key, without the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// The public part by which the row is found.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// SHA-256 of the secret part.
    pub secret_hash: [u8; 32],
    /// The secret before the last rotation.
    pub previous: Option<PreviousSecret>,
    /// The tenant of its user.
    pub tenant_id: u32,
    /// Its user.
    pub user_id: u64,
    /// Upper bound of its permissions, which the role of its user limits as well.
    pub role: Role,
    /// Domains and tags to which it is restricted.
    pub bounds: Bounds,
    /// Expiry, in unix milliseconds.
    pub expires_at: Option<u64>,
    /// Number of links it may create.
    pub quota: Option<u64>,
    /// Number of links created under its quota.
    pub used: u64,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Last use, in unix milliseconds; up to a minute late.
    pub last_used_at: Option<u64>,
}

impl ApiKeyRow {
    /// True if it has not expired at `now`, in unix milliseconds.
    #[must_use]
    pub fn lasts(&self, now: u64) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// Bytes taken up by its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let Bounds { domains, tags } = &self.bounds;
        let domains = domains
            .iter()
            .map(|domain| size_of::<Domain>() + domain.as_str().len());
        let tags = tags.iter().map(|tag| size_of::<String>() + tag.len());
        self.id.len() + self.name.len() + domains.chain(tags).sum::<usize>()
    }
}

/// A replaced secret that stays valid for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousSecret {
    /// SHA-256 of the secret part.
    pub hash: [u8; 32],
    /// End of its validity, in unix milliseconds.
    pub until: u64,
}

/// A key that is not revoked, of a user who is not disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    /// The key.
    pub key: ApiKeyRow,
    /// The role of its user.
    pub user_role: Role,
}

/// Cursor in the list of keys, in order of creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlace {
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Its id.
    pub id: String,
}

/// Query for a list of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyQuery {
    /// The tenant.
    pub tenant_id: u32,
    /// Only keys after the one with this time of creation and id.
    pub after: Option<(u64, String)>,
    /// Most keys returned.
    pub limit: u32,
}

/// Computes the new row of a key from the present one, and the detail of its audit entry. It is called again after a
/// deadlock.
pub type KeyChange = Box<dyn Fn(&ApiKeyRow) -> (ApiKeyRow, Json) + Send + Sync>;

impl Store {
    /// Stores a new API key of an enabled user of its tenant.
    pub async fn insert_api_key(
        &self,
        key: &ApiKeyRow,
        actor: &Actor,
    ) -> Result<Result<(), AccountError>, StoreError> {
        let call = self.write("insert_api_key", "adding an API key");
        let call = call.locking([RowLine::Tenant(key.tenant_id)]);
        run!(call, |session| {
            session.begin().await?;
            lock_tenant(session, key.tenant_id).await?;
            if !has_user(session, key).await? {
                session.rollback().await?;
                return Ok(Err(AccountError::NoSuchUser));
            }
            insert(session, key, actor).await?;
            session.commit(1).await?;
            Ok(Ok(()))
        })
    }

    /// The API key with this id, unless it is revoked or its user is disabled.
    pub async fn find_api_key(&self, id: &str) -> Result<Option<KeyHolder>, StoreError> {
        run!(
            self.read("find_api_key", "finding an API key")
                .of(Class::Accounts),
            |session| {
                let query = select("k.id = ? AND NOT u.disabled").bind(id);
                let row: Option<KeyRow> = session.fetch_optional(query).await?;
                row.map(KeyRow::into_holder).transpose()
            }
        )
    }

    /// The cursors of up to `limit` keys of all tenants after `after`, revoked keys included.
    pub async fn key_places(
        &self,
        after: KeyPlace,
        limit: u32,
    ) -> Result<Vec<KeyPlace>, StoreError> {
        run!(
            self.read("key_places", "reading ids of keys")
                .of(Class::Accounts),
            |session| {
                let index = session.dialect().force_index("api_keys_by_creation");
                let query = sql(format!(
                    "SELECT created_at, id FROM api_keys{index} WHERE created_at >= ? AND (created_at > ? OR id > ?) \
                 ORDER BY created_at, id LIMIT ?"
                ));
                let query = query.bind(after.created_at).bind(after.created_at);
                let query = query.bind(after.id.as_str()).bind(limit);
                let rows: Vec<(u64, Vec<u8>)> = session.fetch_all(query).await?;
                let place = |(created_at, id): (u64, Vec<u8>)| {
                    name(&id).map(|id| KeyPlace { created_at, id })
                };
                rows.into_iter().map(place).collect()
            }
        )
    }

    /// The API key with this id in a tenant, unless it is revoked.
    pub async fn api_key_of(
        &self,
        tenant_id: u32,
        id: &str,
    ) -> Result<Option<ApiKeyRow>, StoreError> {
        run!(self.read("api_key_of", "finding an API key"), |session| {
            find_in_tenant(session, tenant_id, id).await
        })
    }

    /// True if there has ever been an API key.
    pub async fn has_api_keys(&self) -> Result<bool, StoreError> {
        let call = self
            .read("has_api_keys", "looking for API keys")
            .of(Class::Accounts);
        run!(call, |session| {
            let query = sql("SELECT EXISTS (SELECT 1 FROM api_keys)");
            let (has_any,) = session.fetch_one(query).await?;
            Ok(has_any)
        })
    }

    /// API keys that are not revoked, oldest first.
    pub async fn list_api_keys(&self, query: &KeyQuery) -> Result<Vec<ApiKeyRow>, StoreError> {
        run!(self.read("list_api_keys", "listing API keys"), |session| {
            let (at, id) = query.after.as_ref().map_or((0, ""), |(at, id)| (*at, id));
            let list = select(
                "k.tenant_id = ? AND k.created_at >= ? AND (k.created_at > ? OR k.id > ?) \
                 ORDER BY k.created_at, k.id LIMIT ?",
            );
            let list = list.bind(query.tenant_id).bind(at).bind(at).bind(id);
            let rows: Vec<KeyRow> = session.fetch_all(list.bind(query.limit)).await?;
            let keys = rows.into_iter().map(KeyRow::into_holder);
            keys.map(|holder| Ok(holder?.key)).collect()
        })
    }

    /// Applies `change` to a key in the actor's tenant, and writes `action` to the audit log.
    pub async fn change_api_key(
        &self,
        id: &str,
        actor: &Actor,
        action: &'static str,
        change: KeyChange,
    ) -> Result<Result<ApiKeyRow, AccountError>, StoreError> {
        let call = self.write("change_api_key", "changing an API key");
        let call = call.locking([RowLine::Tenant(actor.tenant_id)]);
        run!(call, |session| {
            session.begin().await?;
            let changed = change_locked(session, id, actor, action, &change).await?;
            session.end(changed).await
        })
    }

    /// Revokes a key in the actor's tenant. The row stays without its secret, so that its id is never reused and
    /// earlier versions refuse it too.
    pub async fn revoke_api_key(
        &self,
        id: &str,
        actor: &Actor,
    ) -> Result<Result<(), AccountError>, StoreError> {
        let call = self.write("revoke_api_key", "revoking an API key");
        let call = call.locking([RowLine::Tenant(actor.tenant_id)]);
        run!(call, |session| {
            session.begin().await?;
            let revoked = revoke_locked(session, id, actor).await?;
            session.end(revoked).await
        })
    }

    /// Takes `wanted` links from the quota of a key, or as many as are left. Returns the number taken.
    pub async fn take_quota(&self, id: &str, wanted: u64) -> Result<u64, StoreError> {
        let call = self.write("take_quota", "counting links of an API key");
        let call = call.of(Class::Creations);
        let call = call.locking([RowLine::ApiKey(id.to_owned())]);
        run!(call, |session| {
            session.begin().await?;
            let for_update = session.dialect().for_update;
            let query = sql(format!(
                "SELECT quota, used FROM api_keys WHERE id = ?{for_update}"
            ));
            let row: Option<(Option<u64>, u64)> = session.fetch_optional(query.bind(id)).await?;
            let left = match row {
                Some((Some(quota), used)) => quota.saturating_sub(used),
                Some((None, _)) => wanted,
                None => 0,
            };
            let taken = wanted.min(left);
            let take = sql("UPDATE api_keys SET used = used + ? WHERE id = ?");
            session.execute(take.bind(taken).bind(id)).await?;
            session.commit(1).await?;
            Ok(taken)
        })
    }

    /// Returns links to the quota of a key that were taken, but not created.
    pub async fn return_quota(&self, id: &str, count: u64) -> Result<(), StoreError> {
        let call = self.write("return_quota", "counting links of an API key");
        let call = call.of(Class::Creations);
        let call = call.locking([RowLine::ApiKey(id.to_owned())]);
        run!(call, |session| {
            let back = sql("UPDATE api_keys SET used = used - ? WHERE id = ? AND used >= ?");
            let back = back.bind(count).bind(id).bind(count);
            session.autocommit(back).await.map(drop)
        })
    }

    /// Records the last use of keys, in unix milliseconds. A time earlier than the recorded one changes nothing.
    pub async fn note_key_uses(&self, uses: &[(String, u64)]) -> Result<(), StoreError> {
        let call = self
            .write("note_key_uses", "recording last use of API keys")
            .of(Class::Background);
        run!(call, |session| {
            for uses in pieces(uses) {
                let greatest = session.dialect().greatest;
                let ids: Vec<&str> = uses.iter().map(|(id, _)| id.as_str()).collect();
                let update = sql(format!(
                    "UPDATE api_keys SET last_used_at = {greatest}(COALESCE(last_used_at, 0), CASE id"
                ));
                let update = update
                    .join("", uses, |sql, (id, at)| {
                        sql.push(" WHEN ? THEN ?").bind(id.as_str()).bind(*at)
                    })
                    .push(" ELSE 0 END) WHERE id IN ")
                    .list(&ids);
                session.autocommit(update).await?;
            }
            Ok(())
        })
    }
}

/// Adds a key as a part of a transaction.
pub(super) async fn insert(
    session: &mut Session,
    key: &ApiKeyRow,
    actor: &Actor,
) -> Result<(), Fault> {
    let stored = StoredBounds::new(&key.bounds);
    let row = [
        key.id.as_str().into(),
        Value::Text(&key.name),
        (&key.secret_hash).into(),
        key.tenant_id.into(),
        key.user_id.into(),
        key.role.word().into(),
        stored.domains(),
        stored.tags(),
        key.expires_at.into(),
        key.quota.into(),
        key.created_at.into(),
    ];
    let insert = sql(
        "INSERT INTO api_keys (id, name, secret_hash, tenant_id, user_id, role, domains, tags, expires_at, quota, \
         created_at) ",
    );
    session.execute(insert.rows([row])).await?;
    let entry = Entry {
        actor,
        action: "key.create",
        subject: subject(&key.id),
        detail: json!({ "name": key.name, "userId": key.user_id, "role": key.role.word() }),
    };
    append(session, &entry).await
}

fn subject(id: &str) -> String {
    format!("key:{id}")
}

async fn has_user(session: &mut Session, key: &ApiKeyRow) -> Result<bool, Fault> {
    let query = sql("SELECT id FROM users WHERE id = ? AND tenant_id = ? AND NOT disabled");
    let query = query.bind(key.user_id).bind(key.tenant_id);
    let found: Option<(u64,)> = session.fetch_optional(query).await?;
    Ok(found.is_some())
}

async fn find_in_tenant(
    session: &mut Session,
    tenant_id: u32,
    id: &str,
) -> Result<Option<ApiKeyRow>, Fault> {
    let query = select("k.id = ? AND k.tenant_id = ?")
        .bind(id)
        .bind(tenant_id);
    let row: Option<KeyRow> = session.fetch_optional(query).await?;
    row.map(|row| Ok(row.into_holder()?.key)).transpose()
}

async fn change_locked(
    session: &mut Session,
    id: &str,
    actor: &Actor,
    action: &'static str,
    change: &KeyChange,
) -> Result<Result<ApiKeyRow, AccountError>, Fault> {
    lock_tenant(session, actor.tenant_id).await?;
    let Some(old) = find_in_tenant(session, actor.tenant_id, id).await? else {
        return Ok(Err(AccountError::NotFound));
    };
    let before = admin_keys(session, actor.tenant_id).await?;
    let (new, detail) = change(&old);
    write(session, &new).await?;
    let after = admin_keys(session, actor.tenant_id).await?;
    if is_last_admin_gone(before, after) {
        return Ok(Err(AccountError::LastAdmin));
    }
    let entry = Entry {
        actor,
        action,
        subject: subject(id),
        detail,
    };
    append(session, &entry).await?;
    Ok(Ok(new))
}

/// Writes the columns of a key that may change.
async fn write(session: &mut Session, key: &ApiKeyRow) -> Result<(), Fault> {
    let stored = StoredBounds::new(&key.bounds);
    let update = sql(
        "UPDATE api_keys SET name = ?, secret_hash = ?, previous_hash = ?, previous_until = ?, role = ?, domains = ?, \
         tags = ?, expires_at = ?, quota = ? WHERE id = ?",
    );
    let previous = key.previous.as_ref();
    let update = update
        .bind(Value::Text(&key.name))
        .bind(&key.secret_hash)
        .bind(previous.map(|previous| &previous.hash))
        .bind(previous.map(|previous| previous.until))
        .bind(key.role.word())
        .bind(stored.domains())
        .bind(stored.tags())
        .bind(key.expires_at)
        .bind(key.quota)
        .bind(key.id.as_str());
    session.execute(update).await.map(drop)
}

async fn revoke_locked(
    session: &mut Session,
    id: &str,
    actor: &Actor,
) -> Result<Result<(), AccountError>, Fault> {
    lock_tenant(session, actor.tenant_id).await?;
    let before = admin_keys(session, actor.tenant_id).await?;
    let now = session.dialect().now_millis;
    let revoke = sql(format!(
        "UPDATE api_keys SET revoked_at = {now}, secret_hash = ?, previous_hash = NULL, previous_until = NULL \
         WHERE id = ? AND tenant_id = ? AND revoked_at IS NULL"
    ));
    let revoke = revoke.bind(&[0; 32]).bind(id).bind(actor.tenant_id);
    if session.execute(revoke).await? == 0 {
        return Ok(Err(AccountError::NotFound));
    }
    let after = admin_keys(session, actor.tenant_id).await?;
    if is_last_admin_gone(before, after) {
        return Ok(Err(AccountError::LastAdmin));
    }
    let entry = Entry {
        actor,
        action: "key.revoke",
        subject: subject(id),
        detail: json!({}),
    };
    append(session, &entry).await?;
    Ok(Ok(()))
}

/// Bounds as their columns take them: JSON lists, or NULL.
struct StoredBounds {
    domains: Option<String>,
    tags: Option<String>,
}

impl StoredBounds {
    fn new(bounds: &Bounds) -> Self {
        let domains: Vec<&str> = bounds.domains.iter().map(Domain::as_str).collect();
        Self {
            domains: (!domains.is_empty()).then(|| Json::from(domains).to_string()),
            tags: (!bounds.tags.is_empty()).then(|| Json::from(bounds.tags.as_slice()).to_string()),
        }
    }

    fn domains(&self) -> Value<'_> {
        self.domains.as_deref().map(Value::Text).into()
    }

    fn tags(&self) -> Value<'_> {
        self.tags.as_deref().map(Value::Text).into()
    }
}

/// A query for keys that are not revoked.
fn select<'v>(condition: &str) -> Sql<'v> {
    sql(format!(
        "SELECT k.id, k.name, k.secret_hash, k.previous_hash, k.previous_until, k.tenant_id, k.user_id, k.role, \
         k.domains, k.tags, k.expires_at, k.quota, k.used, k.created_at, k.last_used_at, u.role AS user_role \
         FROM api_keys k JOIN users u ON u.id = k.user_id WHERE k.revoked_at IS NULL AND {condition}"
    ))
}

#[derive(Debug, sqlx_macros::FromRow)]
struct KeyRow {
    id: Vec<u8>,
    name: String,
    secret_hash: Vec<u8>,
    previous_hash: Option<Vec<u8>>,
    previous_until: Option<u64>,
    tenant_id: u32,
    user_id: u64,
    role: Vec<u8>,
    domains: Option<String>,
    tags: Option<String>,
    expires_at: Option<u64>,
    quota: Option<u64>,
    used: u64,
    created_at: u64,
    last_used_at: Option<u64>,
    user_role: Vec<u8>,
}

impl KeyRow {
    fn into_holder(self) -> Result<KeyHolder, Fault> {
        let previous = self.previous_hash.zip(self.previous_until);
        let previous = previous.map(|(bytes, until)| {
            let hash = hash(&bytes)?;
            Ok::<_, Fault>(PreviousSecret { hash, until })
        });
        let domains = list(self.domains.as_deref())?.into_iter();
        let domains = domains.map(|domain| Domain::parse(&domain));
        let domains: Result<Vec<Domain>, _> = domains.collect();
        let key = ApiKeyRow {
            id: name(&self.id)?,
            name: self.name,
            secret_hash: hash(&self.secret_hash)?,
            previous: previous.transpose()?,
            tenant_id: self.tenant_id,
            user_id: self.user_id,
            role: role(&self.role)?,
            bounds: Bounds {
                domains: domains.map_err(|error| Fault::corrupt("domain", &error))?,
                tags: list(self.tags.as_deref())?,
            },
            expires_at: self.expires_at,
            quota: self.quota,
            used: self.used,
            created_at: self.created_at,
            last_used_at: self.last_used_at,
        };
        Ok(KeyHolder {
            key,
            user_role: role(&self.user_role)?,
        })
    }
}

fn hash(bytes: &[u8]) -> Result<[u8; 32], Fault> {
    let hash = bytes.try_into();
    hash.map_err(|error| Fault::corrupt("hash of an API key", &error))
}

/// A JSON list; NULL is an empty one.
fn list(text: Option<&str>) -> Result<Vec<String>, Fault> {
    let list = text.map_or(Ok(Vec::new()), serde_json::from_str);
    list.map_err(|error| Fault::corrupt("bounds of an API key", &error))
}
