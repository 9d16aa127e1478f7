//! The writer of clicks: takes reports from the queue, in order, and passes them to the engine.
//!
//! One replica writes, the holder of a lease. If a second one writes for a moment, each report still counts once: the engine
//! writes the clicks of a report and removes it from the queue atomically.

use super::chunk::Chunk;
use super::engine::{Engine, EngineError};
use super::hot::HotCounts;
use super::links::LinkResolver;
use super::reading::{self, Read};
use crate::MAX_BEHIND;
use edgelink_click_store::{IdentifiedClick, QueuedReport};
use edgelink_model::clock;
use edgelink_settings::config::{AnalyticsConfig, ClicksConfig};
use edgelink_settings::telemetry::prometheus::{
    CLICK_QUEUE_AGE, CLICK_WRITE_FAILURES, CLICKS_ASIDE, CLICKS_WRITTEN,
};
use edgelink_store::lease::NamedLease;
use edgelink_store::low_water::LowWater;
use edgelink_store::{MarkedQueue, Store, StoreError};
use edgelink_wire::backoff::Bounds;
use edgelink_wire::click_id::ClickId;
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Name of the lease, as in the migrations.
const LEASE: &str = "clicks";

/// Duration of the lease.
const LEASE_TIME: Duration = Duration::from_secs(10);

/// Interval between polls of the queue, in addition to wake-ups by this process.
const POLL: Duration = Duration::from_millis(200);

/// Time for which reports gather after the first one.
const GATHERING: Duration = Duration::from_millis(200);

/// Least time between writes: each one rewrites whole rollups of tenants.
const PERIOD: Duration = Duration::from_secs(1);

/// Least bound of clicks that are written together, however long that takes: with fewer, rollups would be rewritten too often.
const MIN_CLICKS: usize = 100_000;

/// Interval of upkeep while reports come in.
const UPKEEP: Duration = Duration::from_secs(1);

/// Interval between checks for clicks of older control planes.
const OLDER: Duration = Duration::from_secs(5);

/// Interval between checks for reports of transactions that committed late.
const LATE: Duration = Duration::from_secs(2);

/// Pause of upkeep after a failure.
const LATER: Duration = Duration::from_secs(30);

/// Most reports that are read at once.
const MAX_REPORTS: u64 = 1024;

/// Backoff after failures.
const PAUSES: Bounds = Bounds {
    first_millis: 100,
    cap_millis: 5_000,
};

/// Writes the queue into the engine.
pub struct ClickWriter {
    store: Arc<Store>,
    engine: Arc<dyn Engine>,
    resolver: Arc<LinkResolver>,
    settings: AnalyticsConfig,
    clicks: ClicksConfig,
    wake: Arc<Notify>,
    lease: NamedLease,
    held: bool,
    low_water: LowWater,
    hot: HotCounts,
    /// True if there were clicks since the hot links were recorded.
    is_hot_new: bool,
    hot_at: Instant,
    upkeep_at: Instant,
    older_at: Instant,
    late_at: Instant,
    /// Number of reports that are read at once: halved after each failure, doubled after each success. The bounds of their bytes and
    /// clicks scale with it.
    most: u64,
    /// Number of clicks that are written together without exceeding the engine's pace.
    chunk_clicks: usize,
    /// True if more reports wait than were read.
    has_more: bool,
    failures: u32,
}

/// Outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Another replica writes.
    Elsewhere,
    /// No report waits.
    Idle,
    /// Reports were written, and more may wait.
    Written,
}

/// The error of a turn.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The queue, the links or the lease cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine failed to write the clicks.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ClickWriter {
    /// Creates a writer that holds the lease under a unique name. Notifying `wake` makes it poll the queue.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        engine: Arc<dyn Engine>,
        resolver: Arc<LinkResolver>,
        (settings, clicks): (&AnalyticsConfig, &ClicksConfig),
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            lease: NamedLease::new(Arc::clone(&store), LEASE, LEASE_TIME),
            store,
            engine,
            resolver,
            settings: settings.clone(),
            clicks: clicks.clone(),
            wake,
            held: false,
            low_water: LowWater::new(MarkedQueue::Clicks),
            hot: HotCounts::new(clicks.hot_window_minutes),
            is_hot_new: false,
            hot_at: Instant::now(),
            upkeep_at: Instant::now(),
            older_at: Instant::now(),
            late_at: Instant::now(),
            most: MAX_REPORTS,
            chunk_clicks: settings.chunk_clicks,
            has_more: false,
            failures: 0,
        }
    }

    /// Writes until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let begin = Instant::now();
            let pause = match self.turn().await {
                Ok(Turn::Written) if self.has_more => Duration::ZERO,
                Ok(Turn::Written) => PERIOD.saturating_sub(begin.elapsed()),
                Ok(Turn::Idle | Turn::Elsewhere) => POLL,
                Err(error) => {
                    counter!(CLICK_WRITE_FAILURES).increment(1);
                    tracing::warn!(%error, "writing clicks failed; retrying");
                    clock::pause_after(self.failures, PAUSES)
                }
            };
            let is_idle = pause == POLL && self.failures == 0;
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
                () = self.wake.notified(), if is_idle => tokio::time::sleep(GATHERING).await,
            }
        }
        if let Err(error) = self.lease.release().await {
            tracing::warn!(%error, "failed to release the clicks lease; it will expire");
        }
    }

    /// Writes the oldest reports.
    ///
    /// # Errors
    /// The reports are still queued, or were written: the next turn finds out which.
    pub async fn turn(&mut self) -> Result<Turn, TurnError> {
        let turn = self.take_turn().await;
        self.failures = match &turn {
            Ok(_) => 0,
            Err(_) => self.failures.saturating_add(1),
        };
        turn
    }

    async fn take_turn(&mut self) -> Result<Turn, TurnError> {
        let asked = self.lease.hold().await;
        if !self.lease.is_held() {
            self.held = false;
            self.low_water.clear();
            gauge!(CLICK_QUEUE_AGE).set(0.0);
            return Ok(asked.map(|_| Turn::Elsewhere)?);
        }
        if !self.held {
            self.held = true;
            let hot = self
                .store
                .clicks()
                .hot_clicks(self.clicks.hot_count)
                .await?;
            self.hot.start_again(hot, clock::unix_seconds());
        }
        let bytes = self.part(self.settings.chunk_bytes);
        let reports = self.store.clicks().queued_reports(self.most, bytes).await;
        let written = match reports {
            Ok(reports) => self.write(&reports).await,
            Err(error) => Err(error.into()),
        };
        self.most = match &written {
            Ok(_) => (self.most * 2).min(MAX_REPORTS),
            Err(_) => (self.most / 2).max(1),
        };
        let turn = written?;
        // Failures of these do not affect writing.
        if let Err(error) = self.look_for_late_reports().await {
            tracing::warn!(%error, "scanning for late click reports failed; retrying");
        }
        if let Err(error) = self.note_hot().await {
            tracing::warn!(%error, "recording the hot links failed; retrying later");
        }
        if let Err(error) = self.take_older().await {
            tracing::warn!(%error, "taking over clicks of older control planes failed; retrying");
        }
        if let Err(error) = self.keep_up(turn == Turn::Idle).await {
            self.upkeep_at = Instant::now() + LATER;
            tracing::warn!(%error, "analytics upkeep failed; retrying");
        }
        Ok(turn)
    }

    /// Scales a bound by the number of reports that are read at once.
    fn part(&self, bound: u64) -> u64 {
        (bound / MAX_REPORTS * self.most).clamp(1, bound)
    }

    /// Writes reports in bounded chunks, as long as this process holds the lease.
    async fn write(&mut self, reports: &[QueuedReport]) -> Result<Turn, TurnError> {
        measure(reports);
        if reports.is_empty() {
            return Ok(Turn::Idle);
        }
        let clicks = self.part(self.chunk_clicks as u64);
        let clicks = usize::try_from(clicks).unwrap_or(usize::MAX);
        let mut rest = reports;
        while !rest.is_empty() && self.lease.hold().await? {
            let read = reading::read(rest, &self.resolver, clicks.min(self.chunk_clicks)).await?;
            rest = rest.get(read.reports..).unwrap_or_default();
            self.write_chunk(read, self.lease.half()).await?;
        }
        self.has_more = reports.len() as u64 >= self.most;
        Ok(Turn::Written)
    }

    async fn write_chunk(
        &mut self,
        read: Read,
        send_until: Option<Instant>,
    ) -> Result<(), TurnError> {
        for (id, error) in read.malformed {
            self.set_aside(id, error).await?;
        }
        let chunk = Chunk {
            send_until,
            ..read.chunk
        };
        if chunk.rows.is_empty() {
            return Ok(());
        }
        // Recorded before the clicks count, so that a conversion finds each visible click. Repeating it does no harm.
        let identified = identified(&chunk);
        self.store.clicks().note_click_ids(&identified).await?;
        let begin = Instant::now();
        match (self.engine.write(&chunk).await, &*chunk.rows) {
            (Ok(()), _) => self.keep_pace(chunk.clicks.len(), begin.elapsed()),
            // Only for refused values: any other failure, such as a full disk, is temporary.
            (Err(error), [row]) if error.refuses_values() => {
                self.set_aside(*row, error).await?;
                return Ok(());
            }
            (Err(error), rows) => {
                if error.refuses_values() {
                    self.most = self.most.min(rows.len() as u64);
                }
                return Err(error.into());
            }
        }
        counter!(CLICKS_WRITTEN).increment(chunk.sum());
        // Ordered by number: all that were read up to the last one are removed.
        let last = chunk.rows.last().copied().unwrap_or_default();
        let mark = self.low_water.removed(last, Instant::now());
        if mark > 0 {
            // The clicks stay written; only reads scan further until then.
            if let Err(error) = self.store.clicks().raise_queue_mark(mark).await {
                tracing::warn!(%error, mark, "raising the low-water mark of the click queue failed; retrying after a later chunk");
            }
        }
        self.hot.add(&chunk, clock::unix_seconds());
        self.is_hot_new = true;
        Ok(())
    }

    /// Adapts the number of clicks written together to the engine's pace, given the duration of the last write.
    fn keep_pace(&mut self, clicks: usize, took: Duration) {
        let Some(pace) = self.engine.pace() else {
            return;
        };
        let share = pace.as_secs_f64() / took.as_secs_f64().max(1e-3);
        // A small chunk says little about a large one.
        let clicks = if share < 1.0 {
            clicks as f64 * share.max(0.5)
        } else {
            self.chunk_clicks as f64 * share.min(1.25)
        };
        let most = self.settings.chunk_clicks;
        self.chunk_clicks = (clicks as usize).clamp(MIN_CLICKS.min(most), most);
    }

    async fn set_aside(&self, id: u64, error: impl std::fmt::Display) -> Result<(), StoreError> {
        let error = error.to_string();
        tracing::error!(
            id,
            error,
            "quarantined a click report in click_queue: it cannot be written"
        );
        counter!(CLICKS_ASIDE).increment(1);
        self.store.clicks().set_report_aside(id).await
    }

    /// Records the hot links.
    async fn note_hot(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if !self.is_hot_new || now < self.hot_at {
            return Ok(());
        }
        self.is_hot_new = false;
        self.hot_at = now + self.clicks.hot_period_ms;
        let seconds = clock::unix_seconds();
        let most = usize::try_from(self.clicks.hot_count).unwrap_or(usize::MAX);
        let links = self.hot.hottest(most, seconds);
        let until = seconds + self.clicks.hot_window_minutes * 60;
        self.store.clicks().replace_hot_links(&links, until).await
    }

    /// Includes reports below the queue's low-water mark in the next turn, if there are any.
    async fn look_for_late_reports(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if now < self.late_at {
            return Ok(());
        }
        self.late_at = now + LATE;
        let mark = self.store.clicks().queue_mark().await?;
        if let Some(row) = self.low_water.look(&self.store, mark).await {
            self.low_water.clear();
            self.store.clicks().lower_queue_mark(row).await?;
        }
        Ok(())
    }

    /// Moves clicks counted by older control planes into the queue.
    async fn take_older(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if now < self.older_at {
            return Ok(());
        }
        self.older_at = now + OLDER;
        if self.store.clicks().take_older_clicks().await? > 0 {
            // There may be more.
            self.older_at = now;
        }
        Ok(())
    }

    /// Runs the engine's upkeep, alternating with reports.
    async fn keep_up(&mut self, is_idle: bool) -> Result<(), TurnError> {
        let now = Instant::now();
        if now < self.upkeep_at {
            return Ok(());
        }
        let oldest = self.store.clicks().oldest_report().await?;
        let settled = oldest.map_or_else(clock::unix_seconds, |millis| millis / 1000);
        let settled = settled
            .min(clock::unix_seconds())
            .saturating_sub(MAX_BEHIND);
        // A replica that takes over repeats the work from its beginning.
        let Some(done) = self.lease.hold_for(self.engine.upkeep(settled)).await? else {
            return Ok(());
        };
        let has_more = done?;
        self.upkeep_at = if has_more && is_idle {
            now
        } else {
            now + UPKEEP
        };
        Ok(())
    }
}

/// Clicks that may lead to conversions.
fn identified(chunk: &Chunk) -> Vec<IdentifiedClick> {
    let of = |(row, id): &(usize, ClickId)| {
        let link = chunk.link(*row);
        link.is_known().then(|| IdentifiedClick {
            id: *id,
            link_id: link.link_id,
            tenant_id: link.tenant_id,
            domain_id: link.domain_id,
            at: chunk.clicks.at[*row],
        })
    };
    chunk.clicks.ids.iter().filter_map(of).collect()
}

/// Measures the age of the oldest report.
fn measure(reports: &[QueuedReport]) {
    let oldest = reports.first().map(|report| report.received_at);
    let age = oldest.map_or(0, |oldest| clock::unix_millis().saturating_sub(oldest));
    gauge!(CLICK_QUEUE_AGE).set(Duration::from_millis(age).as_secs_f64());
}
