//! Purges expired links, and tombstones, receipts and clicks past their retention: in small batches, each a transaction of its
//! own, and by one replica at a time.

use edgelink_click_store::ClickRetention;
use edgelink_settings::config::{AnalyticsConfig, PurgeConfig};
use edgelink_settings::telemetry::prometheus::{PURGE_DUE, PURGE_FAILURES, PURGED, REPORTS_OPEN};
use edgelink_store::lease::NamedLease;
use edgelink_store::{Store, StoreError};
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;

/// Name of the lease, as in the migrations.
const LEASE: &str = "sweeper";

/// Duration of the lease.
const LEASE_TIME: Duration = Duration::from_secs(30);

/// Retention of receipts in milliseconds, as promised for `Idempotency-Key`.
const RECEIPT_RETENTION_MILLIS: u64 = DAY_MILLIS;

/// Retention of edge workers that no longer report, in milliseconds.
const HEALTH_RETENTION_MILLIS: u64 = DAY_MILLIS;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// The pause between batches, so that other transactions come first.
const PAUSE: Duration = Duration::from_millis(20);

/// Purges expired rows.
pub struct Purger {
    store: Arc<Store>,
    settings: PurgeConfig,
    clicks: ClickRetention,
    click_id_days: u64,
    conversion_days: u64,
    lease: NamedLease,
}

/// Counts of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Links past their validity.
    pub links: u64,
    /// Tombstones of deleted links.
    pub tombstones: u64,
    /// Receipts of requests with an `Idempotency-Key`.
    pub receipts: u64,
    /// Links from before hashes of contents existed: they are not removed, but hashed.
    pub hashed: u64,
    /// Clicks, and numbers of counted batches.
    pub clicks: u64,
    /// Ids of clicks for which conversions are no longer accepted.
    pub click_ids: u64,
    /// Conversions and their daily sums.
    pub conversions: u64,
    /// Entries of the audit log.
    pub audit: u64,
    /// Deliveries to webhooks that were completed or given up.
    pub deliveries: u64,
    /// Deliveries to webhooks that were still pending.
    pub undelivered: u64,
    /// Expired blocks of uses.
    pub visit_leases: u64,
    /// Expired sessions of the console.
    pub sessions: u64,
    /// Edge workers that have not reported for a day.
    pub edge_health: u64,
}

/// A kind of row to purge.
#[derive(Clone, Copy)]
enum PurgeKind {
    Links,
    Tombstones,
    Receipts,
    Unhashed,
    Clicks,
    ClickIds,
    Conversions,
    Audit,
    Deliveries,
    Undelivered,
    VisitLeases,
    Sessions,
    EdgeHealth,
}

impl Purger {
    /// Creates a purger that holds the lease under a unique name.
    #[must_use]
    pub fn new(store: Arc<Store>, settings: &PurgeConfig, analytics: &AnalyticsConfig) -> Self {
        Self {
            lease: NamedLease::new(Arc::clone(&store), LEASE, LEASE_TIME),
            store,
            settings: settings.clone(),
            clicks: ClickRetention {
                hours: analytics.hours_days,
                days: analytics.days,
                raw: analytics.raw_days,
            },
            click_id_days: analytics.click_id_days,
            conversion_days: analytics.conversion_days,
        }
    }

    /// Purges at every interval, forever; returns at once if the interval is 0.
    pub async fn run(mut self) {
        if self.settings.interval_seconds.is_zero() {
            return;
        }
        let mut interval = tokio::time::interval(self.settings.interval_seconds);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            match self.purge().await {
                Ok(Some(purged)) if purged != Purged::default() => {
                    tracing::info!(?purged, "purge complete");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "purging failed; retrying after purge.interval_seconds");
                }
            }
        }
    }

    /// Purges all kinds; `None` if another replica purges. If a kind fails, the next one is still purged.
    ///
    /// # Errors
    /// The last failure of the store; removed rows stay removed.
    pub async fn purge(&mut self) -> Result<Option<Purged>, StoreError> {
        let mut purged = Purged::default();
        let mut failure = None;
        for kind in PurgeKind::ALL {
            match self.purge_all(kind).await {
                Ok(Some(count)) => *purged.of(kind) = count,
                Ok(None) => return Ok(None),
                Err(error) => {
                    counter!(PURGE_FAILURES, "kind" => kind.label()).increment(1);
                    if let Some(error) = failure.replace(error) {
                        tracing::warn!(%error, "purging one kind of row failed; continuing with the next");
                    }
                }
            }
        }
        self.lease.release().await?;
        match failure {
            Some(error) => Err(error),
            None => {
                self.measure_left().await;
                Ok(Some(purged))
            }
        }
    }

    async fn measure_left(&self) {
        let PurgeConfig {
            grace_seconds,
            count_limit,
            ..
        } = self.settings;
        match self.store.count_expired(grace_seconds, count_limit).await {
            Ok(due) => gauge!(PURGE_DUE).set(due as f64),
            Err(error) => {
                tracing::warn!(%error, "counting expired links failed; edgelink_purge_due_links keeps its value");
            }
        }
        match self.store.count_open_reports().await {
            Ok(open) => gauge!(REPORTS_OPEN).set(open as f64),
            Err(error) => {
                tracing::warn!(%error, "counting open abuse reports failed; edgelink_reports_open keeps its value");
            }
        }
    }

    async fn purge_all(&mut self, kind: PurgeKind) -> Result<Option<u64>, StoreError> {
        let mut total = 0;
        loop {
            if !self.lease.hold().await? {
                return Ok(None);
            }
            let Some(count) = self.purge_batch(kind).await? else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            counter!(PURGED, "kind" => kind.label()).increment(count);
            total += count;
            if count < u64::from(self.limit(kind)) {
                return Ok(Some(total));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Rows that a transaction removes: more for clicks, which are small and come by the million each hour.
    fn limit(&self, kind: PurgeKind) -> u32 {
        let batch = self.settings.batch;
        match kind {
            PurgeKind::Clicks | PurgeKind::ClickIds => (batch * 10).clamp(1, 10_000),
            _ => batch,
        }
    }

    /// Purges a batch of a kind, by the database's clock; `None` if it is not complete yet.
    async fn purge_batch(&self, kind: PurgeKind) -> Result<Option<u64>, StoreError> {
        if let PurgeKind::Tombstones = kind {
            let kept = self.settings.tombstone_days * DAY_MILLIS;
            return self.store.purge_tombstones(kept, self.settings.batch).await;
        }
        self.purge_rows(kind).await.map(Some)
    }

    /// Purges rows of a kind. Tombstones have more than a row: see [`Self::purge_batch`].
    async fn purge_rows(&self, kind: PurgeKind) -> Result<u64, StoreError> {
        let PurgeConfig {
            grace_seconds,
            audit_days,
            delivery_days,
            batch,
            ..
        } = self.settings;
        match kind {
            PurgeKind::Links => self.store.purge_expired(grace_seconds, batch).await,
            PurgeKind::Tombstones => Ok(0),
            PurgeKind::Receipts => {
                self.store
                    .purge_receipts(RECEIPT_RETENTION_MILLIS, batch)
                    .await
            }
            PurgeKind::Unhashed => self.store.hash_contents(batch).await,
            PurgeKind::Clicks => {
                let limit = self.limit(kind);
                self.store.clicks().purge_clicks(self.clicks, limit).await
            }
            PurgeKind::ClickIds => {
                let kept = self.click_id_days * DAY_MILLIS / 1000;
                self.store
                    .clicks()
                    .purge_click_ids(kept, self.limit(kind))
                    .await
            }
            PurgeKind::Conversions => {
                let kept = self.conversion_days * DAY_MILLIS / 1000;
                self.store.clicks().purge_conversions(kept, batch).await
            }
            PurgeKind::Audit => {
                let kept = audit_days * DAY_MILLIS;
                self.store.purge_audit(kept, batch).await
            }
            PurgeKind::Deliveries | PurgeKind::Undelivered => {
                let kept = delivery_days * DAY_MILLIS;
                let is_waiting = matches!(kind, PurgeKind::Undelivered);
                self.store.purge_deliveries(is_waiting, kept, batch).await
            }
            PurgeKind::VisitLeases => self.store.purge_visit_leases(batch).await,
            PurgeKind::Sessions => self.store.purge_sessions(batch).await,
            PurgeKind::EdgeHealth => {
                self.store
                    .purge_health(HEALTH_RETENTION_MILLIS, batch)
                    .await
            }
        }
    }
}

impl Purged {
    fn of(&mut self, kind: PurgeKind) -> &mut u64 {
        match kind {
            PurgeKind::Links => &mut self.links,
            PurgeKind::Tombstones => &mut self.tombstones,
            PurgeKind::Receipts => &mut self.receipts,
            PurgeKind::Unhashed => &mut self.hashed,
            PurgeKind::Clicks => &mut self.clicks,
            PurgeKind::ClickIds => &mut self.click_ids,
            PurgeKind::Conversions => &mut self.conversions,
            PurgeKind::Audit => &mut self.audit,
            PurgeKind::Deliveries => &mut self.deliveries,
            PurgeKind::Undelivered => &mut self.undelivered,
            PurgeKind::VisitLeases => &mut self.visit_leases,
            PurgeKind::Sessions => &mut self.sessions,
            PurgeKind::EdgeHealth => &mut self.edge_health,
        }
    }
}

impl PurgeKind {
    const ALL: [Self; 13] = [
        Self::Links,
        Self::Tombstones,
        Self::Receipts,
        Self::Unhashed,
        Self::Clicks,
        Self::ClickIds,
        Self::Conversions,
        Self::Audit,
        Self::Deliveries,
        Self::Undelivered,
        Self::VisitLeases,
        Self::Sessions,
        Self::EdgeHealth,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Tombstones => "tombstones",
            Self::Receipts => "receipts",
            Self::Unhashed => "unhashed",
            Self::Clicks => "clicks",
            Self::ClickIds => "click_ids",
            Self::Conversions => "conversions",
            Self::Audit => "audit",
            Self::Deliveries => "deliveries",
            Self::Undelivered => "undelivered",
            Self::VisitLeases => "visit_leases",
            Self::Sessions => "sessions",
            Self::EdgeHealth => "edge_health",
        }
    }
}
