//! Checks API keys against the store, with a cache in front that bounds how many are looked up at once.

use super::api_key::ApiKey;
use super::key_uses::KeyUses;
use crate::clock;
use crate::config::AuthConfig;
use crate::problem::{Kind, Problem};
use crate::store::{ApiKeyRow, KeyHolder, Store, StoreError};
use moka::Expiry;
use moka::future::Cache;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Checks API keys. Rows, and their absence, are cached for `auth.key_cache_ms` from the moment at which the database is
/// asked: for so long a revoked key still works. The secret and the end of the key are checked at every request.
pub(crate) struct KeyVerifier {
    store: Arc<Store>,
    cache: KeyCache,
    uses: KeyUses,
}

impl KeyVerifier {
    pub(crate) fn new(store: Arc<Store>, config: &AuthConfig) -> Self {
        Self {
            cache: KeyCache::new(config),
            uses: KeyUses::new(store.clone()),
            store,
        }
    }

    /// The holder of `text` if it is a valid key.
    pub(crate) async fn verify(&self, text: &str) -> Result<Option<Arc<KeyHolder>>, Problem> {
        let Some(key) = ApiKey::parse(text) else {
            return Ok(None);
        };
        let look_up = self.store.find_api_key(key.id());
        let holder = self.cache.find(key.id(), look_up).await;
        let holder = holder.map_err(|error| match &*error {
            KeyLookupError::Store(error) => Problem::store(error),
            KeyLookupError::Overloaded => {
                Problem::new(Kind::Overloaded).with_detail("too many unknown keys are sent")
            }
        })?;
        let now = clock::unix_millis();
        let is_valid = |row: &ApiKeyRow| {
            key.matches(row, now) && row.expires_at.is_none_or(|expires_at| now < expires_at)
        };
        let holder = holder.filter(|holder| is_valid(&holder.key));
        if holder.is_some() {
            self.uses.note(key.id(), now);
        }
        Ok(holder)
    }

    /// Makes this process look the key up again, after a change of it.
    pub(crate) async fn forget(&self, id: &str) {
        self.cache.holders.invalidate(id).await;
    }

    /// Makes this process look all keys up again, after a change of a user.
    pub(crate) fn forget_all(&self) {
        self.cache.holders.invalidate_all();
    }

    /// When keys were used.
    pub(crate) fn uses(&self) -> &KeyUses {
        &self.uses
    }
}

/// Keys by their id, and their absence, cached for `auth.key_cache_ms`.
///
/// Each invented key costs a lookup. So lookups of ids without a known row have a bound of their own, and keys in use do not
/// compete with invented ones.
struct KeyCache {
    holders: Cache<String, LookedUp>,
    /// The ids that had a row when they were looked up last.
    known: Cache<String, ()>,
    unknown: Semaphore,
}

/// What the database has answered about a key.
#[derive(Clone)]
struct LookedUp {
    holder: Option<Arc<KeyHolder>>,
    /// When it was asked.
    since: Instant,
}

/// Counts the time to live from the question, because the answer may take its time.
struct SinceAsked(Duration);

impl Expiry<String, LookedUp> for SinceAsked {
    fn expire_after_create(&self, _: &String, found: &LookedUp, _: Instant) -> Option<Duration> {
        Some(self.0.saturating_sub(found.since.elapsed()))
    }
}

/// Why a key cannot be looked up.
#[derive(Debug, thiserror::Error)]
enum KeyLookupError {
    /// As many unknown keys as allowed are being looked up.
    #[error("too many unknown keys are being looked up")]
    Overloaded,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl KeyCache {
    fn new(config: &AuthConfig) -> Self {
        Self {
            holders: Cache::builder()
                .max_capacity(config.key_cache_entries)
                .expire_after(SinceAsked(config.key_cache_ms))
                .build(),
            known: Cache::new(config.key_cache_entries),
            unknown: Semaphore::new(config.max_key_lookups),
        }
    }

    /// The holder of the key `id`, by `look_up` if it is not in the cache. Requests with the same id share one lookup.
    async fn find(
        &self,
        id: &str,
        look_up: impl Future<Output = Result<Option<KeyHolder>, StoreError>>,
    ) -> Result<Option<Arc<KeyHolder>>, Arc<KeyLookupError>> {
        let look_up = async {
            let _permit = self.permit(id)?;
            let since = Instant::now();
            let holder = look_up.await?;
            match holder {
                Some(_) => self.known.insert(id.to_owned(), ()).await,
                None => self.known.invalidate(id).await,
            }
            let holder = holder.map(Arc::new);
            Ok(LookedUp { holder, since })
        };
        let found = self.holders.try_get_with_by_ref(id, look_up).await?;
        Ok(found.holder)
    }

    /// A permit to look an unknown id up; a known one needs none. It is refused at once: waiting requests would take the place
    /// of all others.
    fn permit(&self, id: &str) -> Result<Option<SemaphorePermit<'_>>, KeyLookupError> {
        if self.known.contains_key(id) {
            return Ok(None);
        }
        let permit = self.unknown.try_acquire();
        permit.map(Some).map_err(|_| KeyLookupError::Overloaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::Role;
    use std::future::{pending, ready};

    fn cache() -> KeyCache {
        KeyCache::new(&AuthConfig {
            key_cache_ms: std::time::Duration::ZERO,
            max_key_lookups: 2,
            ..AuthConfig::default()
        })
    }

    fn holder() -> KeyHolder {
        KeyHolder {
            key: ApiKey::generate().unwrap().row("a", 1),
            user_role: Role::Admin,
        }
    }

    #[tokio::test]
    async fn unknown_keys_are_looked_up_within_a_bound_and_known_ones_always() {
        let cache = Arc::new(cache());
        let found = cache.find("known", ready(Ok(Some(holder())))).await;
        assert!(found.unwrap().is_some());
        let hanging: Vec<_> = ["one", "two"]
            .map(|id| {
                let cache = cache.clone();
                tokio::spawn(async move { cache.find(id, pending()).await.is_ok() })
            })
            .into();
        while cache.unknown.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = cache.find("three", ready(Ok(None))).await.unwrap_err();
        assert!(matches!(*refused, KeyLookupError::Overloaded), "{refused}");
        let found = cache.find("known", ready(Ok(Some(holder())))).await;
        assert!(found.unwrap().is_some(), "a known key needs no room");

        hanging.iter().for_each(tokio::task::JoinHandle::abort);
        for lookup in hanging {
            assert!(lookup.await.unwrap_err().is_cancelled());
        }
        let found = cache.find("three", ready(Ok(None))).await;
        assert!(found.unwrap().is_none(), "room again");
    }

    #[tokio::test]
    async fn a_key_that_was_revoked_is_unknown_again() {
        let cache = cache();
        for (row, is_known) in [(Some(holder()), true), (None, false)] {
            cache.find("a", ready(Ok(row))).await.unwrap();
            assert_eq!(cache.known.contains_key("a"), is_known);
        }
    }
}
