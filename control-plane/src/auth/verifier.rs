//! Checks API keys against the store, with a small cache in front.

use super::api_key::ApiKey;
use crate::config::AuthConfig;
use crate::store::{ApiKeyRow, Store, StoreError};
use moka::future::Cache;
use std::sync::Arc;

/// Checks API keys. Rows, and that there is none, are kept for `auth.key_cache_ms`: that is for how long a revoked key goes
/// on working. The secret is compared at every request.
pub(crate) struct KeyVerifier {
    store: Arc<dyn Store>,
    rows: Cache<String, Option<Arc<ApiKeyRow>>>,
}

impl KeyVerifier {
    pub(crate) fn new(store: Arc<dyn Store>, config: &AuthConfig) -> Self {
        let rows = Cache::builder()
            .max_capacity(config.key_cache_entries)
            .time_to_live(config.key_cache_time())
            .build();
        Self { store, rows }
    }

    /// The row of `text` where it is a key that somebody was given. Requests with the same key share one look into the store.
    pub(crate) async fn verify(
        &self,
        text: &str,
    ) -> Result<Option<Arc<ApiKeyRow>>, Arc<StoreError>> {
        let Some(key) = ApiKey::parse(text) else {
            return Ok(None);
        };
        let look_up = async {
            let row = self.store.find_api_key(key.id()).await?;
            Ok(row.map(Arc::new))
        };
        let row = self.rows.try_get_with_by_ref(key.id(), look_up).await?;
        Ok(row.filter(|row| key.matches(row)))
    }
}
