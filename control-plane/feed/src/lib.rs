//! Changes on their way from the database to edges and webhooks.
//!
//! The [`publisher`] moves the outbox to the feed. [`Feed`] is the feed in this process: a bounded ring of changes for polling
//! edges, and listeners that apply each change to their caches before edges can read it. It knows its age: everything that was
//! committed longer ago has been received. It also knows what edges have applied, and [`Sharing`]
//! shares it with other replicas. [`resolve`] answers lookups by the caches that the feed keeps fresh, [`snapshot`] makes
//! the state that a worker starts from, [`webhooks`] sends events.

mod clock;
mod domains;
mod pollers;
pub mod publisher;
pub mod resolve;
mod ring;
mod sharing;
pub mod snapshot;
mod tail;
mod visibility;
mod waiters;
pub mod webhooks;

pub use clock::DatabaseClock;
pub use domains::Domains;
pub use ring::ChangeBatch;
pub use sharing::Sharing;
pub use tail::Tail;
pub use visibility::{AwaitedChanges, Changed};

use edgelink_settings::config::FeedConfig;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::{FeedPoint, FeedPosition};
use pollers::Pollers;
use ring::Ring;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Longest wait of a poll for a position that another replica has reached already. That replica would answer at once.
const MAX_LAG: Duration = Duration::from_millis(100);

/// Longest wait of a poll for a feed that is not current. So an edge gets changes the moment the feed is current again, not with its
/// next poll; no longer, because another replica may be current.
const MAX_SILENCE: Duration = Duration::from_millis(500);

/// A cache that applies the changes of the feed.
pub trait Listener: Send + Sync + 'static {
    /// Applies a change.
    fn apply(&self, message: &FeedMessage<'_>);

    /// Drops everything: changes may have been missed.
    fn invalidate_all(&self);
}

/// The newest changes.
pub struct Feed {
    ring: Mutex<Ring>,
    end: watch::Sender<End>,
    beat: Mutex<Option<LastBeat>>,
    clock: DatabaseClock,
    listeners: Vec<Arc<dyn Listener>>,
    pollers: Pollers,
    max_age: Duration,
    /// Time since which this process follows the feed.
    started: Instant,
    stop: CancellationToken,
}

/// The position of the newest change, and its generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    /// 0 if unknown.
    pub generation: u64,
    position: FeedPosition,
}

/// The last beat of the generation that the feed is in.
#[derive(Clone, Copy, Debug)]
struct LastBeat {
    beat: Beat,
    received_at: Instant,
}

/// The state of a feed that is current: everything committed is received within its maximal age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentFeed {
    /// The generation.
    pub generation: u64,
    /// The number of the last beat.
    pub number: u64,
    /// Everything committed before then has been received.
    pub as_of: Instant,
}

/// The error of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// Changes that were committed long ago may be missing.
    #[error("the feed is not current")]
    NotCurrent,
    /// The position is ahead of this replica.
    #[error("the feed is behind that position")]
    Behind,
}

impl Feed {
    /// An empty feed.
    #[must_use]
    pub fn new(config: &FeedConfig, listeners: Vec<Arc<dyn Listener>>) -> Self {
        Self {
            ring: Mutex::new(Ring::new(config.entries, config.bytes)),
            end: watch::Sender::new(End::default()),
            beat: Mutex::new(None),
            clock: DatabaseClock::default(),
            listeners,
            pollers: Pollers::new(config.max_pollers),
            max_age: config.max_age_ms,
            started: Instant::now(),
            stop: CancellationToken::new(),
        }
    }

    /// The database's clock, by which the age is measured; each reader of the database updates it.
    #[must_use]
    pub fn clock(&self) -> &DatabaseClock {
        &self.clock
    }

    /// Appends a change, after the listeners have applied it: a reader of the feed finds their caches up to date.
    pub fn push(&self, position: FeedPosition, message: &FeedMessage<'_>) {
        for listener in &self.listeners {
            listener.apply(message);
        }
        let is_change = self.ring().push(position, message);
        if let FeedMessage::Beat(beat) = message {
            *self.last_beat() = Some(LastBeat {
                beat: *beat,
                received_at: Instant::now(),
            });
        }
        // Before a worker that acknowledges this position is let pass.
        self.pollers.on_push(position, is_change);
        self.end.send_modify(|end| end.position = position);
    }

    /// Drops everything and continues at `position` of a generation (0 if unknown).
    pub fn reset(&self, generation: u64, position: FeedPosition) {
        *self.last_beat() = None;
        for listener in &self.listeners {
            listener.invalidate_all();
        }
        // First, so that a wait that ends by the reset is one for the new generation.
        self.pollers.on_reset((generation, position));
        self.ring().reset(generation, position);
        self.end.send_replace(End {
            generation,
            position,
        });
    }

    /// The state of the feed; `None` if it is not current.
    #[must_use]
    pub fn current(&self) -> Option<CurrentFeed> {
        let now = Instant::now();
        let (beat, age) = self.age_at(now)?;
        (age <= self.max_age).then(|| CurrentFeed {
            generation: beat.generation,
            number: beat.number,
            as_of: now.checked_sub(age).unwrap_or(now),
        })
    }

    /// True if the feed is current.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.current().is_some()
    }

    /// True if this process has followed the feed for less time than becoming current may take.
    fn is_starting(&self) -> bool {
        self.started.elapsed() < self.max_age
    }

    /// The age of the feed: everything committed longer ago has been received. `None` if unknown.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.age_at(Instant::now()).map(|(_, age)| age)
    }

    /// The age is at least the time since the beat was received, even if the database's clock was set back.
    fn age_at(&self, now: Instant) -> Option<(Beat, Duration)> {
        let last = (*self.last_beat())?;
        let age = self.age_of(last.beat.at, now)?;
        Some((
            last.beat,
            age.max(now.saturating_duration_since(last.received_at)),
        ))
    }

    fn age_of(&self, at: u64, now: Instant) -> Option<Duration> {
        let age = self.clock.at_most(now)?.saturating_sub(at);
        Some(Duration::from_micros(age))
    }

    /// The position of the newest change.
    #[must_use]
    pub fn end(&self) -> FeedPosition {
        self.end.borrow().position
    }

    /// The generation, 0 if unknown, and the position of the newest change.
    #[must_use]
    pub fn place(&self) -> FeedPoint {
        let end = *self.end.borrow();
        (end.generation, end.position)
    }

    /// The changes after a position of a generation. Waits for the first one up to `wait`; a shutdown ends the wait. A worker
    /// acknowledges by its poll everything up to that position; one without a name cannot.
    ///
    /// # Errors
    /// [`FeedError::NotCurrent`] if the feed is not and stays so, or as soon as it ceases to be; [`FeedError::Behind`] if the
    /// position is ahead of this feed and stays so.
    pub async fn poll(
        &self,
        worker: Option<WorkerId>,
        after: Option<FeedPoint>,
        wait: Duration,
    ) -> Result<ChangeBatch, FeedError> {
        let asked = Instant::now();
        let until = asked + wait;
        if let Some((generation, position)) = after {
            self.await_position(generation, position).await?;
        }
        self.pollers.on_poll(worker, after);
        let batch = self.next_batch(after, (asked, until)).await?;
        self.pollers
            .on_answer(worker, (batch.generation, batch.next));
        Ok(batch)
    }

    /// The changes after a position, of a poll that was sent at the first of these times and waits until the second.
    async fn next_batch(
        &self,
        after: Option<FeedPoint>,
        (asked, until): (Instant, Instant),
    ) -> Result<ChangeBatch, FeedError> {
        let wait = until.saturating_duration_since(Instant::now());
        self.await_current(MAX_SILENCE.min(wait)).await;
        loop {
            // Subscribed before the ring is read, so that no change slips through.
            let mut end = self.end.subscribe();
            end.mark_unchanged();
            let current = self.current().ok_or(FeedError::NotCurrent)?;
            let batch = self.batch(after, asked);
            if !batch.is_empty() || Instant::now() >= until {
                return Ok(batch);
            }
            let stale = current.as_of + self.max_age + Duration::from_millis(1);
            tokio::select! {
                () = self.stop.cancelled() => return Ok(batch),
                _ = end.changed() => {}
                () = sleep_until(until.min(stale)) => {}
            }
        }
    }

    /// Waits until the feed is current, but not for long.
    async fn await_current(&self, limit: Duration) {
        let mut end = self.end.subscribe();
        // A beat makes the feed current and moves the end.
        let current = end.wait_for(|_| self.is_current());
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = timeout(limit, current) => {}
        }
    }

    /// Waits for a position that another replica may have reached earlier.
    async fn await_position(
        &self,
        generation: u64,
        position: FeedPosition,
    ) -> Result<(), FeedError> {
        let is_ahead = |end: &End| end.generation == generation && end.position < position;
        let mut end = self.end.subscribe();
        let reached = end.wait_for(|end| !is_ahead(end));
        match timeout(MAX_LAG, reached).await {
            Ok(_) => Ok(()),
            Err(_) if self.is_current() => Err(FeedError::Behind),
            Err(_) => Err(FeedError::NotCurrent),
        }
    }

    /// The batch at hand, and its age. A batch that ends before the newest change is as old as its last beat.
    fn batch(&self, after: Option<FeedPoint>, asked: Instant) -> ChangeBatch {
        let now = Instant::now();
        // Taken before the ring is read: changes received in between make the batch no older.
        let age = self.age_at(now).map(|(_, age)| age);
        let mut ring = self.ring();
        let mut batch = match after {
            Some((generation, position)) => ring.read_in_generation(generation, position),
            None => ring.read(None),
        };
        let age = if batch.reaches_end {
            age
        } else {
            batch.messages.last_beat.and_then(|at| self.age_of(at, now))
        };
        batch.age = age.unwrap_or(Duration::MAX);
        batch.waited = now.saturating_duration_since(asked);
        batch
    }

    /// The changes after `after` in any generation. Waits for the first one up to `wait`; a shutdown ends the wait.
    pub async fn read(&self, after: FeedPosition, wait: Duration) -> ChangeBatch {
        let mut end = self.end.subscribe();
        let batch = self.ring().read(Some(after));
        if !batch.is_empty() || wait.is_zero() {
            return batch;
        }
        let changed = async {
            tokio::select! {
                () = self.stop.cancelled() => {}
                _ = end.wait_for(|end| end.position != after) => {}
            }
        };
        // After a timeout or a change alike, the ring is read again.
        let _ = timeout(wait, changed).await;
        self.ring().read(Some(after))
    }

    /// Waits up to `wait` until the entry at `position` of a generation is received. Later entries do not prove it: a
    /// Redis that was set back may have lost it.
    pub async fn wait_for_entry(
        &self,
        generation: u64,
        position: FeedPosition,
        wait: Duration,
    ) -> bool {
        let mut end = self.end.subscribe();
        let reached = end.wait_for(|end| end.generation == generation && end.position >= position);
        matches!(timeout(wait, reached).await, Ok(Ok(_))) && self.ring().has(generation, position)
    }

    /// Waits up to `wait` until everything up to `position` is received.
    pub async fn wait_for_position(&self, position: FeedPosition, wait: Duration) -> bool {
        let mut end = self.end.subscribe();
        let reached = end.wait_for(|end| end.position >= position);
        matches!(timeout(wait, reached).await, Ok(Ok(_)))
    }

    /// Ends all waits, now and from now on.
    pub fn shutdown(&self) {
        self.stop.cancel();
    }

    /// True after [`Self::shutdown`].
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.stop.is_cancelled()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_beat(&self) -> MutexGuard<'_, Option<LastBeat>> {
        self.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: edgelink_model::allocations::Counting = edgelink_model::allocations::Counting;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const WAIT: Duration = Duration::from_secs(30);
    const GENERATION: u64 = 5;
    /// The database's clock at the start of a test, in microseconds.
    const START: u64 = 1_767_225_600_000_000;

    fn at(millis: u64) -> FeedPosition {
        FeedPosition::new(millis, 0)
    }

    fn beat(at: u64) -> FeedMessage<'static> {
        FeedMessage::Beat(Beat {
            bound: 1,
            generation: GENERATION,
            number: at,
            at,
            age_millis: 0,
        })
    }

    /// A feed whose newest entry is a beat at 10-0.
    fn feed() -> Arc<Feed> {
        let feed = Feed::new(&FeedConfig::default(), Vec::new());
        feed.clock().note(Instant::now(), START);
        feed.reset(GENERATION, at(9));
        feed.push(at(10), &beat(START));
        Arc::new(feed)
    }

    type Polled = Result<ChangeBatch, FeedError>;

    fn waiting(feed: &Arc<Feed>) -> tokio::task::JoinHandle<Polled> {
        let feed = feed.clone();
        tokio::spawn(async move { feed.poll(None, Some((GENERATION, at(10))), WAIT).await })
    }

    async fn until_one_waits(feed: &Feed) {
        while feed.end.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn poll_when_a_change_comes_is_answered() {
        let feed = feed();
        let reader = waiting(&feed);
        until_one_waits(&feed).await;
        feed.push(at(11), &FeedMessage::Flush);
        let batch = reader.await.unwrap().unwrap();
        assert_eq!((batch.messages.len(), batch.next), (1, at(11)));
    }

    #[tokio::test]
    async fn poll_when_shut_down_is_answered_at_once() {
        let feed = feed();
        let reader = waiting(&feed);
        until_one_waits(&feed).await;
        feed.shutdown();
        assert!(reader.await.unwrap().unwrap().is_empty());
        let later = waiting(&feed);
        assert!(later.await.unwrap().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn poll_when_nothing_changes_is_answered_empty() {
        let feed = feed();
        let wait = Duration::from_secs(1);
        let batch = feed
            .poll(None, Some((GENERATION, at(10))), wait)
            .await
            .unwrap();
        assert!(batch.is_empty());
        assert_eq!(batch.next, at(10));
        assert!(
            (1000..1010).contains(&batch.age.as_millis()),
            "{:?}",
            batch.age
        );
    }

    #[tokio::test(start_paused = true)]
    async fn feed_when_without_beats_is_not_current() {
        let feed = feed();
        let start = Instant::now();
        assert_eq!(waiting(&feed).await.unwrap(), Err(FeedError::NotCurrent));
        let waited = start.elapsed().as_millis();
        assert!((3990..4100).contains(&waited), "{waited}");
        assert_eq!(feed.current(), None);
        feed.push(at(11), &FeedMessage::Flush);
        assert_eq!(feed.current(), None, "another entry is no beat");
        feed.push(at(12), &beat(START + 3_900_000));
        let current = feed.current().unwrap();
        assert_eq!(current.number, START + 3_900_000);
    }

    #[tokio::test(start_paused = true)]
    async fn poll_when_feed_is_current_again_is_answered_at_once() {
        let feed = feed();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(feed.current(), None);
        let reader = waiting(&feed);
        until_one_waits(&feed).await;
        let start = Instant::now();
        feed.push(at(11), &FeedMessage::Flush);
        feed.push(at(12), &beat(START + 5_000_000));
        let batch = reader.await.unwrap().unwrap();
        assert_eq!((batch.messages.len(), start.elapsed()), (2, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn poll_when_feed_is_silent_fails_after_the_longest_silence() {
        let feed = feed();
        sleep(Duration::from_secs(5)).await;
        let start = Instant::now();
        assert_eq!(waiting(&feed).await.unwrap(), Err(FeedError::NotCurrent));
        assert_eq!(start.elapsed(), MAX_SILENCE);
        let start = Instant::now();
        let at_once = feed
            .poll(None, Some((GENERATION, at(10))), Duration::ZERO)
            .await;
        assert_eq!(at_once, Err(FeedError::NotCurrent));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn beat_when_delayed_is_as_old_as_it_says() {
        let feed = feed();
        sleep(Duration::from_secs(2)).await;
        // Read two seconds ago, and delayed since.
        feed.push(at(11), &beat(START));
        assert!(feed.age().unwrap() >= Duration::from_secs(2));
        feed.push(at(12), &beat(START + 2_000_000));
        assert!(feed.age().unwrap() < Duration::from_millis(10));
        // The database's clock is set back by an hour: nothing gets younger.
        feed.clock().note(Instant::now(), START - 3_600_000_000);
        sleep(Duration::from_secs(3)).await;
        assert!(feed.age().unwrap() >= Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn position_when_ahead_of_the_feed_is_waited_for() {
        let feed = feed();
        let ahead = Some((GENERATION, at(11)));
        let catching_up = async {
            sleep(MAX_LAG / 2).await;
            feed.push(at(11), &FeedMessage::Flush);
            feed.push(at(12), &FeedMessage::Flush);
        };
        let (batch, ()) = tokio::join!(feed.poll(None, ahead, WAIT), catching_up);
        let batch = batch.unwrap();
        assert_eq!((batch.gap, batch.messages.len()), (false, 1));
        let far = feed.poll(None, Some((GENERATION, at(99))), WAIT).await;
        assert_eq!(far, Err(FeedError::Behind));
    }

    #[tokio::test(start_paused = true)]
    async fn position_when_of_another_generation_is_a_gap() {
        let feed = feed();
        for after in [None, Some((GENERATION - 1, at(10))), Some((7, at(99)))] {
            let batch = feed.poll(None, after, WAIT).await.unwrap();
            assert_eq!(
                (batch.gap, batch.next, batch.generation),
                (true, at(10), GENERATION)
            );
        }
        let reader = waiting(&feed);
        until_one_waits(&feed).await;
        // The stream continues, but Redis may have lost something.
        feed.reset(GENERATION + 1, at(10));
        feed.push(
            at(11),
            &FeedMessage::Beat(Beat {
                generation: GENERATION + 1,
                at: START,
                ..Beat::default()
            }),
        );
        assert!(reader.await.unwrap().unwrap().gap);
    }

    #[tokio::test(start_paused = true)]
    async fn batch_when_cut_off_is_as_old_as_its_last_beat() {
        let feed = feed();
        for millis in 11..6000 {
            feed.push(at(millis), &FeedMessage::Flush);
        }
        sleep(Duration::from_secs(1)).await;
        feed.push(at(6000), &beat(START + 1_000_000));
        let cut_off = feed
            .poll(None, Some((GENERATION, at(9))), WAIT)
            .await
            .unwrap();
        assert!(cut_off.age >= Duration::from_secs(1));
        let rest = feed
            .poll(None, Some((GENERATION, cut_off.next)), WAIT)
            .await
            .unwrap();
        assert!(rest.age < Duration::from_millis(10));
        let without = feed
            .poll(None, Some((GENERATION, at(10))), WAIT)
            .await
            .unwrap();
        assert_eq!(without.age, Duration::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn entry_when_lost_has_not_come() {
        let feed = feed();
        assert!(
            feed.wait_for_entry(GENERATION, FeedPosition::START, WAIT)
                .await
        );
        assert!(
            feed.wait_for_entry(GENERATION, at(10), Duration::ZERO)
                .await
        );
        assert!(
            feed.wait_for_entry(GENERATION, at(3), WAIT).await,
            "from before we began"
        );
        assert!(!feed.wait_for_entry(GENERATION + 1, at(10), WAIT).await);
        assert!(!feed.wait_for_entry(GENERATION, at(12), WAIT).await);
        feed.push(at(13), &FeedMessage::Flush);
        assert!(!feed.wait_for_entry(GENERATION, at(12), WAIT).await);
        assert!(feed.wait_for_entry(GENERATION, at(13), WAIT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn waiter_when_its_position_comes_succeeds() {
        let feed = feed();
        assert!(feed.wait_for_position(at(10), Duration::ZERO).await);
        assert!(!feed.wait_for_position(at(12), WAIT).await);
        feed.push(FeedPosition::new(12, 1), &FeedMessage::Flush);
        assert!(feed.wait_for_position(at(12), WAIT).await);
    }
}
