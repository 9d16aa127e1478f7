//! Checks API keys against the store, with a small cache in front.

use super::api_key::ApiKey;
use super::key_cache::{KeyCache, KeyLookupError};
use crate::config::AuthConfig;
use crate::problem::{Kind, Problem};
use crate::store::{ApiKeyRow, Store};
use std::sync::Arc;

/// Checks API keys. Rows, and that there is none, are kept for `auth.key_cache_ms`: that is for how long a revoked key goes
/// on working. The secret is compared at every request.
pub(crate) struct KeyVerifier {
    store: Arc<Store>,
    cache: KeyCache,
}

impl KeyVerifier {
    pub(crate) fn new(store: Arc<Store>, config: &AuthConfig) -> Self {
        let cache = KeyCache::new(config);
        Self { store, cache }
    }

    /// The row of `text` where it is a key that somebody was given.
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
