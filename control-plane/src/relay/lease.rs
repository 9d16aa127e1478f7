//! The lease that makes one replica publish at a time.

use crate::store::{Store, StoreError};
use rand::random;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const NAME: &str = "relay";

/// The lease, held or not.
pub(super) struct Lease {
    store: Arc<dyn Store>,
    owner: String,
    duration: Duration,
    /// Until when it is ours, reckoned from before it was asked for, so that this clock never runs longer than the database's.
    held_until: Option<Instant>,
    /// Not before then somebody else's lease is asked for again.
    ask_at: Instant,
}

impl Lease {
    pub(super) fn new(store: Arc<dyn Store>, duration: Duration) -> Self {
        Self {
            store,
            owner: format!("{:032x}", random::<u128>()),
            duration,
            held_until: None,
            ask_at: Instant::now(),
        }
    }

    /// Whether the lease is ours; takes or renews it where it is time to.
    pub(super) async fn hold(&mut self) -> Result<bool, StoreError> {
        let now = Instant::now();
        let is_fresh = |until: Instant| until > now + self.duration * 2 / 3;
        if self.held_until.is_some_and(is_fresh) {
            return Ok(true);
        }
        if self.held_until.is_none() && now < self.ask_at {
            return Ok(false);
        }
        self.ask(now).await
    }

    async fn ask(&mut self, now: Instant) -> Result<bool, StoreError> {
        self.ask_at = now + self.duration / 10;
        let milliseconds = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX);
        let was_held = self.held_until.take().is_some();
        let is_held = self
            .store
            .take_lease(NAME, &self.owner, milliseconds)
            .await?;
        self.held_until = is_held.then(|| now + self.duration);
        if is_held != was_held {
            tracing::info!(is_held, "the lease of the relay changed hands");
        }
        Ok(is_held)
    }

    /// Gives it back, so that another replica need not wait for its end.
    pub(super) async fn release(&mut self) {
        if self.held_until.take().is_none() {
            return;
        }
        if let Err(error) = self.store.release_lease(NAME, &self.owner).await {
            tracing::warn!(%error, "the lease of the relay ends by itself");
        }
    }
}
