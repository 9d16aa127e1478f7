//! The times at which edges' workers that hold leased uses were last heard of, gathered until they are written.

use edgelink_model::latest::Latest;
use edgelink_settings::config::VisitsConfig;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_settings::visits::NOTED_SHARE;
use edgelink_store::Store;
use edgelink_wire::clicks::WorkerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time until the notes are written: in one statement for many workers.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Limit on the workers that are waiting or remembered: not all workers of 10,000 edges, 16 each, hold uses at once. Further ones
/// are noted with a later request.
const MAX_WORKERS: usize = 65_536;

/// The workers that were heard of. Each is written once in a fraction of the grace period, so that a request costs no write.
pub struct WorkerNotes {
    store: Arc<Store>,
    latest: Latest<WorkerId, ()>,
    noted_at: Mutex<HashMap<WorkerId, Instant>>,
    interval: Duration,
}

impl WorkerNotes {
    /// Creates notes that are written to the store.
    pub fn new(store: Arc<Store>, config: &VisitsConfig) -> Self {
        Self {
            store,
            latest: Latest::new(MAX_WORKERS),
            noted_at: Mutex::default(),
            interval: config.grace_ms / NOTED_SHARE,
        }
    }

    /// Notes that a worker was heard of.
    pub fn note(&self, worker: &WorkerId) {
        let now = Instant::now();
        let mut noted_at = self.noted_at.lock().unwrap_or_else(PoisonError::into_inner);
        let last = noted_at.get(worker);
        if last.is_some_and(|last| now.duration_since(*last) < self.interval) {
            return;
        }
        if last.is_some() || noted_at.len() < MAX_WORKERS {
            noted_at.insert(*worker, now);
        }
        self.latest.note(worker, (), |(), ()| ());
    }

    /// Writes the notes, forever. If that fails, a later request of the worker is noted.
    pub async fn keep_writing(&self) {
        static LOG: LogThrottle = LogThrottle::new();
        let pause = (self.interval / 2).min(FLUSH_INTERVAL);
        loop {
            tokio::time::sleep(pause).await;
            self.forget_old();
            let workers = self.latest.take().into_iter();
            let workers: Vec<WorkerId> = workers.map(|(worker, ())| worker).collect();
            if workers.is_empty() {
                continue;
            }
            if let Err(error) = self.store.note_workers(&workers).await {
                self.forget(&workers);
                if let Some(suppressed) = LOG.admit(Instant::now()) {
                    tracing::warn!(%error, suppressed, "failed to store the last contact of workers; retrying with their next requests");
                }
            }
        }
    }

    fn forget_old(&self) {
        let now = Instant::now();
        let mut noted_at = self.noted_at.lock().unwrap_or_else(PoisonError::into_inner);
        noted_at.retain(|_, at| now.duration_since(*at) < self.interval);
    }

    fn forget(&self, workers: &[WorkerId]) {
        let mut noted_at = self.noted_at.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in workers {
            noted_at.remove(worker);
        }
    }
}
