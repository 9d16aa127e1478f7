//! Use cases of API keys.

use super::{Accounts, no_random};
use crate::api_key::ApiKey;
use crate::caller::{Caller, Right};
use crate::cursor;
use crate::fields::{Fields, Reason};
use crate::page::{self, Page};
use crate::problem::{Kind, Problem};
use crate::request::request;
use crate::schemas::{self, ShortDomain, Tag};
use crate::tenant_links::TenantLinks;
use crate::values;
use edgelink_model::clock;
use edgelink_model::tenancy::{AccountName, Bounds, Role};
use edgelink_model::timestamp::Time;
use edgelink_store::{ApiKeyRow, KeyQuery, PreviousSecret};
use edgelink_wire::Domain;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Limit on the number of domains a key is bound to.
const MAX_DOMAINS: usize = 100;

request! {
    /// A key to be created.
    #[schema(example = json!({ "name": "newsletter", "role": "editor", "tags": ["summer"], "quota": 1000 }))]
    pub struct NewKey(links: &TenantLinks<'_>) {
        /// 1 to 100 characters without control characters.
        #[schema(format = "account-name", min_length = 1, max_length = 100)]
        "name" name: required AccountName as String = values::account_name;
        /// The user that it belongs to; by default that of the request.
        #[schema(maximum = 9_007_199_254_740_991_i64)]
        "userId" user_id: optional u64 as u64 = values::number;
        /// By default `editor`. The user's role bounds it.
        "role" role: optional Role as schemas::Role = values::role;
        /// The domains that it is bound to; by default none, which is all.
        #[schema(max_items = 100)]
        "domains" domains: optional Vec<Domain> as Vec<ShortDomain> = |value| domains_of(value, links);
        /// The tags that it is bound to; by default none, which is all.
        #[schema(max_items = 32)]
        "tags" tags: optional Vec<String> as Vec<Tag> = values::tags;
        /// Until when it works; in the future.
        #[schema(format = "date-time")]
        "expiresAt" expires_at: optional u64 as String = later;
        /// How many links it may create.
        #[schema(maximum = 9_007_199_254_740_991_i64)]
        "quota" quota: optional u64 as u64 = values::number;
    }
}

request! {
    /// A JSON merge patch (RFC 7396) of a key. Fields are those of `NewKey`; `name` and `role` are not null.
    #[schema(example = json!({ "name": "newsletter 2", "role": "creator", "quota": null }))]
    pub struct KeyPatch(links: &TenantLinks<'_>) {
        #[schema(nullable = false, format = "account-name", min_length = 1, max_length = 100)]
        "name" name: not_null AccountName as String = values::account_name;
        #[schema(nullable = false)]
        "role" role: not_null Role as schemas::Role = values::role;
        #[schema(max_items = 100)]
        "domains" domains: nullable Vec<Domain> as Vec<ShortDomain> = |value| domains_of(value, links);
        #[schema(max_items = 32)]
        "tags" tags: nullable Vec<String> as Vec<Tag> = values::tags;
        #[schema(format = "date-time")]
        "expiresAt" expires_at: nullable u64 as String = later;
        #[schema(maximum = 9_007_199_254_740_991_i64)]
        "quota" quota: nullable u64 as u64 = values::number;
    }
}

request! {
    /// How a secret is replaced.
    #[schema(example = json!({ "overlapSeconds": 3600 }))]
    pub struct Rotation() {
        /// How long the old secret works beside the new one; by default not at all.
        #[schema(maximum = 604_800)]
        "overlapSeconds" overlap_seconds: optional u64 as u64 = values::overlap;
    }
}

/// A key as the API shows it.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Key)]
pub struct KeyView {
    pub id: String,
    /// The secret, in the answer that makes it only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub name: String,
    pub user_id: u64,
    pub role: &'static str,
    pub domains: Vec<String>,
    pub tags: Vec<String>,
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Time>,
    pub quota: Option<u64>,
    pub used: Option<u64>,
    #[schema(value_type = String)]
    pub(crate) created_at: Time,
    #[schema(value_type = Option<String>)]
    pub last_used_at: Option<Time>,
}

impl KeyView {
    /// Builds the view of a stored key, without its secret.
    pub fn new(row: ApiKeyRow) -> Self {
        let domains = row.bounds.domains.iter();
        Self {
            domains: domains.map(|domain| domain.as_str().to_owned()).collect(),
            id: row.id,
            key: None,
            name: row.name,
            user_id: row.user_id,
            role: row.role.word(),
            tags: row.bounds.tags,
            expires_at: row.expires_at.map(Time::of_millis),
            quota: row.quota,
            used: row.quota.map(|_| row.used),
            created_at: Time::of_millis(row.created_at),
            last_used_at: row.last_used_at.map(Time::of_millis),
        }
    }

    /// With the secret, which is shown this once.
    pub fn with_secret(row: ApiKeyRow, key: &ApiKey) -> Self {
        Self {
            key: Some(key.expose().to_owned()),
            ..Self::new(row)
        }
    }
}

/// Reads the parameters of a list of keys: its limit, and the key after which it begins.
///
/// # Errors
/// A problem that names each wrong parameter.
pub fn list_of(query: Option<&str>) -> Result<(u32, Option<(u64, u64)>), Problem> {
    let mut fields = Fields::of_query(query)?;
    let limit = page::limit(&mut fields);
    let after = fields.optional("cursor", cursor::parse_created);
    fields.finish().map(|()| (limit, after))
}

impl KeyPatch {
    fn apply(self, old: &ApiKeyRow) -> ApiKeyRow {
        let old = old.clone();
        ApiKeyRow {
            name: self.name.map_or(old.name, |name| name.to_string()),
            role: self.role.unwrap_or(old.role),
            bounds: Bounds {
                domains: self
                    .domains
                    .map_or(old.bounds.domains, Option::unwrap_or_default),
                tags: self.tags.map_or(old.bounds.tags, Option::unwrap_or_default),
            },
            expires_at: self.expires_at.unwrap_or(old.expires_at),
            quota: self.quota.unwrap_or(old.quota),
            ..old
        }
    }
}

impl Accounts {
    /// Creates a key. Returns its row and its secret, which is not available later.
    pub async fn create_key(
        &self,
        caller: &Caller,
        request: NewKey,
    ) -> Result<(ApiKeyRow, ApiKey), Problem> {
        caller.require(Right::Administer)?;
        let key = ApiKey::generate().map_err(no_random)?;
        let row = ApiKeyRow {
            tenant_id: caller.tenant_id(),
            user_id: request.user_id.unwrap_or_else(|| caller.user_id()),
            role: request.role.unwrap_or(Role::Editor),
            bounds: Bounds {
                domains: request.domains.unwrap_or_default(),
                tags: request.tags.unwrap_or_default(),
            },
            expires_at: request.expires_at,
            quota: request.quota,
            ..key.row(request.name.as_str(), clock::unix_millis())
        };
        self.store.insert_api_key(&row, &caller.actor()).await??;
        self.keys.add(&row.id);
        Ok((row, key))
    }

    /// A page of the keys of the caller's tenant, after the one with that time of creation and number.
    pub async fn list_keys(
        &self,
        caller: &Caller,
        limit: u32,
        after: Option<(u64, u64)>,
    ) -> Result<Page<ApiKeyRow>, Problem> {
        caller.require(Right::Administer)?;
        let query = KeyQuery {
            tenant_id: caller.tenant_id(),
            after: after.map(|(created_at, id)| (created_at, format!("{id:016x}"))),
            limit: limit + 1,
        };
        let mut keys = self.store.list_api_keys(&query).await?;
        let next = page::cut(&mut keys, limit).and_then(place);
        Ok(Page { items: keys, next })
    }

    /// A key of the caller's tenant.
    pub async fn key(&self, caller: &Caller, id: &str) -> Result<ApiKeyRow, Problem> {
        caller.require(Right::Administer)?;
        let row = self.store.api_key_of(caller.tenant_id(), id).await?;
        row.ok_or_else(|| Problem::new(Kind::NotFound))
    }

    /// Changes a key. The audit log has the patch as it was sent.
    pub async fn change_key(
        &self,
        caller: &Caller,
        id: &str,
        patch: KeyPatch,
        detail: Value,
    ) -> Result<ApiKeyRow, Problem> {
        let change = move |row: &ApiKeyRow| (patch.clone().apply(row), detail.clone());
        self.replace_key(caller, id, "key.update", change).await
    }

    /// Replaces the secret of a key. Returns its row and the new secret, which is not available later.
    pub async fn rotate_key(
        &self,
        caller: &Caller,
        id: &str,
        rotation: Rotation,
    ) -> Result<(ApiKeyRow, ApiKey), Problem> {
        let overlap = rotation.overlap_seconds.unwrap_or(0);
        let key = ApiKey::rotated(id).map_err(no_random)?;
        let hash = key.secret_hash();
        let until = clock::unix_millis() + overlap * 1000;
        let change = move |row: &ApiKeyRow| {
            let previous = PreviousSecret {
                hash: row.secret_hash,
                until,
            };
            let rotated = ApiKeyRow {
                secret_hash: hash,
                previous: (overlap > 0).then_some(previous),
                ..row.clone()
            };
            (rotated, json!({ "overlapSeconds": overlap }))
        };
        let row = self.replace_key(caller, id, "key.rotate", change).await?;
        Ok((row, key))
    }

    async fn replace_key(
        &self,
        caller: &Caller,
        id: &str,
        action: &'static str,
        change: impl Fn(&ApiKeyRow) -> (ApiKeyRow, Value) + Send + Sync + 'static,
    ) -> Result<ApiKeyRow, Problem> {
        caller.require(Right::Administer)?;
        let actor = caller.actor();
        let changed = self
            .store
            .change_api_key(id, &actor, action, Box::new(change));
        let row = changed.await??;
        self.keys.forget(id).await;
        Ok(row)
    }

    /// Revokes a key.
    pub async fn revoke_key(&self, caller: &Caller, id: &str) -> Result<(), Problem> {
        caller.require(Right::Administer)?;
        self.store.revoke_api_key(id, &caller.actor()).await??;
        self.keys.forget(id).await;
        Ok(())
    }
}

/// The cursor of a key, whose id is a number in hexadecimal digits.
fn place(key: &ApiKeyRow) -> Option<String> {
    let id = u64::from_str_radix(&key.id, 16).ok()?;
    Some(cursor::format_created(key.created_at, id))
}

fn domains_of(value: &Value, links: &TenantLinks<'_>) -> Result<Vec<Domain>, Reason> {
    let items = value.as_array().filter(|items| items.len() <= MAX_DOMAINS);
    let items = items.ok_or(Reason::Borrowed("must be a list of at most 100 domains"))?;
    let domains = items.iter().map(|item| values::domain(item, links));
    let mut domains = domains.collect::<Result<Vec<Domain>, Reason>>()?;
    domains.sort_unstable();
    domains.dedup();
    Ok(domains)
}

/// A time in the future, in unix milliseconds.
fn later(value: &Value) -> Result<u64, Reason> {
    let millis = values::time(value)?.saturating_mul(1000);
    if millis > clock::unix_millis() {
        Ok(millis)
    } else {
        Err("must be in the future".into())
    }
}
