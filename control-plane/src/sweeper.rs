//! Removes what is over: links past their validity, tombstones that no cache can need any more, receipts of requests that
//! nobody repeats any more. In small batches, each a transaction of its own, and by one replica at a time.

use crate::config::{ClicksConfig, SweeperConfig};
use crate::store::{Store, StoreError};
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;

/// The name of the lease.
const LEASE: &str = "sweeper";

/// How long the lease lasts without being renewed, in milliseconds. It is renewed with every batch.
const LEASE_MS: u64 = 30_000;

/// How long receipts are kept, in milliseconds: what `Idempotency-Key` promises.
const RECEIPTS_MS: u64 = DAY_MS;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How long it is known which batches of clicks were counted, in minutes.
const BATCH_MINUTES: u64 = 24 * 60;

/// A pause between batches, so that everybody else's transactions come first.
const PAUSE: Duration = Duration::from_millis(20);

const SWEPT: &str = "edgelink_swept_total";
const FAILURES: &str = "edgelink_sweep_failures_total";

/// Removes what is over.
pub struct Sweeper {
    store: Arc<Store>,
    settings: SweeperConfig,
    click_minutes: u64,
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
    /// Links from before there were hashes of contents: these are not removed, but hashed.
    pub hashed: u64,
    /// Counts of clicks, and notes of what was counted.
    pub clicks: u64,
}

/// What there is to remove.
#[derive(Clone, Copy)]
enum Kind {
    Links,
    Tombstones,
    Receipts,
    Unhashed,
    Clicks,
}

impl Sweeper {
    /// A sweeper with a name of its own.
    #[must_use]
    pub fn new(store: Arc<Store>, settings: &SweeperConfig, clicks: &ClicksConfig) -> Self {
        let random = getrandom::u64().unwrap_or_default();
        Self {
            store,
            settings: settings.clone(),
            click_minutes: clicks.keep_minutes,
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

    /// Removes everything that is over now. `None` where another replica is at it. A kind that fails does not keep the
    /// others from being swept.
    ///
    /// # Errors
    /// The last one of the store; what was removed stays removed.
    pub async fn sweep(&self) -> Result<Option<Swept>, StoreError> {
        let mut swept = Swept::default();
        let mut failure = None;
        for kind in Kind::ALL {
            match self.sweep_all(kind).await {
                Ok(Some(count)) => *swept.of(kind) = count,
                Ok(None) => return Ok(None),
                Err(error) => {
                    counter!(FAILURES, "kind" => kind.label()).increment(1);
                    if let Some(error) = failure.replace(error) {
                        tracing::warn!(%error, "sweeping goes on with the next kind");
                    }
                }
            }
        }
        self.store.release_lease(LEASE, &self.owner).await?;
        failure.map_or(Ok(Some(swept)), Err)
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
            if count < u64::from(self.limit(kind)) {
                return Ok(Some(total));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// How many rows a transaction removes. Those of clicks are small, and there can be millions of them in an hour.
    fn limit(&self, kind: Kind) -> u32 {
        let batch = self.settings.batch;
        match kind {
            Kind::Clicks => (batch * 10).clamp(1, 10_000),
            _ => batch,
        }
    }

    /// Removes a batch of what is over by the database's clock.
    async fn sweep_batch(&self, kind: Kind) -> Result<u64, StoreError> {
        let SweeperConfig {
            grace_seconds,
            tombstone_days,
            batch,
            ..
        } = self.settings;
        match kind {
            Kind::Links => self.store.sweep_expired(grace_seconds, batch).await,
            Kind::Tombstones => {
                let kept = tombstone_days * DAY_MS;
                self.store.purge_tombstones(kept, batch).await
            }
            Kind::Receipts => self.store.purge_receipts(RECEIPTS_MS, batch).await,
            Kind::Unhashed => self.store.hash_contents(batch).await,
            Kind::Clicks => {
                let (minutes, limit) = (self.click_minutes, self.limit(kind));
                let purged = self.store.purge_clicks(minutes, BATCH_MINUTES, limit);
                purged.await
            }
        }
    }
}

impl Swept {
    fn of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Links => &mut self.links,
            Kind::Tombstones => &mut self.tombstones,
            Kind::Receipts => &mut self.receipts,
            Kind::Unhashed => &mut self.hashed,
            Kind::Clicks => &mut self.clicks,
        }
    }
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Links,
        Self::Tombstones,
        Self::Receipts,
        Self::Unhashed,
        Self::Clicks,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Tombstones => "tombstones",
            Self::Receipts => "receipts",
            Self::Unhashed => "unhashed",
            Self::Clicks => "clicks",
        }
    }
}
