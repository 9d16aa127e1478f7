//! Probes: `/health/live` says that the process answers, `/health/ready` that it should get requests.

use super::bounded::ListenerAdmission;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use edgelink_feed::Feed;
use edgelink_feed::publisher::PublisherStatus;
use edgelink_feed::resolve::KnownKeys;
use edgelink_redis::Redis;
use edgelink_store::{FeedKind, PublisherState, Store};
use edgelink_wire::FeedPosition;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Time for which an answer of the store is reused, so that many probes cost one query.
const LOOK_LIFETIME: Duration = Duration::from_secs(1);
/// Time limit for an answer of the store; few probes wait longer.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the probes.
#[derive(Clone)]
pub struct Health {
    store: Arc<Store>,
    feed: Arc<Feed>,
    publisher: PublisherStatus,
    redis: Option<Arc<Redis>>,
    known_keys: Arc<KnownKeys>,
    /// Longest time for which published changes may be missing here.
    max_age: Duration,
    /// Longest time for which a listener may refuse all requests.
    unready_after: Duration,
    readiness: Arc<Readiness>,
}

/// The readiness of this process for requests.
#[derive(Default)]
struct Readiness {
    stopping: AtomicBool,
    last_look: Mutex<Option<Look>>,
}

/// A check of the publisher's row in the database.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    answered: bool,
    /// The place of the feed that the publisher had noted at the first check that was answered.
    first: Option<Place>,
    missing: Option<Missing>,
}

/// A published place that the feed has not reached here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missing {
    place: Place,
    since: Instant,
    /// The last place that the publisher has noted, and the time at which a check found it first.
    noted: (Place, Instant),
}

/// A generation of the feed, and a position in it.
type Place = (u64, FeedPosition);

/// The reason why the process is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotReady {
    Stopping,
    Store,
    Feed,
    Crowded,
}

impl Look {
    /// The next check. Places that the publisher had noted before the first check do not count as missing: if Redis is gone for all
    /// control planes, none of them gets these changes, and none should be unready because of that.
    fn next(last: Option<Self>, published: Option<Place>, here: Place, at: Instant) -> Self {
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
    fn new(place: Place, at: Instant) -> Self {
        Self {
            place,
            since: at,
            noted: (place, at),
        }
    }

    fn with(self, published: Option<Place>, at: Instant) -> Self {
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

impl Health {
    pub(crate) fn new(
        store: Arc<Store>,
        feed: Arc<Feed>,
        publisher: PublisherStatus,
        redis: Option<Arc<Redis>>,
        known_keys: Arc<KnownKeys>,
        [max_age, unready_after]: [Duration; 2],
    ) -> Self {
        Self {
            store,
            feed,
            publisher,
            redis,
            known_keys,
            max_age,
            unready_after,
            readiness: Arc::default(),
        }
    }

    /// Makes the process not ready from now on.
    pub fn stop(&self) {
        self.readiness.stopping.store(true, Ordering::Relaxed);
    }

    /// True if this process should get requests.
    pub(crate) async fn is_ready(&self) -> bool {
        self.check().await.is_ok()
    }

    async fn check(&self) -> Result<(), NotReady> {
        if self.readiness.stopping.load(Ordering::Relaxed) {
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
        let mut last = self.readiness.last_look.lock().await;
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
    fn published(&self, state: &PublisherState) -> Place {
        let is_shared = self.redis.is_some() && state.kind == FeedKind::Redis.as_str();
        if is_shared && state.position > FeedPosition::START {
            (state.generation, state.position)
        } else {
            (0, FeedPosition::START)
        }
    }

    /// The state of Redis, which never makes a process unready: without it the database answers.
    fn redis(&self) -> &'static str {
        match &self.redis {
            None => "none",
            Some(redis) if redis.is_connected() => "connected",
            Some(_) => "away",
        }
    }

    /// The state of the feed.
    fn feed(&self) -> Value {
        let age = self.feed.age().map(|age| age.as_millis());
        json!({
            "current": self.feed.is_current(),
            "ageMs": age.and_then(|age| u64::try_from(age).ok()),
            "publisher": self.publisher.get().as_str(),
        })
    }

    /// Progress of the scan of all keys. It never makes a process unready: until it is complete the database is asked for each
    /// link, and workers that start get no snapshot here.
    fn known_keys(&self) -> Value {
        let progress = self.known_keys.progress();
        json!({
            "complete": progress.is_complete,
            "read": progress.keys,
            "percent": (progress.share * 100.0) as u64,
        })
    }

    fn answer(&self, code: StatusCode, status: &str) -> Response {
        let body = json!({
            "status": status,
            "feed": self.feed(),
            "redis": self.redis(),
            "knownKeys": self.known_keys(),
        });
        (code, Json(body)).into_response()
    }
}

/// Answers `/health/live` with 200, and checks nothing.
pub async fn live() -> Response {
    Json(json!({ "status": "live" })).into_response()
}

/// `/health/ready` of a listener. It is not ready while it only refuses requests: then the others lose nothing if it gets none. A
/// crowded listener that makes progress is ready, because its load would move to the other control planes otherwise.
pub async fn ready(
    State(health): State<Health>,
    Extension(listener): Extension<ListenerAdmission>,
) -> Response {
    let is_crowded = listener.stuck_for() >= health.unready_after;
    let checked = match health.check().await {
        Ok(()) if is_crowded => Err(NotReady::Crowded),
        checked => checked,
    };
    match checked {
        Ok(()) => health.answer(StatusCode::OK, "ready"),
        Err(NotReady::Stopping) => health.answer(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        Err(NotReady::Store) => health.answer(StatusCode::SERVICE_UNAVAILABLE, "store unavailable"),
        Err(NotReady::Feed) => {
            health.answer(StatusCode::SERVICE_UNAVAILABLE, "cut off from the feed")
        }
        Err(NotReady::Crowded) => {
            health.answer(StatusCode::SERVICE_UNAVAILABLE, "every request is refused")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = (1, FeedPosition::new(10, 0));
    const LATER: Place = (1, FeedPosition::new(20, 0));
    const ANOTHER: Place = (2, FeedPosition::new(5, 0));

    const MAX_AGE: Duration = Duration::from_secs(4);

    /// Checks one after another, a second apart.
    struct Looks(Option<Look>, Instant);

    impl Looks {
        fn new() -> Self {
            Self(None, Instant::now())
        }

        fn next(&mut self, published: Option<Place>, here: Place) -> Look {
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
