//! The clicks that control planes have acknowledged to Envoys.

use super::deployment::{DisturbedDeployment, ENVOYS};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often figures are read. What is acknowledged later than that before an Envoy is killed is not known.
const PERIOD: Duration = Duration::from_millis(500);
/// An acknowledgement may come that late for what was counted before the database was stopped.
const LATE: Duration = Duration::from_secs(25);

/// The figures of all Envoys, those that were killed included.
#[derive(Debug, Default)]
pub(super) struct Clicks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By Envoy and start.
    seen: HashMap<(usize, u64), u64>,
    /// What was counted in the copy that took the place of the database, and until when acknowledgements may be of
    /// what it has not.
    restored: Option<(u64, Instant)>,
    /// What was acknowledged until then.
    lost: u64,
}

impl Inner {
    fn total(&self) -> u64 {
        self.seen.values().sum()
    }
}

impl Clicks {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the figures for as long as it is polled.
    pub(super) async fn watch(self: Arc<Self>, deployment: Arc<DisturbedDeployment>) {
        loop {
            self.read(&deployment).await;
            sleep(PERIOD).await;
        }
    }

    async fn read(&self, deployment: &DisturbedDeployment) {
        for number in 0..ENVOYS {
            let starts = deployment.part(&format!("envoy-{number}")).starts();
            let Some(stats) = deployment.stats(number, "edgelink.clicks").await else {
                continue;
            };
            let acknowledged = stats.get("edgelink.clicks.acknowledged");
            let mut inner = self.inner();
            let seen = inner.seen.entry((number, starts)).or_default();
            *seen = (*seen).max(acknowledged);
        }
        let mut inner = self.inner();
        if inner
            .restored
            .is_some_and(|(_, until)| Instant::now() < until)
        {
            inner.lost = inner.total();
        }
    }

    /// The database has gone back.
    pub(super) async fn restored(&self, deployment: &DisturbedDeployment) {
        let counted = deployment.clicks_counted().await.unwrap_or_default();
        self.inner().restored = Some((counted, Instant::now() + LATE));
    }

    /// The clicks that must be counted at least.
    pub(super) async fn acknowledged(&self, deployment: &DisturbedDeployment) -> u64 {
        self.read(deployment).await;
        let inner = self.inner();
        match inner.restored {
            Some((counted, until)) if Instant::now() >= until => {
                counted + inner.total() - inner.lost
            }
            Some((counted, _)) => counted,
            None => inner.total(),
        }
    }
}
