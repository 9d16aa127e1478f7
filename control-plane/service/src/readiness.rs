//! Readiness of this process for requests.

use edgelink_feed::Feed;
use edgelink_store::{FeedKind, PublisherState, Store};
use edgelink_wire::{FeedPoint, FeedPosition};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Time for which an answer of the store is reused, so that many probes cost one query.
const LOOK_LIFETIME: Duration = Duration::from_secs(1);
/// Time limit for an answer of the store; few probes wait longer.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// The readiness of this process for requests.
pub struct Readiness {
    store: Arc<Store>,
    feed: Arc<Feed>,
    /// True if control planes share a feed in Redis.
    has_redis: bool,
    /// Longest time for which published changes may be missing here.
    max_age: Duration,
    stopping: AtomicBool,
    last_look: Mutex<Option<Look>>,
}

/// A check of the publisher's row in the database.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    answered: bool,
    /// The place of the feed that the publisher had noted at the first check that was answered.
    first: Option<FeedPoint>,
    missing: Option<Missing>,
}

/// A published place that the feed has not reached here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missing {
    place: FeedPoint,
    since: Instant,
    /// The last place that the publisher has noted, and the time at which a check found it first.
    noted: (FeedPoint, Instant),
}

/// The reason why the process is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// It stops.
    Stopping,
    /// The store does not answer.
    Store,
    /// Published changes do not arrive.
    Feed,
}

impl Look {
    /// The next check. Places that the publisher had noted before the first check do not count as missing: if Redis is gone for all
    /// control planes, none of them gets these changes, and none should be unready because of that.
    fn next(
        last: Option<Self>,
        published: Option<FeedPoint>,
        here: FeedPoint,
        at: Instant,
    ) -> Self {
        let first = last.and_then(|look| look.first).or(published);
        // A place that a restored database no longer has is not missing.
        let is_missing =
            |place| here < place && published.is_none_or(|published| published >= place);
        let still = last
            .and_then(|look| look.missing)
            .filter(|missing| is_missing(missing.place))
            .map(|missing| missing.with(published, at));
        let newly = published.filter(|place| Some(*place) > first && is_missing(*place));
        Self {
            at,
            answered: published.is_some(),
            first,
            missing: still.or(newly.map(|place| Missing::new(place, at))),
        }
    }

    /// True if published changes have not arrived here for longer than `max_age`.
    fn is_cut_off(&self, max_age: Duration) -> bool {
        self.missing
            .is_some_and(|missing| missing.is_for_longer_than(max_age))
    }
}

impl Missing {
    fn new(place: FeedPoint, at: Instant) -> Self {
        Self {
            place,
            since: at,
            noted: (place, at),
        }
    }

    fn with(self, published: Option<FeedPoint>, at: Instant) -> Self {
        let further = published.filter(|place| *place > self.noted.0);
        Self {
            noted: further.map_or(self.noted, |place| (place, at)),
            ..self
        }
    }

    /// True if the publisher has noted further places more than `max_age` after this one was missed. A Redis that is gone for all
    /// may have lost changes that it had just acknowledged: then no control plane reaches this place, and the publisher notes no
    /// further one.
    fn is_for_longer_than(&self, max_age: Duration) -> bool {
        self.noted.1.saturating_duration_since(self.since) > max_age
    }
}

impl Readiness {
    /// Ready, unless published changes are missing for longer than `max_age`. Without Redis the feed is not shared.
    #[must_use]
    pub fn new(store: Arc<Store>, feed: Arc<Feed>, has_redis: bool, max_age: Duration) -> Self {
        Self {
            store,
            feed,
            has_redis,
            max_age,
            stopping: AtomicBool::new(false),
            last_look: Mutex::default(),
        }
    }

    /// Makes the process not ready from now on.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Checks that this process should get requests.
    ///
    /// # Errors
    /// The reason why not.
    pub async fn check(&self) -> Result<(), NotReady> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(NotReady::Stopping);
        }
        let look = self.look().await;
        if !look.answered {
            return Err(NotReady::Store);
        }
        if look.is_cut_off(self.max_age) {
            return Err(NotReady::Feed);
        }
        Ok(())
    }

    /// Reads the row of the publisher at most once per [`LOOK_LIFETIME`]; probes that arrive meanwhile wait for its answer.
    async fn look(&self) -> Look {
        let mut last = self.last_look.lock().await;
        if let Some(look) = last.filter(|look| look.at.elapsed() < LOOK_LIFETIME) {
            return look;
        }
        let state = tokio::time::timeout(LOOK_TIMEOUT, self.store.publisher()).await;
        let state = state.ok().and_then(Result::ok);
        let published = state.map(|state| self.published(&state));
        let look = Look::next(*last, published, self.feed.place(), Instant::now());
        *last = Some(look);
        look
    }

    /// The published end of the feed that this process follows; the start if that is unknown.
    fn published(&self, state: &PublisherState) -> FeedPoint {
        let is_shared = self.has_redis && state.kind == FeedKind::Redis.as_str();
        if is_shared && state.position > FeedPosition::START {
            (state.generation, state.position)
        } else {
            (0, FeedPosition::START)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: FeedPoint = (1, FeedPosition::new(10, 0));
    const LATER: FeedPoint = (1, FeedPosition::new(20, 0));
    const ANOTHER: FeedPoint = (2, FeedPosition::new(5, 0));

    const MAX_AGE: Duration = Duration::from_secs(4);

    /// Checks one after another, a second apart.
    struct Looks(Option<Look>, Instant);

    impl Looks {
        fn new() -> Self {
            Self(None, Instant::now())
        }

        fn next(&mut self, published: Option<FeedPoint>, here: FeedPoint) -> Look {
            self.1 += Duration::from_secs(1);
            *self.0.insert(Look::next(self.0, published, here, self.1))
        }
    }

    #[test]
    fn message_when_published_later_is_missing_until_it_comes() {
        let mut looks = Looks::new();
        let none = looks.next(None, HERE);
        assert!(!none.answered && none.first.is_none());
        // The state that a process finds whose Redis is gone, or that has just started.
        for _ in 0..2 {
            let same = looks.next(Some(LATER), (0, FeedPosition::START));
            assert!(same.answered && same.missing.is_none());
        }
        let missing = looks.next(Some(ANOTHER), LATER);
        let place = |look: Look| look.missing.map(|missing| missing.place);
        assert_eq!(place(missing), Some(ANOTHER));
        // A database that does not answer ends nothing.
        let silent = looks.next(None, LATER);
        assert_eq!(silent.missing, missing.missing);
        let come = looks.next(Some((2, FeedPosition::new(9, 0))), ANOTHER);
        assert_eq!(place(come), Some((2, FeedPosition::new(9, 0))));
        let all = looks.next(Some(ANOTHER), (2, FeedPosition::new(9, 0)));
        assert_eq!(all.missing, None);
        let restored = Look::next(Some(missing), Some(LATER), LATER, looks.1);
        assert_eq!(restored.missing, None);
    }

    #[test]
    fn process_when_only_the_publisher_goes_on_is_cut_off() {
        let mut looks = Looks::new();
        looks.next(Some(HERE), HERE);
        // Changes that Redis had acknowledged before it was gone for all.
        for seconds in 0..60 {
            let look = looks.next(Some(LATER), HERE);
            assert!(
                look.missing.is_some() && !look.is_cut_off(MAX_AGE),
                "{seconds}"
            );
        }
        let mut looks = Looks::new();
        looks.next(Some(HERE), HERE);
        for second in 0..60 {
            let published = (1, FeedPosition::new(20 + second, 0));
            let look = looks.next(Some(published), HERE);
            assert_eq!(look.is_cut_off(MAX_AGE), second > 4, "{second}");
        }
        let published = (1, FeedPosition::new(79, 0));
        assert!(!looks.next(Some(published), published).is_cut_off(MAX_AGE));
    }
}
