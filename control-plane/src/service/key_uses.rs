//! When keys were used last.

use crate::latest::Latest;
use crate::store::Store;
use std::sync::Arc;
use std::time::Duration;

/// How long a use waits until it is written. A process that is killed loses so much.
const FLUSH_INTERVAL: Duration = Duration::from_mins(1);

/// The uses since they were written last. Only valid keys are noted, so there are no more than keys.
pub(crate) struct KeyUses {
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

    /// Writes them each minute, for ever.
    pub(crate) async fn keep_writing(&self) {
        loop {
            tokio::time::sleep(FLUSH_INTERVAL).await;
            self.write().await;
        }
    }

    /// Writes them now. Those that cannot be written are lost: the next use of the key is noted again.
    pub(crate) async fn write(&self) {
        let uses = self.last.take();
        if let Err(error) = self.store.note_key_uses(&uses).await {
            tracing::warn!(%error, keys = uses.len(), "the last uses of keys are not noted");
        }
    }
}
