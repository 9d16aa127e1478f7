//! The writer of clicks: takes reports from the queue, in their order, and gives them to the engine.
//!
//! One replica writes, the holder of a lease. Where a second one writes too, for a moment, each report counts once nevertheless:
//! the engine writes the clicks of a report and removes it from the queue at once.

use super::chunk::Chunk;
use super::engine::{Engine, EngineError};
use super::hot::HotCounts;
use super::links::LinkResolver;
use super::reading::{self, Read};
use crate::clicks::MAX_BEHIND;
use crate::clock;
use crate::config::{AnalyticsConfig, ClicksConfig};
use crate::lease::NamedLease;
use crate::low_water::LowWater;
use crate::store::{IdentifiedClick, MarkedQueue, QueuedReport, Store, StoreError};
use crate::telemetry::prometheus::{
    CLICK_QUEUE_AGE, CLICK_WRITE_FAILURES, CLICKS_ASIDE, CLICKS_WRITTEN,
};
use edgelink_wire::backoff::Bounds;
use edgelink_wire::click_id::ClickId;
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The name of the lease, as the migrations have it.
const LEASE: &str = "clicks";

/// How long the lease lasts.
const LEASE_TIME: Duration = Duration::from_secs(10);

/// How often the queue is looked at, beside when this process has added to it.
const POLL: Duration = Duration::from_millis(200);

/// For how long reports gather after the first one.
const GATHERING: Duration = Duration::from_millis(200);

/// The least time from one look that has found something to the next: each one writes the rollups of tenants as a whole.
const PERIOD: Duration = Duration::from_secs(1);

/// The fewest clicks that are written together, however long that takes: with fewer, rollups are written as often as clicks come.
const MIN_CLICKS: usize = 100_000;

/// How often there is upkeep while reports come in.
const UPKEEP: Duration = Duration::from_secs(1);

/// How often clicks of older control planes are looked for.
const OLDER: Duration = Duration::from_secs(5);

/// How often reports of transactions that have committed late are looked for.
const LATE: Duration = Duration::from_secs(2);

/// The pause of upkeep after a failure.
const LATER: Duration = Duration::from_secs(30);

/// The most reports that are read at once.
const MAX_REPORTS: u64 = 1024;

/// The pauses after failures.
const PAUSES: Bounds = Bounds {
    first_millis: 100,
    cap_millis: 5_000,
};

/// Writes what is in the queue.
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
    /// Whether there were clicks since the hot links were noted.
    is_hot_new: bool,
    hot_at: Instant,
    upkeep_at: Instant,
    older_at: Instant,
    late_at: Instant,
    /// How many reports are read at once: half as many after each failure, twice as many after each success. Their bytes and
    /// clicks are bounded by as much less.
    most: u64,
    /// How many clicks are written together, so that it takes no longer than the engine's pace.
    chunk_clicks: usize,
    /// Whether more reports wait than were read.
    has_more: bool,
    failures: u32,
}

/// What a turn has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Another replica writes.
    Elsewhere,
    /// No report waits.
    Idle,
    /// Reports were written, and more may wait.
    Written,
}

/// Why a turn fails.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The queue, the links or the lease cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine does not take the clicks.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ClickWriter {
    /// A writer that holds the lease under a name of its own. Notifying `wake` lets it look at the queue.
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
                    tracing::warn!(%error, "writing clicks failed: it is retried");
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
            tracing::warn!(%error, "giving the lease of clicks back failed: it ends by itself");
        }
    }

    /// Writes the reports that wait longest.
    ///
    /// # Errors
    /// The reports stay, or were written: the next turn finds out.
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
            let hot = self.store.hot_clicks(self.clicks.hot_count).await?;
            self.hot.start_again(hot, clock::unix_seconds());
        }
        let bytes = self.part(self.settings.chunk_bytes);
        let reports = self.store.queued_reports(self.most, bytes).await;
        let written = match reports {
            Ok(reports) => self.write(&reports).await,
            Err(error) => Err(error.into()),
        };
        self.most = match &written {
            Ok(_) => (self.most * 2).min(MAX_REPORTS),
            Err(_) => (self.most / 2).max(1),
        };
        let turn = written?;
        // What fails of these has no part in writing.
        if let Err(error) = self.look_for_late_reports().await {
            tracing::warn!(%error, "looking for late reports of clicks failed: it is retried");
        }
        if let Err(error) = self.note_hot().await {
            tracing::warn!(%error, "noting the hot links failed: they are noted later");
        }
        if let Err(error) = self.take_older().await {
            tracing::warn!(%error, "taking clicks of older control planes failed: it is retried");
        }
        if let Err(error) = self.keep_up(turn == Turn::Idle).await {
            self.upkeep_at = Instant::now() + LATER;
            tracing::warn!(%error, "summing up days of clicks failed: it is retried");
        }
        Ok(turn)
    }

    /// So much of a bound as there are reports at once.
    fn part(&self, bound: u64) -> u64 {
        (bound / MAX_REPORTS * self.most).clamp(1, bound)
    }

    /// Writes reports in chunks that are not too large, for as long as this process holds the lease.
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
        // Before they are counted, so that a conversion of a click that is seen finds it. Once more does no harm.
        let identified = identified(&chunk);
        self.store.note_click_ids(&identified).await?;
        let begin = Instant::now();
        match (self.engine.write(&chunk).await, &*chunk.rows) {
            (Ok(()), _) => self.keep_pace(chunk.clicks.len(), begin.elapsed()),
            // Only what is refused for what it says: any other failure, such as that of a full disk, ends.
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
        // In the order of their numbers: all up to the last one that were there are removed.
        let last = chunk.rows.last().copied().unwrap_or_default();
        let mark = self.low_water.removed(last, Instant::now());
        if mark > 0 {
            // What is written stays written; only reads walk further meanwhile.
            if let Err(error) = self.store.raise_queue_mark(mark).await {
                tracing::warn!(%error, mark, "raising the mark of the click queue failed: it is raised after a later chunk");
            }
        }
        self.hot.add(&chunk, clock::unix_seconds());
        self.is_hot_new = true;
        Ok(())
    }

    /// Writes as many clicks together from now on as the engine's pace allows, after so many took so long.
    fn keep_pace(&mut self, clicks: usize, took: Duration) {
        let Some(pace) = self.engine.pace() else {
            return;
        };
        let share = pace.as_secs_f64() / took.as_secs_f64().max(1e-3);
        // A small chunk says little of a large one.
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
            "a report of clicks cannot be written: it is set aside in click_queue"
        );
        counter!(CLICKS_ASIDE).increment(1);
        self.store.set_report_aside(id).await
    }

    /// Notes the hot links.
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
        self.store.replace_hot_links(&links, until).await
    }

    /// Has reports below the low-water mark of the queue read with the next turn, if there are any.
    async fn look_for_late_reports(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if now < self.late_at {
            return Ok(());
        }
        self.late_at = now + LATE;
        let mark = self.store.queue_mark().await?;
        if let Some(row) = self.low_water.look(&self.store, mark).await {
            self.low_water.clear();
            self.store.lower_queue_mark(row).await?;
        }
        Ok(())
    }

    /// Takes clicks that older control planes count into the queue.
    async fn take_older(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if now < self.older_at {
            return Ok(());
        }
        self.older_at = now + OLDER;
        if self.store.take_older_clicks().await? > 0 {
            // There may be more.
            self.older_at = now;
        }
        Ok(())
    }

    /// Lets the engine keep up with the time. What it does takes turns with reports.
    async fn keep_up(&mut self, is_idle: bool) -> Result<(), TurnError> {
        let now = Instant::now();
        if now < self.upkeep_at {
            return Ok(());
        }
        let oldest = self.store.oldest_report().await?;
        let settled = oldest.map_or_else(clock::unix_seconds, |millis| millis / 1000);
        let settled = settled
            .min(clock::unix_seconds())
            .saturating_sub(MAX_BEHIND);
        // A replica that takes over does the same work from its beginning.
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

/// The clicks of which conversions may come.
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

/// Measures for how long the oldest report waits.
fn measure(reports: &[QueuedReport]) {
    let oldest = reports.first().map(|report| report.received_at);
    let age = oldest.map_or(0, |oldest| clock::unix_millis().saturating_sub(oldest));
    gauge!(CLICK_QUEUE_AGE).set(Duration::from_millis(age).as_secs_f64());
}
