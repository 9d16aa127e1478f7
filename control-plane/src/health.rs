//! `/health/live`: the process answers. `/health/ready`: it is to be sent requests.

use crate::app::App;
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
/// How long the store may take for an answer; probes themselves rarely wait longer.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether this process is to be sent requests.
#[derive(Default)]
pub(crate) struct Readiness {
    stopping: AtomicBool,
    last_ping: Mutex<Option<Ping>>,
}

#[derive(Clone, Copy)]
struct Ping {
    at: Instant,
    answered: bool,
}

/// What keeps requests away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotReady {
    Stopping,
    Store,
}

impl Readiness {
    /// From now on the answer is no.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    async fn check(&self, store: &Store) -> Result<(), NotReady> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(NotReady::Stopping);
        }
        if self.ping(store).await {
            Ok(())
        } else {
            Err(NotReady::Store)
        }
    }

    /// Asks the store at most once a [`PING_LIFETIME`]; who comes meanwhile waits for the same answer.
    async fn ping(&self, store: &Store) -> bool {
        let mut last = self.last_ping.lock().await;
        if let Some(ping) = last.filter(|ping| ping.at.elapsed() < PING_LIFETIME) {
            return ping.answered;
        }
        let answered = matches!(
            tokio::time::timeout(PING_TIMEOUT, store.ping()).await,
            Ok(Ok(()))
        );
        let at = Instant::now();
        *last = Some(Ping { at, answered });
        answered
    }
}

pub(crate) async fn live() -> Response {
    status(StatusCode::OK, "live")
}

pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.readiness.check(app.store.as_ref()).await {
        Ok(()) => Json(json!({ "status": "ready", "feed": feed(&app) })).into_response(),
        Err(NotReady::Stopping) => status(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        Err(NotReady::Store) => status(StatusCode::SERVICE_UNAVAILABLE, "store unavailable"),
    }
}

/// How the feed stands. It does not make a process unready: without it the database answers.
fn feed(app: &App) -> Value {
    let age = app.feed.age().map(|age| age.as_millis());
    json!({
        "current": app.feed.is_current(),
        "ageMs": age.and_then(|age| u64::try_from(age).ok()),
        "publisher": app.publisher.get().as_str(),
    })
}

fn status(code: StatusCode, text: &str) -> Response {
    (code, Json(json!({ "status": text }))).into_response()
}
