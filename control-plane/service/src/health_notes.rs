//! The health of edges' workers, gathered until it is written.

use edgelink_model::latest::Latest;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_store::Store;
use edgelink_wire::WorkerHealth;
use edgelink_wire::clicks::WorkerId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time until health is written: in one statement for many workers, so that a report of clicks costs no extra write.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Limit on the workers whose health waits: the workers of 10,000 edges, 16 each, report every 10 seconds. Others are noted with a
/// later report.
const MAX_WAITING: usize = 65_536;

/// The health of workers, with the name of their edge.
pub struct HealthNotes {
    store: Arc<Store>,
    latest: Latest<WorkerId, (String, WorkerHealth)>,
}

impl HealthNotes {
    /// Creates notes that are written to the store.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            latest: Latest::new(MAX_WAITING),
        }
    }

    /// Notes the health of a worker from the header of a report of `edge`. A malformed header is skipped, so that no clicks are
    /// lost because of it; a later report has another one.
    pub fn note(&self, edge: &str, header: &[u8]) {
        static LOG: LogThrottle = LogThrottle::new();
        match WorkerHealth::parse(header) {
            Ok(health) => {
                let worker = health.worker;
                let note = (edge.to_owned(), health);
                let renew = |earlier: &mut _, note| *earlier = note;
                self.latest.note(&worker, note, renew);
            }
            Err(error) => {
                if let Some(suppressed) = LOG.admit(Instant::now()) {
                    tracing::warn!(edge, %error, suppressed, "malformed edge health header");
                }
            }
        }
    }

    /// Writes the health each second, forever. If that fails it is lost; workers report it again.
    pub async fn keep_writing(&self) {
        static LOG: LogThrottle = LogThrottle::new();
        loop {
            tokio::time::sleep(FLUSH_INTERVAL).await;
            let healths: Vec<(String, WorkerHealth)> = {
                let notes = self.latest.take().into_iter();
                notes.map(|(_, health)| health).collect()
            };
            if let Err(error) = self.store.note_health(&healths).await
                && let Some(suppressed) = LOG.admit(Instant::now())
            {
                tracing::warn!(%error, suppressed, "failed to store edge health; edges will resend it");
            }
        }
    }
}
