//! The clicks that control planes acknowledged to Envoys.

use super::deployment::{DisturbedDeployment, ENVOYS};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval between readings of the stats. Clicks acknowledged after the last one before an Envoy is killed remain
/// unknown.
const PERIOD: Duration = Duration::from_millis(500);
/// Longest delay of an acknowledgement of clicks counted before the database was stopped.
const LATE: Duration = Duration::from_secs(25);

/// Stats of all Envoys, including killed ones.
#[derive(Debug, Default)]
pub(super) struct Clicks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By Envoy and start.
    seen: HashMap<(usize, u64), u64>,
    /// Clicks counted in the restored copy, and until when acknowledgements may concern clicks that it lacks.
    restored: Option<(u64, Instant)>,
    /// Acknowledged clicks lost until then.
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

    /// Reads the stats for as long as it is polled.
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

    /// Notes that the database was restored.
    pub(super) async fn restored(&self, deployment: &DisturbedDeployment) {
        let counted = deployment.clicks_counted().await.unwrap_or_default();
        self.inner().restored = Some((counted, Instant::now() + LATE));
    }

    /// Lower bound of the counted clicks.
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
