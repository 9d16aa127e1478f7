//! Probes: `/health/live` says that the process answers, `/health/ready` that it should get requests.

use super::bounded::ListenerAdmission;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use edgelink_feed::Feed;
use edgelink_feed::publisher::PublisherStatus;
use edgelink_feed::resolve::KnownKeys;
use edgelink_redis::Redis;
use edgelink_service::readiness::{NotReady, Readiness};
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The state of the probes.
#[derive(Clone)]
pub struct Health {
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) publisher: PublisherStatus,
    pub(crate) redis: Option<Arc<Redis>>,
    pub(crate) known_keys: Arc<KnownKeys>,
    /// Longest time for which a listener may refuse all requests.
    pub(crate) unready_after: Duration,
}

impl Health {
    /// Makes the process not ready from now on.
    pub fn stop(&self) {
        self.readiness.stop();
    }

    /// True if this process should get requests.
    pub(crate) async fn is_ready(&self) -> bool {
        self.readiness.check().await.is_ok()
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
    let status = match health.readiness.check().await {
        Ok(()) if is_crowded => "every request is refused",
        Ok(()) => return health.answer(StatusCode::OK, "ready"),
        Err(NotReady::Stopping) => "stopping",
        Err(NotReady::Store) => "store unavailable",
        Err(NotReady::Feed) => "cut off from the feed",
    };
    health.answer(StatusCode::SERVICE_UNAVAILABLE, status)
}
