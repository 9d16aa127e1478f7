//! Checks API keys against the store, with a cache in front that bounds how many are looked up at once.

use super::api_key::ApiKey;
use crate::config::AuthConfig;
use crate::problem::{Kind, Problem};
use crate::store::{ApiKeyRow, Store, StoreError};
use moka::future::Cache;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Checks API keys. Rows, and their absence, are cached for `auth.key_cache_ms`: for so long a revoked key still works. The
/// secret is compared at every request.
pub(crate) struct KeyVerifier {
    store: Arc<Store>,
    cache: KeyCache,
}

impl KeyVerifier {
    pub(crate) fn new(store: Arc<Store>, config: &AuthConfig) -> Self {
        let cache = KeyCache::new(config);
        Self { store, cache }
    }

    /// The row of `text` if it is a valid key.
    pub(crate) async fn verify(&self, text: &str) -> Result<Option<Arc<ApiKeyRow>>, Problem> {
        let Some(key) = ApiKey::parse(text) else {
            return Ok(None);
        };
        let look_up = self.store.find_api_key(key.id());
        let row = self.cache.find(key.id(), look_up).await;
        let row = row.map_err(|error| match &*error {
            KeyLookupError::Store(error) => Problem::store(error),
            KeyLookupError::Overloaded => {
                Problem::new(Kind::Overloaded).with_detail("too many unknown keys are sent")
            }
        })?;
        Ok(row.filter(|row| key.matches(row)))
    }
}

/// Rows by the id of their key, and their absence, cached for `auth.key_cache_ms`.
///
/// Each invented key costs a lookup. So lookups of ids without a known row have a bound of their own, and keys in use do not
/// compete with invented ones.
struct KeyCache {
    rows: Cache<String, Option<Arc<ApiKeyRow>>>,
    /// The ids that had a row when they were looked up last.
    known: Cache<String, ()>,
    unknown: Semaphore,
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
            rows: Cache::builder()
                .max_capacity(config.key_cache_entries)
                .time_to_live(config.key_cache_ms)
                .build(),
            known: Cache::new(config.key_cache_entries),
            unknown: Semaphore::new(config.max_key_lookups),
        }
    }

    /// The row of the key `id`, by `look_up` if it is not in the cache. Requests with the same id share one lookup.
    async fn find(
        &self,
        id: &str,
        look_up: impl Future<Output = Result<Option<ApiKeyRow>, StoreError>>,
    ) -> Result<Option<Arc<ApiKeyRow>>, Arc<KeyLookupError>> {
        let look_up = async {
            let _permit = self.permit(id)?;
            let row = look_up.await?;
            match row {
                Some(_) => self.known.insert(id.to_owned(), ()).await,
                None => self.known.invalidate(id).await,
            }
            Ok(row.map(Arc::new))
        };
        self.rows.try_get_with_by_ref(id, look_up).await
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
    use std::future::{pending, ready};

    fn cache() -> KeyCache {
        KeyCache::new(&AuthConfig {
            key_cache_ms: std::time::Duration::ZERO,
            max_key_lookups: 2,
            ..AuthConfig::default()
        })
    }

    fn row(id: &str) -> ApiKeyRow {
        ApiKeyRow {
            id: id.to_owned(),
            name: "a".to_owned(),
            secret_hash: [0; 32],
            created_at: 1,
        }
    }

    #[tokio::test]
    async fn unknown_keys_are_looked_up_within_a_bound_and_known_ones_always() {
        let cache = Arc::new(cache());
        let found = cache.find("known", ready(Ok(Some(row("known"))))).await;
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
        let found = cache.find("known", ready(Ok(Some(row("known"))))).await;
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
        for (row, is_known) in [(Some(row("a")), true), (None, false)] {
            cache.find("a", ready(Ok(row))).await.unwrap();
            assert_eq!(cache.known.contains_key("a"), is_known);
        }
    }
}
