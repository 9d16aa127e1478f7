//! `/health/live`: whether the process answers. `/health/ready`: whether to send it requests.

use crate::feed::Feed;
use crate::publisher::PublisherStatus;
use crate::redis::Redis;
use crate::store::{FeedKind, PublisherState, Store};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use edgelink_wire::FeedPosition;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long an answer of the store counts, so that many probes cost one query.
const LOOK_LIFETIME: Duration = Duration::from_secs(1);
/// How long the store may take for an answer; few probes wait longer.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the probes.
#[derive(Clone)]
pub(crate) struct Health {
    store: Arc<Store>,
    feed: Arc<Feed>,
    publisher: PublisherStatus,
    redis: Option<Arc<Redis>>,
    /// For how long what is published may be missing here.
    max_age: Duration,
    readiness: Arc<Readiness>,
}

/// Whether to send requests to this process.
#[derive(Default)]
struct Readiness {
    stopping: AtomicBool,
    last_look: Mutex<Option<Look>>,
}

/// A look at the database.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    answered: bool,
    /// Where the feed was at the first look that was answered, as the publisher has noted it.
    first: Option<Place>,
    /// A later place that the feed has not come to here, and since when that is so.
    missing: Option<(Place, Instant)>,
}

/// A generation of the feed, and a position in it.
type Place = (u64, FeedPosition);

/// Why the process is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotReady {
    Stopping,
    Store,
    Feed,
}

impl Look {
    /// The next look. What the publisher had noted before the first one is not missed: if Redis is gone for all, no control plane
    /// gets it, and none is to be unready for that.
    fn next(last: Option<Self>, published: Option<Place>, here: Place) -> Self {
        let at = Instant::now();
        let first = last.and_then(|look| look.first).or(published);
        // Not what a database has forgotten that was restored.
        let is_missing =
            |place| here < place && published.is_none_or(|published| published >= place);
        let still = last
            .and_then(|look| look.missing)
            .filter(|(place, _)| is_missing(*place));
        let newly = published.filter(|place| Some(*place) > first && is_missing(*place));
        Self {
            at,
            answered: published.is_some(),
            first,
            missing: still.or(newly.map(|place| (place, at))),
        }
    }

    /// Whether what others publish has not come for so long.
    fn is_cut_off(&self, max_age: Duration) -> bool {
        self.missing
            .is_some_and(|(_, since)| since.elapsed() > max_age)
    }
}

impl Health {
    pub(crate) fn new(
        store: Arc<Store>,
        feed: Arc<Feed>,
        publisher: PublisherStatus,
        redis: Option<Arc<Redis>>,
        max_age: Duration,
    ) -> Self {
        Self {
            store,
            feed,
            publisher,
            redis,
            max_age,
            readiness: Arc::default(),
        }
    }

    /// Makes the process not ready from now on.
    pub(crate) fn stop(&self) {
        self.readiness.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether to send requests to this process.
    pub(crate) async fn is_ready(&self) -> bool {
        self.check().await.is_ok()
    }

    async fn check(&self) -> Result<(), NotReady> {
        if self.readiness.stopping.load(Ordering::Relaxed) {
            return Err(NotReady::Stopping);
        }
        let look = self.look().await;
        match look.answered {
            false => Err(NotReady::Store),
            true if look.is_cut_off(self.max_age) => Err(NotReady::Feed),
            true => Ok(()),
        }
    }

    /// Looks at the row of the publisher at most once a [`LOOK_LIFETIME`]; probes that come meanwhile wait for the same answer.
    async fn look(&self) -> Look {
        let mut last = self.readiness.last_look.lock().await;
        if let Some(look) = last.filter(|look| look.at.elapsed() < LOOK_LIFETIME) {
            return look;
        }
        let state = tokio::time::timeout(LOOK_TIMEOUT, self.store.publisher()).await;
        let state = state.ok().and_then(Result::ok);
        let published = state.map(|state| self.published(&state));
        let look = Look::next(*last, published, self.feed.place());
        *last = Some(look);
        look
    }

    /// How far the feed that this process follows is published; the start if that is not known.
    fn published(&self, state: &PublisherState) -> Place {
        let is_shared = self.redis.is_some() && state.kind == FeedKind::Redis.as_str();
        match is_shared && state.position > FeedPosition::START {
            true => (state.generation, state.position),
            false => (0, FeedPosition::START),
        }
    }

    /// The state of Redis, which makes no process unready: without it the database answers.
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

    fn answer(&self, code: StatusCode, status: &str) -> Response {
        let body = json!({ "status": status, "feed": self.feed(), "redis": self.redis() });
        (code, Json(body)).into_response()
    }
}

pub(crate) async fn live() -> Response {
    Json(json!({ "status": "live" })).into_response()
}

pub(crate) async fn ready(State(health): State<Health>) -> Response {
    match health.check().await {
        Ok(()) => health.answer(StatusCode::OK, "ready"),
        Err(NotReady::Stopping) => health.answer(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        Err(NotReady::Store) => health.answer(StatusCode::SERVICE_UNAVAILABLE, "store unavailable"),
        Err(NotReady::Feed) => {
            health.answer(StatusCode::SERVICE_UNAVAILABLE, "cut off from the feed")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = (1, FeedPosition::new(10, 0));
    const LATER: Place = (1, FeedPosition::new(20, 0));
    const ANOTHER: Place = (2, FeedPosition::new(5, 0));

    #[test]
    fn what_is_published_after_the_first_look_is_missed_until_it_comes() {
        let none = Look::next(None, None, HERE);
        assert!(!none.answered && none.first.is_none());
        // As a process finds it whose Redis is gone, or that has just started.
        let first = Look::next(Some(none), Some(LATER), (0, FeedPosition::START));
        assert!(first.answered && first.missing.is_none());
        let same = Look::next(Some(first), Some(LATER), (0, FeedPosition::START));
        assert!(same.missing.is_none());
        let missing = Look::next(Some(same), Some(ANOTHER), LATER);
        assert_eq!(missing.missing.map(|(place, _)| place), Some(ANOTHER));
        assert!(missing.is_cut_off(Duration::ZERO) && !missing.is_cut_off(Duration::from_secs(60)));
        // A database that does not answer ends nothing.
        let silent = Look::next(Some(missing), None, LATER);
        assert_eq!(silent.missing, missing.missing);
        let come = Look::next(Some(silent), Some((2, FeedPosition::new(9, 0))), ANOTHER);
        assert_eq!(
            come.missing.map(|(place, _)| place.1),
            Some(FeedPosition::new(9, 0))
        );
        let all = Look::next(Some(come), Some(ANOTHER), (2, FeedPosition::new(9, 0)));
        assert_eq!(all.missing, None);
        let restored = Look::next(Some(missing), Some(LATER), LATER);
        assert_eq!(restored.missing, None);
    }
}
