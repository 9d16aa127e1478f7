//! The publisher: publishes what is in the outbox to Redis and on the feed, and says how far that goes.
//!
//! One replica does it at a time, the one that has the lease. A row is deleted after it was published, so a publisher that
//! dies loses nothing; what it had published already comes twice, which the revisions make harmless.
//!
//! Every take and renewal of the lease raises a token in the database. Redis refuses a publisher with an older token than the
//! newest that it has seen, and the database forgets rows for the newest one only: a publisher that was paused changes nothing.
//!
//! Before it appends, the publisher makes sure that what was published last is still there. Where it is not (Redis was emptied,
//! restored, failed over, or is another one), a new generation begins: everybody drops what the old one told, and what
//! it had cached is out of reach. Where the *database* is older than what was published, revisions and numbers go on above
//! all that may have been used.
//!
//! A beat says that everything is published that was committed by a certain moment on the database's clock. It is sent only
//! after a look into the outbox that showed all of it, so a feed with a fresh beat can be believed, and another one cannot.

mod bound;
mod generation;
mod hot;
mod lease;
mod outlet;
mod status;

pub use bound::BoundPolicy;
pub(crate) use bound::EVERY_NUMBER;
pub use outlet::{Outlet, RelayError};
pub use status::{Publisher, PublisherStatus};

use crate::config::{ClicksConfig, PublisherConfig};
use crate::feed::Feed;
use crate::redis::{Append, Appended, Nudges};
use crate::store::{
    BoundState, FeedKind, MAX_BATCH_BYTES, PendingBatch, PublisherState, Store, StoreError,
};
use crate::telemetry::prometheus::{
    FEED_AGE, OUTBOX_AGE, OUTBOX_ROWS, PUBLISHER_CHANGES, PUBLISHER_FAILURES,
};
use bound::BoundKeeper;
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::{Beat, FeedMessage};
use generation::Reason;
use hot::{HotLink, HotLinks};
use lease::{Hold, Lease};
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(200);

/// So many failures in a row, and the lease is given up: others may have a Redis that works.
const MAX_STRIKES: u32 = 2;

/// For how many leases it is not asked for then.
const LEASES_PAUSED: u32 = 2;
/// And no longer than that, so that a Redis that is back is written to soon.
const MAX_PAUSE: Duration = Duration::from_secs(6);

/// The least time between two rounds. What is changed meanwhile is published together: under load, reading and clearing
/// the outbox costs the database no more than creating the links does. A change that comes alone does not wait.
const GATHER: Duration = Duration::from_millis(5);

/// How much is published and forgotten together, so that little comes twice where a publisher dies.
const GROUP_BYTES: usize = 4 * MAX_BATCH_BYTES;

/// How many changes are published by one message to Redis.
const AT_ONCE: usize = 256;

/// How often the outbox and the feed are measured.
const MEASURE: Duration = Duration::from_secs(1);

/// How long publishing the rest may take at a stop.
const DRAIN: Duration = Duration::from_secs(3);

/// How often a round begins again at once.
const MAX_STEPS: usize = 16;

/// The numbers of beats that are sent with one token.
const BEATS_A_TOKEN: u64 = 1 << 20;

/// Publishes changes.
pub struct Relay {
    store: Arc<Store>,
    outlet: Outlet,
    config: PublisherConfig,
    feed: Arc<Feed>,
    lease: Lease,
    bound: BoundKeeper,
    hot: HotLinks,
    wake: Arc<Notify>,
    status: PublisherStatus,
    /// What is published in while the lease is ours.
    writing: Option<Writing>,
    beat_at: Instant,
    /// That of the last beat.
    number: u64,
    next_measure: Instant,
    repaired: Option<Instant>,
    /// Failures in a row with the lease.
    strikes: u32,
    is_failing: bool,
}

/// How far this process has published.
#[derive(Clone, Debug)]
struct Writing {
    generation: u64,
    /// The last entry that is known to be on the feed.
    position: FeedPosition,
    /// The nodes that the outlet consisted of at the last beat.
    nodes: String,
}

/// A look into the outbox.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Before it began.
    asked: Instant,
    /// The database's clock then: unix time in microseconds.
    at: u64,
}

impl Look {
    /// How old it is at most, in milliseconds.
    fn age_millis(self) -> u32 {
        let millis = self.asked.elapsed().as_micros().div_ceil(1000);
        u32::try_from(millis).unwrap_or(u32::MAX)
    }
}

/// What follows for the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It goes on.
    On,
    /// The generation, or who publishes, is another one now: the round begins again.
    Again,
}

impl Relay {
    /// A publisher that is woken by `wake` when this process has changed something. `feed` is what this process follows.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        outlet: Outlet,
        feed: Arc<Feed>,
        config: &PublisherConfig,
        clicks: &ClicksConfig,
        bound: BoundPolicy,
        wake: Arc<Notify>,
    ) -> Self {
        let now = Instant::now();
        Self {
            lease: Lease::new(store.clone(), feed.clone(), outlet.kind(), config.lease_ms),
            bound: BoundKeeper::new(bound),
            hot: HotLinks::new(store.clone(), clicks.clone()),
            store,
            outlet,
            feed,
            config: config.clone(),
            wake,
            status: PublisherStatus::default(),
            writing: None,
            beat_at: now,
            number: 0,
            next_measure: now,
            repaired: None,
            strikes: 0,
            is_failing: false,
        }
    }

    /// Who publishes, as far as is known here.
    #[must_use]
    pub fn status(&self) -> PublisherStatus {
        self.status.clone()
    }

    /// Publishes until `stop`, then what is left, and gives the lease back.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut nudges = self.outlet.nudges();
        let mut poll = interval(self.config.poll_ms.min(self.config.heartbeat_ms));
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_nudged = tokio::select! {
                () = stop.cancelled() => break,
                () = self.wake.notified() => false,
                () = next(&mut nudges) => true,
                _ = poll.tick() => true,
            };
            let result = tokio::select! {
                result = self.round(is_nudged, &stop) => result,
                () = long_after(&stop) => break,
            };
            sleep(GATHER).await;
            self.judge(result).await;
        }
        if timeout(DRAIN, Box::pin(self.drain())).await.is_err() {
            tracing::warn!("the rest of the changes waits for another publisher");
        }
        self.status.set(Publisher::Unknown);
        self.give_up(Duration::ZERO).await;
    }

    /// Publishes what is left, as long as the lease is ours.
    async fn drain(&mut self) {
        for _ in 0..MAX_STEPS {
            if self.lease.token().is_none() {
                return;
            }
            match Box::pin(self.publish_all()).await {
                Ok(Step::Again) => {}
                Ok(Step::On) => return,
                Err(error) => {
                    tracing::warn!(%error, "the rest of the changes waits for another publisher");
                    return;
                }
            }
        }
    }

    /// Gives the lease to others, and tells them.
    async fn give_up(&mut self, pause: Duration) {
        self.stop_writing();
        let was_held = self.lease.token().is_some();
        self.lease.release(pause).await;
        if was_held {
            // They look by themselves before long.
            let _ = timeout(PAUSE, self.outlet.nudge()).await;
        }
    }

    /// Logs the first failure of a row, and its end. A publisher that cannot write gives up.
    async fn judge(&mut self, result: Result<(), RelayError>) {
        let Err(error) = result else {
            self.strikes = 0;
            if std::mem::take(&mut self.is_failing) {
                tracing::info!("changes are published again");
            }
            return;
        };
        counter!(PUBLISHER_FAILURES).increment(1);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(%error, "changes wait to be published");
        }
        let is_ours = self.lease.token().is_some() && !matches!(error, RelayError::Store(_));
        if is_ours {
            self.strikes += 1;
            let is_hopeless = !matches!(error, RelayError::Redis(_));
            if is_hopeless || self.strikes >= MAX_STRIKES {
                self.strikes = 0;
                tracing::warn!(%error, "the publisher's lease is given up");
                let pause = self.config.lease_ms * LEASES_PAUSED;
                self.give_up(pause.min(MAX_PAUSE)).await;
                self.status.set(Publisher::GaveUp);
            }
        }
        sleep(PAUSE).await;
    }

    /// Publishes everything where the lease is ours; else tells the one who has it, where it is this process that has
    /// changed something.
    async fn round(&mut self, is_nudged: bool, stop: &CancellationToken) -> Result<(), RelayError> {
        self.measure().await;
        for _ in 0..MAX_STEPS {
            if stop.is_cancelled() {
                return Ok(());
            }
            match self.hold().await? {
                Hold::Not => {
                    self.follow();
                    if !is_nudged {
                        self.outlet.nudge().await?;
                    }
                    return Ok(());
                }
                Hold::WentBack(token) => {
                    self.begin(Reason::WentBack(token)).await?;
                }
                Hold::Still | Hold::Fresh => {}
            }
            if Box::pin(self.publish_all()).await? == Step::On {
                self.status.set(Publisher::This);
                return Ok(());
            }
        }
        Ok(())
    }

    async fn hold(&mut self) -> Result<Hold, StoreError> {
        let published = self
            .writing
            .as_ref()
            .map(|writing| (writing.generation, writing.position));
        self.lease.hold(published).await
    }

    /// Another replica publishes.
    fn follow(&mut self) {
        self.stop_writing();
        let state = self.lease.state();
        let is_over = state.is_over();
        if is_over && self.status.get() == Publisher::GaveUp {
            return;
        }
        let kind = self.outlet.kind();
        let is_elsewhere = kind == FeedKind::Local || state.kind != kind.as_str();
        let publisher = match (is_over, is_elsewhere) {
            (true, _) => Publisher::Unknown,
            (false, true) => Publisher::Elsewhere,
            (false, false) => Publisher::Another,
        };
        if self.status.set(publisher) != publisher && publisher == Publisher::Elsewhere {
            tracing::warn!(
                kind = %state.kind,
                "another process publishes changes, and its feed does not come here: the database answers everything. Several control planes need the same redis.url"
            );
        }
    }

    /// Publishes all that is in the outbox, the hot links, and a beat where it is time to.
    async fn publish_all(&mut self) -> Result<Step, RelayError> {
        if self.take_up().await? == Step::Again {
            return Ok(Step::Again);
        }
        loop {
            // Before the look, so that the beat that follows it is not older than it has to be.
            let bound = self.due_bound().await?;
            let asked = Instant::now();
            let pending = self.store.pending(self.config.batch).await?;
            let look = Look {
                asked,
                at: pending.state.now,
            };
            if self.check(asked, pending.state).await? == Step::Again {
                return Ok(Step::Again);
            }
            for batches in groups(&pending.batches) {
                if self.publish(batches).await? == Step::Again {
                    return Ok(Step::Again);
                }
            }
            let count = u32::try_from(pending.batches.len()).unwrap_or(u32::MAX);
            if count < self.config.batch {
                let hot = self.hot.take().await;
                if self.publish_hot(&hot).await? == Step::Again {
                    return Ok(Step::Again);
                }
                // It may have become time for a beat meanwhile.
                let bound = match bound {
                    Some(bound) => Some(bound),
                    None => self.due_bound().await?,
                };
                return match bound {
                    Some(bound) => self.beat(look, bound).await,
                    None => Ok(Step::On),
                };
            }
        }
    }

    /// Makes sure that the lease was ours, and the database no older than before, when it was read.
    async fn check(&mut self, asked: Instant, state: PublisherState) -> Result<Step, RelayError> {
        let generation = self.writing.as_ref().map(|writing| writing.generation);
        let is_ours = Some(state.token) == self.lease.token();
        let is_ours = is_ours && Some(state.generation) == generation;
        let is_older = self.lease.note(asked, state);
        if is_ours && !is_older {
            return Ok(Step::On);
        }
        // Also where an answer to a renewal was lost.
        self.stop_writing();
        match self.lease.ask(None).await? {
            Hold::WentBack(token) => self.begin(Reason::WentBack(token)).await?,
            Hold::Not => self.lease.lose(),
            Hold::Still | Hold::Fresh => {}
        }
        Ok(Step::Again)
    }

    /// Publishes a group, and forgets it.
    async fn publish(&mut self, batches: &[PendingBatch]) -> Result<Step, RelayError> {
        match self.hold().await? {
            Hold::Still | Hold::Fresh => {}
            Hold::WentBack(token) => {
                self.begin(Reason::WentBack(token)).await?;
                return Ok(Step::Again);
            }
            Hold::Not => return Ok(Step::Again),
        }
        let messages = outlet::messages(batches, self.lease.state().rev_floor);
        for some in messages.chunks(AT_ONCE) {
            let Some(generation) = self.writing.as_ref().map(|writing| writing.generation) else {
                return Ok(Step::Again);
            };
            self.outlet.cache(generation, some).await?;
            if self.append(some, None).await? == Step::Again {
                return Ok(Step::Again);
            }
            self.hot.note(some);
        }
        let (Some(token), Some(writing)) = (self.lease.token(), &self.writing) else {
            return Ok(Step::Again);
        };
        let ids: Vec<u64> = batches.iter().map(|batch| batch.id).collect();
        let position = writing.position;
        if !self.store.forget_published(token, position, &ids).await? {
            self.stop_writing();
            self.lease.lose();
            return Ok(Step::Again);
        }
        counter!(PUBLISHER_CHANGES).increment(messages.len() as u64);
        Ok(Step::On)
    }

    async fn publish_hot(&mut self, links: &[HotLink]) -> Result<Step, RelayError> {
        for some in links.chunks(AT_ONCE) {
            let messages: Vec<FeedMessage<'_>> = some
                .iter()
                .map(|(key, record)| FeedMessage::Put {
                    key,
                    record: record.as_deref(),
                    hot: true,
                })
                .collect();
            if self.append(&messages, None).await? == Step::Again {
                return Ok(Step::Again);
            }
        }
        Ok(Step::On)
    }

    /// The bound that a beat is to tell, if it is time for one.
    async fn due_bound(&mut self) -> Result<Option<BoundState>, StoreError> {
        if Instant::now() < self.beat_at {
            return Ok(None);
        }
        self.bound.current(self.store.as_ref()).await.map(Some)
    }

    /// Says that everything is published that a look has shown.
    async fn beat(&mut self, look: Look, bound: BoundState) -> Result<Step, RelayError> {
        let nodes = self.outlet.nodes().await?;
        let Some(writing) = &self.writing else {
            return Ok(Step::Again);
        };
        if writing.nodes != nodes {
            self.begin(Reason::Nodes).await?;
            return Ok(Step::Again);
        }
        let generation = writing.generation;
        let beat = Beat {
            bound: bound.bound,
            generation,
            number: self.next_number(),
            at: look.at,
            age_millis: look.age_millis(),
        };
        let step = self
            .append(&[FeedMessage::Beat(beat)], Some((beat.number, &nodes)))
            .await?;
        if step == Step::On {
            self.beat_at = Instant::now() + self.config.heartbeat_ms;
            if !bound.is_published {
                self.store.mark_bound_published(bound.bound).await?;
            }
        }
        Ok(step)
    }

    /// The number of the next beat, above those of all before, whatever process sent them.
    fn next_number(&mut self) -> u64 {
        let token = self.lease.token().unwrap_or(0);
        let first = token.saturating_mul(BEATS_A_TOKEN);
        self.number = first.max(self.number.saturating_add(1));
        self.number
    }

    /// Puts messages on the feed where that is allowed.
    async fn append(
        &mut self,
        messages: &[FeedMessage<'_>],
        beat: Option<(u64, &str)>,
    ) -> Result<Step, RelayError> {
        let (Some(token), Some(writing)) = (self.lease.token(), &self.writing) else {
            return Ok(Step::Again);
        };
        let order = self.order(token, writing, beat);
        match self.outlet.append(&order, messages).await? {
            Appended::At(position) => {
                if let Some(writing) = &mut self.writing {
                    writing.position = position;
                }
                Ok(Step::On)
            }
            Appended::Fenced(token) => self.fenced(token).await,
            Appended::Foreign(installation) => Err(RelayError::Foreign(installation)),
            Appended::GoneBack(what) => {
                tracing::warn!(what, "Redis is not as it was left");
                let reason = if what == "state" {
                    Reason::Empty
                } else {
                    Reason::Lost
                };
                self.begin(reason).await?;
                Ok(Step::Again)
            }
        }
    }

    /// What goes with messages that are put behind what was written last.
    fn order<'a>(
        &'a self,
        token: u64,
        writing: &'a Writing,
        beat: Option<(u64, &'a str)>,
    ) -> Append<'a> {
        let state = self.lease.state();
        Append {
            token,
            owner: self.lease.owner(),
            installation: &state.installation,
            generation: writing.generation,
            after: writing.position,
            begins: false,
            skipped_in: state.skipped_in,
            beat,
        }
    }

    /// Forgets what was to be written. Hot links that were read until now may be older than what others publish meanwhile.
    fn stop_writing(&mut self) {
        self.writing = None;
        self.hot.forget();
    }

    /// Says in metrics how much waits, and how old the feed is.
    async fn measure(&mut self) {
        let now = Instant::now();
        if now < self.next_measure {
            return;
        }
        self.next_measure = now + MEASURE;
        let age = self
            .feed
            .age()
            .map_or(f64::INFINITY, |age| age.as_secs_f64());
        gauge!(FEED_AGE).set(age);
        // A failure is counted where it happens.
        if let Ok(size) = self.store.outbox_size().await {
            gauge!(OUTBOX_ROWS).set(size.rows as f64);
            gauge!(OUTBOX_AGE).set(Duration::from_millis(size.age_millis).as_secs_f64());
        }
    }
}

/// Cuts batches into groups that are published together, of [`GROUP_BYTES`] at most or of one batch.
fn groups(batches: &[PendingBatch]) -> impl Iterator<Item = &[PendingBatch]> {
    let mut bytes = 0;
    batches.chunk_by(move |batch, next| {
        bytes += batch.size();
        let fits = bytes + next.size() <= GROUP_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    })
}

/// When what is under way at a stop is given up.
async fn long_after(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(DRAIN).await;
}

async fn next(nudges: &mut Option<Nudges>) {
    match nudges {
        Some(nudges) => nudges.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Packed;

    #[test]
    fn a_redis_of_another_installation_is_refused_with_what_can_be_done() {
        let error = RelayError::Foreign("theirs".to_owned()).to_string();
        assert!(
            error.contains("(theirs)") && error.contains("DEL {feed}:state"),
            "{error}"
        );
    }

    #[test]
    fn batches_are_published_in_groups_of_bounded_size_or_alone() {
        let batch = |size| PendingBatch {
            id: 0,
            keys: Packed::from(vec![0; size]),
            records: Packed::default(),
        };
        let sizes = [1, GROUP_BYTES - 1, 1, GROUP_BYTES + 1, 1, 1];
        let batches = sizes.map(batch);
        let lengths: Vec<usize> = groups(&batches).map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 1, 1, 2]);
        assert_eq!(groups(&[]).count(), 0);
    }
}
