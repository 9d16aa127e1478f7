//! When keys were used last, gathered here so that a request costs no write.

use crate::store::Store;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a use waits until it is written. A process that is killed loses so much.
const FLUSH_INTERVAL: Duration = Duration::from_mins(1);

/// The uses since they were written last. Only valid keys are noted, so there are no more than keys.
pub(crate) struct KeyUses {
    store: Arc<Store>,
    last: Mutex<HashMap<String, u64>>,
}

impl KeyUses {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            last: Mutex::default(),
        }
    }

    /// Notes that the key `id` is used at `now`, unix milliseconds.
    pub(super) fn note(&self, id: &str, now: u64) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.get_mut(id) {
            Some(at) => *at = now.max(*at),
            None => drop(last.insert(id.to_owned(), now)),
        }
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
        let last = std::mem::take(&mut *self.last.lock().unwrap_or_else(PoisonError::into_inner));
        let mut uses: Vec<(String, u64)> = last.into_iter().collect();
        // In one order, so that replicas do not deadlock.
        uses.sort_unstable();
        if let Err(error) = self.store.note_key_uses(&uses).await {
            tracing::warn!(%error, keys = uses.len(), "the last uses of keys are not noted");
        }
    }
}
