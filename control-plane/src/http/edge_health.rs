//! How workers of edges are doing, gathered until it is written.

use crate::latest::Latest;
use crate::store::Store;
use crate::telemetry::LogThrottle;
use edgelink_wire::WorkerHealth;
use edgelink_wire::clicks::WorkerId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long it waits until it is written: in one statement for many workers, so that reports of clicks cost no write for it.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// The most workers of which it waits: those of 10,000 edges with 16 workers each say it every 10 seconds. Others do with a later report.
const MAX_WAITING: usize = 65_536;

/// How workers are doing, with the name of their edge.
pub(crate) struct HealthNotes {
    store: Arc<Store>,
    latest: Latest<WorkerId, (String, WorkerHealth)>,
}

impl HealthNotes {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            latest: Latest::new(MAX_WAITING),
        }
    }

    /// Notes what a report of the edge of that name says of its worker. What cannot be read comes again with a later report: no clicks
    /// may be lost because of it.
    pub(crate) fn note(&self, edge: &str, header: &[u8]) {
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
                    tracing::warn!(edge, %error, suppressed, "how an edge is doing cannot be read");
                }
            }
        }
    }

    /// Writes it each second, for ever. What cannot be written is lost: workers say it again.
    pub(crate) async fn keep_writing(&self) {
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
                tracing::warn!(%error, suppressed, "how edges are doing is not written: they say it again");
            }
        }
    }
}
