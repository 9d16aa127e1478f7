//! The last use of each API key.

use edgelink_model::latest::Latest;
use edgelink_store::Store;
use std::sync::Arc;
use std::time::Duration;

/// Time until a use is written. A process that is killed loses the uses of this time.
const FLUSH_INTERVAL: Duration = Duration::from_mins(1);

/// The last uses that are not written yet, at most one per key: only valid keys are noted.
pub struct KeyUses {
    store: Arc<Store>,
    last: Latest<String, u64>,
}

impl KeyUses {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            last: Latest::new(usize::MAX),
        }
    }

    /// Notes that the key `id` is used at `now`, unix milliseconds.
    pub(crate) fn note(&self, id: &str, now: u64) {
        self.last.note(id, now, |at, now| *at = now.max(*at));
    }

    /// Writes the uses each minute, forever.
    pub async fn keep_writing(&self) {
        loop {
            tokio::time::sleep(FLUSH_INTERVAL).await;
            self.write().await;
        }
    }

    /// Writes the uses now. Uses that cannot be written are lost; the next use of the key is noted again.
    pub async fn write(&self) {
        let uses = self.last.take();
        if let Err(error) = self.store.note_key_uses(&uses).await {
            tracing::warn!(%error, keys = uses.len(), "failed to record last use of API keys");
        }
    }
}
