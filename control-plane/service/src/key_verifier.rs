//! Checks API keys against the store, with a cache in front; keys with unknown ids are not looked up.

use super::api_key::ApiKey;
use super::key_uses::KeyUses;
use super::known_ids::{KeyLookupError, KnownIds};
use crate::problem::{Kind, Problem};
use edgelink_model::clock;
use edgelink_settings::config::{AuthConfig, ConsoleConfig};
use edgelink_store::{ApiKeyRow, KeyHolder, SessionLimits, Store, StoreError};
use moka::Expiry;
use moka::future::Cache;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a key's texts per entry of the cache.
const ENTRY_BYTES: usize = 1_024;

/// Checks API keys. Rows, and their absence, are cached for `auth.key_cache_ms` from the moment at which the database is
/// asked: a revoked key still works for that long. The secret and the expiry of the key are checked at every request.
pub struct KeyVerifier {
    /// Database of keys, users and sessions.
    pub store: Arc<Store>,
    /// Limits on sessions of the console.
    pub limits: SessionLimits,
    ids: KnownIds,
    cache: KeyCache,
    uses: KeyUses,
}

impl KeyVerifier {
    /// Creates a verifier with an empty cache. It reads the ids of all keys on first use, or in [`KeyVerifier::prepare`].
    pub fn new(store: Arc<Store>, config: &AuthConfig, console: &ConsoleConfig) -> Self {
        Self {
            limits: SessionLimits {
                idle: console.idle(),
                total: console.total(),
                per_user: console.max_sessions,
            },
            ids: KnownIds::new(config.max_key_lookups),
            cache: KeyCache::new(config),
            uses: KeyUses::new(store.clone()),
            store,
        }
    }

    /// The holder of `text` if it is a valid key.
    pub async fn verify(&self, text: &str) -> Result<Option<Arc<KeyHolder>>, Problem> {
        let Some(key) = ApiKey::parse(text) else {
            return Ok(None);
        };
        let holder = self.find(key.id()).await.map_err(refusal)?;
        let now = clock::unix_millis();
        let is_valid = |row: &ApiKeyRow| key.matches(row, now) && row.lasts(now);
        let holder = holder.filter(|holder| is_valid(&holder.key));
        if holder.is_some() {
            self.uses.note(key.id(), now);
        }
        Ok(holder)
    }

    /// The holder of the key `id` that has not expired, of a session that began with that key.
    pub async fn holder(&self, id: &str) -> Result<Option<Arc<KeyHolder>>, Problem> {
        let holder = self.find(id).await.map_err(refusal)?;
        let now = clock::unix_millis();
        let lasts = |holder: &Arc<KeyHolder>| holder.key.lasts(now);
        Ok(holder.filter(lasts))
    }

    /// The holder of the key `id`.
    async fn find(&self, id: &str) -> Result<Option<Arc<KeyHolder>>, Arc<KeyLookupError>> {
        let page = |after, limit| self.store.key_places(after, limit);
        if self.ids.has(id, page).await? {
            self.cache.find(id, self.store.find_api_key(id)).await
        } else {
            Ok(None)
        }
    }

    /// Reads the ids of all keys, so that the first requests need not wait for them.
    pub async fn prepare(&self) {
        if let Err(error) = self.find(&"0".repeat(16)).await {
            tracing::warn!(%error, "failed to read API key ids; retrying on first use");
        }
    }

    /// Notes the id of a key that this process has made.
    pub(crate) fn add(&self, id: &str) {
        self.ids.add(id);
    }

    /// Makes this process look the key up again, after a change of it.
    pub(crate) async fn forget(&self, id: &str) {
        self.cache.0.invalidate(id).await;
    }

    /// Makes this process look all keys up again, after a change of a user.
    pub fn forget_all(&self) {
        self.cache.0.invalidate_all();
    }

    /// The last uses of keys.
    pub fn uses(&self) -> &KeyUses {
        &self.uses
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn refusal(error: Arc<KeyLookupError>) -> Problem {
    match &*error {
        KeyLookupError::Store(error) => Problem::store(error),
        KeyLookupError::Overloaded => {
            Problem::new(Kind::Overloaded).with_detail("too many unknown keys are sent")
        }
    }
}

/// Keys by their id, and their absence, cached for `auth.key_cache_ms`.
struct KeyCache(Cache<String, LookedUp>);

/// The database's answer about a key.
#[derive(Clone)]
struct LookedUp {
    holder: Option<Arc<KeyHolder>>,
    /// Start of the lookup.
    since: Instant,
}

impl LookedUp {
    /// Weight in units of `auth.key_cache_entries`: one, and one more for each [`ENTRY_BYTES`] of the key's texts.
    fn weight(&self) -> u32 {
        let texts = self.holder.as_ref().map_or(0, |holder| holder.key.bytes());
        u32::try_from(1 + texts / ENTRY_BYTES).unwrap_or(u32::MAX)
    }
}

/// Counts the time to live from the start of the lookup, because the answer may take some time.
struct SinceAsked(Duration);

impl Expiry<String, LookedUp> for SinceAsked {
    fn expire_after_create(&self, _: &String, found: &LookedUp, _: Instant) -> Option<Duration> {
        Some(self.0.saturating_sub(found.since.elapsed()))
    }
}

impl KeyCache {
    fn new(config: &AuthConfig) -> Self {
        Self(
            Cache::builder()
                .max_capacity(config.key_cache_entries)
                .weigher(|_, found: &LookedUp| found.weight())
                .expire_after(SinceAsked(config.key_cache_ms))
                .build(),
        )
    }

    /// The holder of the key `id`, by `look_up` if it is not in the cache. Requests with the same id share one lookup.
    async fn find(
        &self,
        id: &str,
        look_up: impl Future<Output = Result<Option<KeyHolder>, StoreError>>,
    ) -> Result<Option<Arc<KeyHolder>>, Arc<KeyLookupError>> {
        let look_up = async {
            let since = Instant::now();
            let holder = look_up.await?.map(Arc::new);
            Ok(LookedUp { holder, since })
        };
        let found = self.0.try_get_with_by_ref(id, look_up).await?;
        Ok(found.holder)
    }
}
