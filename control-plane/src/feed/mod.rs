//! The changes as this process has seen them: a bounded stretch of the feed, for edges that poll, and listeners within the
//! process that keep their caches fresh by it.

mod ring;
mod tail;
mod telling;

pub use ring::{Batch, RingLimits};
pub use tail::Tail;

use edgelink_wire::FeedPosition;
use edgelink_wire::feed::FeedMessage;
use ring::Ring;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How far this process may be behind another one that reads the same feed.
const BEHIND: Duration = Duration::from_millis(500);

/// Something that keeps up with the changes.
pub trait Listener: Send + Sync + 'static {
    /// Something changed.
    fn apply(&self, message: &FeedMessage<'_>);

    /// Changes may have been missed.
    fn start_anew(&self);
}

/// The newest changes.
pub struct Feed {
    ring: Mutex<Ring>,
    end: watch::Sender<FeedPosition>,
    listeners: Vec<Arc<dyn Listener>>,
    /// Whether changes come without delay.
    live: AtomicBool,
    stop: CancellationToken,
}

impl Feed {
    /// An empty feed.
    #[must_use]
    pub fn new(limits: RingLimits, listeners: Vec<Arc<dyn Listener>>) -> Self {
        Self {
            ring: Mutex::new(Ring::new(limits)),
            end: watch::Sender::new(FeedPosition::START),
            listeners,
            live: AtomicBool::new(false),
            stop: CancellationToken::new(),
        }
    }

    /// Appends a change. Listeners hear of it first: who reads it here finds them up to date.
    pub fn push(&self, position: FeedPosition, message: &FeedMessage<'_>) {
        for listener in &self.listeners {
            listener.apply(message);
        }
        self.ring().push(position, message);
        self.end.send_replace(position);
    }

    /// Goes on at `position`, with nothing known of what was before.
    pub fn start_anew(&self, position: FeedPosition) {
        for listener in &self.listeners {
            listener.start_anew();
        }
        self.ring().start_anew(position);
        self.end.send_replace(position);
    }

    /// Passes over an entry that holds nothing for us.
    pub fn pass(&self, position: FeedPosition) {
        self.ring().pass(position);
        self.end.send_replace(position);
    }

    /// Says whether changes come without delay.
    pub fn set_live(&self, is_live: bool) {
        self.live.store(is_live, Ordering::Release);
    }

    /// Whether changes come without delay, as far as is known.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// The position of the newest change.
    #[must_use]
    pub fn end(&self) -> FeedPosition {
        *self.end.borrow()
    }

    /// What came behind `after`. Where there is nothing yet, waits for it up to `wait`; a shutdown ends that at once.
    pub async fn read(&self, after: Option<FeedPosition>, wait: Duration) -> Batch {
        if let Some(after) = after.filter(|after| *after > self.end()) {
            // Another control plane has told of more than this one has heard of yet. It is no gap unless it stays so.
            self.catch_up(after, wait.min(BEHIND)).await;
        }
        // Taken before looking, so that nothing slips in between.
        let mut end = self.end.subscribe();
        let batch = self.ring().read(after);
        if !batch.is_empty() || wait.is_zero() {
            return batch;
        }
        let changed = async {
            tokio::select! {
                () = self.stop.cancelled() => {}
                _ = end.wait_for(|end| Some(*end) != after) => {}
            }
        };
        // Whether something came or the time is up shows in what there is.
        let _ = timeout(wait, changed).await;
        self.ring().read(after)
    }

    /// Returns when everything up to `position` has come, or when the time is up, and says which.
    pub async fn catch_up(&self, position: FeedPosition, wait: Duration) -> bool {
        let mut end = self.end.subscribe();
        let reached = end.wait_for(|end| *end >= position);
        matches!(timeout(wait, reached).await, Ok(Ok(_)))
    }

    /// Ends waiting, now and from now on.
    pub fn shutdown(&self) {
        self.stop.cancel();
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const WAIT: Duration = Duration::from_secs(30);

    fn feed() -> Arc<Feed> {
        let feed = Feed::new(RingLimits::default(), Vec::new());
        feed.start_anew(FeedPosition::new(10, 0));
        Arc::new(feed)
    }

    fn waiting(feed: &Arc<Feed>) -> tokio::task::JoinHandle<Batch> {
        let feed = feed.clone();
        tokio::spawn(async move { feed.read(Some(FeedPosition::new(10, 0)), WAIT).await })
    }

    async fn until_somebody_waits(feed: &Feed) {
        while feed.end.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_change_ends_the_waiting() {
        let feed = feed();
        let reader = waiting(&feed);
        until_somebody_waits(&feed).await;
        feed.push(FeedPosition::new(11, 0), &FeedMessage::Flush);
        let batch = reader.await.unwrap();
        assert_eq!(
            (batch.messages.len(), batch.next),
            (1, FeedPosition::new(11, 0))
        );
    }

    #[tokio::test]
    async fn a_shutdown_ends_the_waiting_at_once() {
        let feed = feed();
        let reader = waiting(&feed);
        until_somebody_waits(&feed).await;
        feed.shutdown();
        assert!(reader.await.unwrap().is_empty());
        let later = waiting(&feed);
        assert!(later.await.unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_change_the_answer_is_empty_when_the_time_is_up() {
        let batch = waiting(&feed()).await.unwrap();
        assert!(batch.is_empty());
        assert_eq!(batch.next, FeedPosition::new(10, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_heard_more_from_another_control_plane_waits_for_this_one_to_catch_up() {
        let feed = feed();
        let ahead = Some(FeedPosition::new(11, 0));
        let catching_up = async {
            sleep(BEHIND / 2).await;
            feed.push(FeedPosition::new(11, 0), &FeedMessage::Flush);
            feed.push(FeedPosition::new(12, 0), &FeedMessage::Flush);
        };
        let (batch, ()) = tokio::join!(feed.read(ahead, WAIT), catching_up);
        assert_eq!((batch.gap, batch.messages.len()), (false, 1));
        // A position of another feed, that of a Redis that was emptied, never comes.
        let batch = feed.read(Some(FeedPosition::new(99, 0)), WAIT).await;
        assert!(batch.gap);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_position_is_told_whether_it_came() {
        let feed = feed();
        assert!(
            feed.catch_up(FeedPosition::new(10, 0), Duration::ZERO)
                .await
        );
        assert!(!feed.catch_up(FeedPosition::new(12, 0), WAIT).await);
        feed.push(FeedPosition::new(12, 1), &FeedMessage::Flush);
        assert!(feed.catch_up(FeedPosition::new(12, 0), WAIT).await);
    }
}
