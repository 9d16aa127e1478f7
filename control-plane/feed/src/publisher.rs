//! The publisher: writes the changes in the outbox to Redis and to the feed, and reports its progress by beats.
//!
//! One replica publishes at a time: the one that holds the lease. It deletes rows after it has published them, twice a second at
//! least, so a publisher that dies loses no change; a row that is published twice is harmless, because revisions order the changes.
//!
//! Every take and renewal of the lease raises a fencing token in the database. Redis refuses a publisher with an older token
//! than the newest that it has seen, and the database deletes rows for the newest one only: a publisher that was paused
//! changes nothing.
//!
//! Before it appends, the publisher checks that the last published entry is still there. If it is not (Redis was
//! emptied, restored, failed over, or replaced), a new generation begins: all caches invalidate their records of the
//! old one, and the records in Redis become unreachable. If the *database* is older than what was published, revisions
//! and numbers continue above all that may have been used.
//!
//! A beat states that everything committed by a certain time of the database's clock is published. It is sent only after
//! a read of the outbox above its low-water mark and a scan below it ([`edgelink_store::low_water`]), so caches are fresh while beats
//! arrive.

mod bound;
mod destination;
mod error;
mod generation;
mod lease;
mod messages;
mod round;
mod status;

pub use destination::FeedSink;
pub use error::PublishError;
pub use status::{PublishedBy, PublisherStatus};

use crate::Feed;
use bound::BoundKeeper;
use edgelink_clicks::HotLinks;
use edgelink_numbers::BoundPolicy;
use edgelink_redis::Nudges;
use edgelink_settings::config::{ClicksConfig, PublisherConfig};
use edgelink_settings::telemetry::prometheus::{
    FEED_AGE, OUTBOX_AGE, OUTBOX_ROWS, PUBLISHER_FAILURES,
};
use edgelink_store::low_water::LowWater;
use edgelink_store::{FeedKind, MarkedQueue, Store};
use edgelink_wire::FeedPosition;
use lease::Lease;
use metrics::{counter, gauge};
use round::UnforgottenRows;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The pause before a retry.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause before another nudge, and polling interval of a publisher that cannot be nudged.
const NUDGE_PAUSE: Duration = Duration::from_millis(50);

/// Consecutive failures after which the lease is given up: Redis may work for another replica.
const MAX_FAILURES: u32 = 2;

/// Lease durations for which this process then does not ask for it.
const LEASES_PAUSED: u32 = 2;
/// Longest such pause, so that publishing resumes soon after Redis is back.
const MAX_PAUSE: Duration = Duration::from_secs(6);
/// Time after which that pause ends as soon as Redis accepts writes here: no other replica has asked for the lease by then.
const PAUSE_LEFT_TO_OTHERS: Duration = Duration::from_secs(1);

/// Part of the lease's duration for which this process does not ask for it after its own connection to the database has failed.
/// Others ask more often, and come first.
const SHARE_PAUSED: u32 = 3;

/// The shortest time between two rounds. Changes in between are published together: under load, reading and clearing
/// the outbox costs the database no more than creating the links does. A single change does not wait.
const GATHER: Duration = Duration::from_millis(5);

/// Interval between measurements of the outbox and the feed.
const MEASURE: Duration = Duration::from_secs(1);

/// Time limit of publishing the rest of the outbox at a stop.
const DRAIN: Duration = Duration::from_secs(3);

/// Most immediate repetitions of a round.
const MAX_STEPS: usize = 16;

/// Publishes changes.
pub struct Publisher {
    store: Arc<Store>,
    destination: FeedSink,
    config: PublisherConfig,
    feed: Arc<Feed>,
    lease: Lease,
    bound: BoundKeeper,
    hot: HotLinks,
    low_water: LowWater,
    unforgotten: UnforgottenRows,
    wake: Arc<Notify>,
    status: PublisherStatus,
    /// Generation and position of the feed; `None` without the lease.
    writing: Option<WriteState>,
    beat_at: Instant,
    /// The number of the last beat.
    number: u64,
    next_measure: Instant,
    repaired: Option<Instant>,
    /// Consecutive failures with the lease.
    failures: u32,
    /// Time since which the database fails in each round.
    store_fails_since: Option<Instant>,
    is_failing: bool,
    /// Time at which the lease was given up because of Redis, until it is asked for again.
    given_up: Option<Instant>,
    /// Set while the publishing replica has to be nudged about a change here.
    owes_nudge: bool,
    /// Cause and time of the current round.
    wakeup: (Wakeup, Instant),
}

/// The cause of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakeup {
    /// This process has changed links.
    Change,
    /// Another process has changed links.
    Nudge,
    /// Some process may have changed links.
    Poll,
}

impl Wakeup {
    /// Its name in the log.
    fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Nudge => "nudge",
            Self::Poll => "poll",
        }
    }
}

/// Progress of this process as the publisher.
#[derive(Clone, Debug)]
struct WriteState {
    generation: u64,
    /// The last entry known to be on the feed.
    position: FeedPosition,
    /// The nodes of the destination at the last beat.
    nodes: String,
}

impl Publisher {
    /// Creates a publisher that `wake` wakes when this process has changed a link. `feed` is the one that this process
    /// follows.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        destination: FeedSink,
        feed: Arc<Feed>,
        config: &PublisherConfig,
        clicks: &ClicksConfig,
        bound: BoundPolicy,
        wake: Arc<Notify>,
    ) -> Self {
        let now = Instant::now();
        let kind = destination.kind();
        Self {
            lease: Lease::new(store.clone(), feed.clone(), kind, config.lease_ms),
            bound: BoundKeeper::new(bound),
            hot: HotLinks::new(store.clone(), clicks.clone()),
            low_water: LowWater::new(MarkedQueue::Outbox),
            unforgotten: UnforgottenRows::default(),
            store,
            destination,
            feed,
            config: config.clone(),
            wake,
            status: PublisherStatus::default(),
            writing: None,
            beat_at: now,
            number: 0,
            next_measure: now,
            repaired: None,
            failures: 0,
            store_fails_since: None,
            is_failing: false,
            given_up: None,
            owes_nudge: false,
            wakeup: (Wakeup::Poll, now),
        }
    }

    /// The publishing process, as far as known.
    #[must_use]
    pub fn status(&self) -> PublisherStatus {
        self.status.clone()
    }

    /// Publishes until `stop`, then publishes the rest of the outbox and releases the lease.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut nudges = self.destination.nudges();
        let mut poll = interval(self.config.poll_ms.min(self.config.heartbeat_ms));
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let must_look = self.owes_nudge || self.destination.misses_nudges();
            let forget_at = self.unforgotten.forget_at();
            let wakeup = tokio::select! {
                () = stop.cancelled() => break,
                () = self.wake.notified() => Wakeup::Change,
                () = nudged(&mut nudges) => Wakeup::Nudge,
                _ = poll.tick() => Wakeup::Poll,
                () = sleep(NUDGE_PAUSE), if must_look => Wakeup::Poll,
                () = reached(forget_at) => Wakeup::Poll,
            };
            self.wakeup = (wakeup, Instant::now());
            self.owes_nudge |= wakeup == Wakeup::Change;
            let result = tokio::select! {
                result = self.round(&stop) => result,
                () = async { stop.cancelled().await; sleep(DRAIN).await } => break,
            };
            sleep(GATHER).await;
            self.handle_result(result).await;
        }
        if timeout(DRAIN, Box::pin(self.drain())).await.is_err() {
            tracing::warn!(
                "publishing the rest of the outbox takes too long; leaving it to another publisher"
            );
        }
        self.status.set(PublishedBy::Unknown);
        self.give_up(Duration::ZERO).await;
    }

    /// Publishes the rest of the outbox while this process holds the lease.
    async fn drain(&mut self) {
        for _ in 0..MAX_STEPS {
            if self.lease.token().is_none() {
                return;
            }
            let published = match Box::pin(self.publish_all()).await {
                Ok(()) => self.forget(Duration::ZERO).await,
                failed => failed,
            };
            match published {
                Err(PublishError::Restart) => {}
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "publishing the rest of the outbox failed; leaving it to another publisher");
                    return;
                }
            }
        }
    }

    /// Releases the lease, nudges the other replicas, and does not ask for the lease for `pause`.
    async fn give_up(&mut self, pause: Duration) {
        self.stop_writing();
        let was_held = self.lease.token().is_some();
        self.lease.release(pause).await;
        if was_held {
            // Without the nudge they ask for it on their own before long.
            let _ = timeout(PAUSE, self.destination.nudge()).await;
        }
    }

    /// Logs the first of consecutive failures, and their end. After repeated failures, gives the lease up.
    async fn handle_result(&mut self, result: Result<(), PublishError>) {
        let Err(error) = result else {
            self.failures = 0;
            self.store_fails_since = None;
            if std::mem::take(&mut self.is_failing) {
                tracing::info!("publishing changes works again");
            }
            return;
        };
        counter!(PUBLISHER_FAILURES).increment(1);
        // Without the lease, the nudge has failed.
        let pause = match (&error, self.lease.token()) {
            (PublishError::Redis(_), None) => NUDGE_PAUSE,
            _ => PAUSE,
        };
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(%error, "publishing changes failed; they wait in the outbox, retrying");
        }
        if matches!(error, PublishError::Store(_)) {
            self.handle_store_failure(&error).await;
        } else if self.lease.token().is_some() {
            self.store_fails_since = None;
            self.failures += 1;
            let is_hopeless = !matches!(error, PublishError::Redis(_));
            if is_hopeless || self.failures >= MAX_FAILURES {
                self.failures = 0;
                let left = MAX_PAUSE.min(self.config.lease_ms * LEASES_PAUSED);
                tracing::warn!(%error, pause = ?left, "publishing failed: giving the lease to other control planes for a while");
                self.give_up(left).await;
                self.given_up = (!is_hopeless).then(Instant::now);
                self.status.set(PublishedBy::GaveUp);
            }
        }
        sleep(pause).await;
    }

    /// Gives the lease up once the database has failed for longer than it lasts: another process may reach the database.
    async fn handle_store_failure(&mut self, error: &PublishError) {
        let now = Instant::now();
        let since = *self.store_fails_since.get_or_insert(now);
        let is_publishing = self.lease.token().is_some() || self.writing.is_some();
        // Without Redis each process has a feed of its own, which no other one could continue.
        let is_shared = self.destination.kind() != FeedKind::Local;
        if !is_publishing || !is_shared || now < since + self.config.lease_ms {
            return;
        }
        self.store_fails_since = None;
        tracing::warn!(
            %error,
            "the database has failed for as long as the publisher's lease lasts: giving the lease to other control planes"
        );
        self.give_up(self.config.lease_ms / SHARE_PAUSED).await;
        self.status.set(PublishedBy::GaveUp);
    }

    /// Publishes everything if this process holds the lease; otherwise nudges the publisher if this process has changed links.
    async fn round(&mut self, stop: &CancellationToken) -> Result<(), PublishError> {
        self.measure().await;
        self.end_pause().await;
        for _ in 0..MAX_STEPS {
            if stop.is_cancelled() {
                return Ok(());
            }
            if !self.hold_lease().await? {
                self.note_other_publisher();
                if self.owes_nudge {
                    self.destination.nudge().await?;
                    self.owes_nudge = false;
                }
                return Ok(());
            }
            match Box::pin(self.publish_all()).await {
                Err(PublishError::Restart) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.status.set(PublishedBy::This);
                    self.owes_nudge = false;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Ends the pause after this process gave the lease up, once Redis works again.
    async fn end_pause(&mut self) {
        let is_over = |since: Instant| since.elapsed() >= PAUSE_LEFT_TO_OTHERS;
        if self.given_up.is_some_and(is_over) && self.destination.takes_writes().await {
            self.given_up = None;
            self.lease.end_pause();
        }
    }

    /// Takes or renews the lease if due. True if this process holds it.
    async fn hold_lease(&mut self) -> Result<bool, PublishError> {
        let published = self.writing.as_ref();
        let published = published.map(|writing| (writing.generation, writing.position));
        Ok(self.lease.hold(published).await?)
    }

    /// Notes that another replica publishes.
    fn note_other_publisher(&mut self) {
        self.stop_writing();
        let state = self.lease.state();
        let kind = self.destination.kind();
        let publisher = if state.has_expired() {
            if self.status.get() == PublishedBy::GaveUp {
                return;
            }
            PublishedBy::Unknown
        } else if kind == FeedKind::Local || state.kind != kind.as_str() {
            PublishedBy::Elsewhere
        } else {
            PublishedBy::Another
        };
        if self.status.set(publisher) != publisher && publisher == PublishedBy::Elsewhere {
            tracing::warn!(
                kind = %state.kind,
                "not receiving the publisher's feed; serving from the database (do all control planes use the same redis.url?)"
            );
        }
    }

    /// Stops publishing and drops the hot links, because another process may publish newer records of them.
    fn stop_writing(&mut self) {
        self.writing = None;
        self.hot.clear();
        self.low_water.clear();
        self.unforgotten.clear();
    }

    /// Measures the outbox, the age of the feed, and the extent of drawn numbers.
    async fn measure(&mut self) {
        let now = Instant::now();
        if now < self.next_measure {
            return;
        }
        self.next_measure = now + MEASURE;
        let age = self.feed.age();
        gauge!(FEED_AGE).set(age.map_or(f64::INFINITY, |age| age.as_secs_f64()));
        // The publisher reads it for its beats; another process may have to repair the database.
        if self.lease.token().is_none()
            && let Ok(state) = self.store.bound_state().await
        {
            self.bound.note(state.drawn);
        }
        // A failure is counted where it happens.
        if let Ok(size) = self.store.outbox_size().await {
            gauge!(OUTBOX_ROWS).set(size.rows as f64);
            gauge!(OUTBOX_AGE).set(Duration::from_millis(size.age_millis).as_secs_f64());
        }
    }
}

async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn nudged(nudges: &mut Option<Nudges>) {
    match nudges {
        Some(nudges) => nudges.next().await,
        None => std::future::pending().await,
    }
}
