//! Removes what is over: links past their validity, tombstones that no cache can need any more, receipts of requests that
//! nobody repeats any more. In small batches, each a transaction of its own, and by one replica at a time.

use crate::clock;
use crate::config::SweeperConfig;
use crate::store::{Store, StoreError};
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;

/// The name of the lease.
const LEASE: &str = "sweeper";

/// How long the lease lasts without being renewed, in milliseconds. It is renewed with every batch.
const LEASE_MS: u64 = 30_000;

/// How long receipts are kept, in milliseconds: what `Idempotency-Key` promises.
const RECEIPTS_MS: u64 = 24 * 60 * 60 * 1000;

/// A pause between batches, so that everybody else's transactions come first.
const PAUSE: Duration = Duration::from_millis(20);

const SWEPT: &str = "edgelink_swept_total";

/// Removes what is over.
pub struct Sweeper {
    store: Arc<dyn Store>,
    settings: SweeperConfig,
    owner: String,
}

/// What one pass has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Links past their validity.
    pub links: u64,
    /// Tombstones of deleted links.
    pub tombstones: u64,
    /// Receipts of requests with an `Idempotency-Key`.
    pub receipts: u64,
}

/// What there is to remove.
#[derive(Clone, Copy)]
enum Kind {
    Links,
    Tombstones,
    Receipts,
}

impl Sweeper {
    /// A sweeper with a name of its own.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, settings: SweeperConfig) -> Self {
        let random = getrandom::u64().unwrap_or_default();
        Self {
            store,
            settings,
            owner: format!("{}-{random:016x}", std::process::id()),
        }
    }

    /// Sweeps at every interval, for ever; does nothing where none is configured.
    pub async fn run(self) {
        let Some(interval) = self.settings.interval() else {
            return;
        };
        let mut interval = tokio::time::interval(interval);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            match self.sweep().await {
                Ok(Some(swept)) if swept != Swept::default() => {
                    tracing::info!(?swept, "removed what is over");
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "sweeping is tried again later"),
            }
        }
    }

    /// Removes everything that is over now. `None` where another replica is at it.
    ///
    /// # Errors
    /// That of the store; what was removed until then stays removed.
    pub async fn sweep(&self) -> Result<Option<Swept>, StoreError> {
        let mut swept = Swept::default();
        for kind in [Kind::Links, Kind::Tombstones, Kind::Receipts] {
            let Some(count) = self.sweep_all(kind).await? else {
                return Ok(None);
            };
            match kind {
                Kind::Links => swept.links = count,
                Kind::Tombstones => swept.tombstones = count,
                Kind::Receipts => swept.receipts = count,
            }
        }
        self.store.release_lease(LEASE, &self.owner).await?;
        Ok(Some(swept))
    }

    async fn sweep_all(&self, kind: Kind) -> Result<Option<u64>, StoreError> {
        let mut total = 0;
        loop {
            if !self.store.take_lease(LEASE, &self.owner, LEASE_MS).await? {
                return Ok(None);
            }
            let count = self.sweep_batch(kind).await?;
            counter!(SWEPT, "kind" => kind.label()).increment(count);
            total += count;
            if count < u64::from(self.settings.batch) {
                return Ok(Some(total));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn sweep_batch(&self, kind: Kind) -> Result<u64, StoreError> {
        let settings = &self.settings;
        let now = clock::unix_millis();
        match kind {
            Kind::Links => {
                let valid_until = (now / 1000).saturating_sub(settings.grace_seconds);
                self.store.sweep_expired(valid_until, settings.batch).await
            }
            Kind::Tombstones => {
                let kept = settings.tombstone_days * 24 * 60 * 60 * 1000;
                let before = now.saturating_sub(kept);
                self.store.purge_tombstones(before, settings.batch).await
            }
            Kind::Receipts => {
                let before = now.saturating_sub(RECEIPTS_MS);
                self.store.purge_receipts(before, settings.batch).await
            }
        }
    }
}

impl Kind {
    fn label(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Tombstones => "tombstones",
            Self::Receipts => "receipts",
        }
    }
}
