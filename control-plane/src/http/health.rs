//! `/health/live`: whether the process answers. `/health/ready`: whether to send it requests.

use crate::feed::Feed;
use crate::publisher::PublisherStatus;
use crate::store::Store;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long an answer of the store counts, so that many probes cost one query.
const PING_LIFETIME: Duration = Duration::from_secs(1);
/// How long the store may take for an answer; few probes wait longer.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the probes.
#[derive(Clone)]
pub(crate) struct Health {
    store: Arc<Store>,
    feed: Arc<Feed>,
    publisher: PublisherStatus,
    readiness: Arc<Readiness>,
}

/// Whether to send requests to this process.
#[derive(Default)]
struct Readiness {
    stopping: AtomicBool,
    last_ping: Mutex<Option<Ping>>,
}

#[derive(Clone, Copy)]
struct Ping {
    at: Instant,
    answered: bool,
}

/// Why the process is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotReady {
    Stopping,
    Store,
}

impl Health {
    pub(crate) fn new(store: Arc<Store>, feed: Arc<Feed>, publisher: PublisherStatus) -> Self {
        let readiness = Arc::default();
        Self {
            store,
            feed,
            publisher,
            readiness,
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
        if self.ping().await {
            Ok(())
        } else {
            Err(NotReady::Store)
        }
    }

    /// Asks the store at most once a [`PING_LIFETIME`]; probes that come meanwhile wait for the same answer.
    async fn ping(&self) -> bool {
        let mut last = self.readiness.last_ping.lock().await;
        if let Some(ping) = last.filter(|ping| ping.at.elapsed() < PING_LIFETIME) {
            return ping.answered;
        }
        let answered = matches!(
            tokio::time::timeout(PING_TIMEOUT, self.store.ping()).await,
            Ok(Ok(()))
        );
        let at = Instant::now();
        *last = Some(Ping { at, answered });
        answered
    }

    /// The state of the feed. It does not make a process unready: without it the database answers.
    fn feed(&self) -> Value {
        let age = self.feed.age().map(|age| age.as_millis());
        json!({
            "current": self.feed.is_current(),
            "ageMs": age.and_then(|age| u64::try_from(age).ok()),
            "publisher": self.publisher.get().as_str(),
        })
    }
}

pub(crate) async fn live() -> Response {
    status(StatusCode::OK, "live")
}

pub(crate) async fn ready(State(health): State<Health>) -> Response {
    match health.check().await {
        Ok(()) => Json(json!({ "status": "ready", "feed": health.feed() })).into_response(),
        Err(NotReady::Stopping) => status(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        Err(NotReady::Store) => status(StatusCode::SERVICE_UNAVAILABLE, "store unavailable"),
    }
}

fn status(code: StatusCode, text: &str) -> Response {
    (code, Json(json!({ "status": text }))).into_response()
}
