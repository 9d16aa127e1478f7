//! The relay: publishes what is in the outbox to Redis and on the feed, and raises the bound.
//!
//! One replica does it at a time, the one that has the lease. A row is deleted after it was published, so a relay that dies
//! loses nothing; what it had published already comes twice, which the revisions make harmless.

mod bound;
mod leadership;
mod lease;
mod outlet;

pub use bound::BoundPolicy;
pub use leadership::Leadership;
pub use outlet::Outlet;

use crate::redis::{Nudges, RedisError};
use crate::store::{MAX_BATCH_BYTES, PendingBatch, Store, StoreError};
use crate::telemetry::prometheus::{RELAY_FAILURES, RELAY_LEADER, RELAY_PUBLISHED};
use bound::BoundKeeper;
use lease::Lease;
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(200);

/// The least time between two rounds. What is changed meanwhile is published together: under load, reading and clearing
/// the outbox costs the database no more than creating the links does. A change that comes alone does not wait.
const GATHER: Duration = Duration::from_millis(5);

/// How much is published and forgotten together, so that little comes twice where a relay dies.
const GROUP_BYTES: usize = 4 * MAX_BATCH_BYTES;

/// How the relay works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayOptions {
    /// How often the outbox is looked into where nobody nudges.
    pub poll: Duration,
    /// For how long the lease is taken; another replica takes over that long after this one died.
    pub lease: Duration,
    /// How often the bound is published, as a sign of life for the edges.
    pub heartbeat: Duration,
    /// How many batches of changes are read at once, each of [`MAX_BATCH_BYTES`] at most.
    pub batch: u32,
}

/// Publishes changes.
pub struct Relay {
    store: Arc<dyn Store>,
    outlet: Arc<Outlet>,
    leadership: Leadership,
    options: RelayOptions,
    lease: Lease,
    bound: BoundKeeper,
    wake: Arc<Notify>,
    /// When the bound is to be published again.
    next_heartbeat: Instant,
    is_failing: bool,
}

/// Why nothing was published.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl Relay {
    /// A relay that is woken by `wake` when this process has changed something.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        outlet: Arc<Outlet>,
        options: RelayOptions,
        bound: BoundPolicy,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            lease: Lease::new(store.clone(), options.lease),
            bound: BoundKeeper::new(bound),
            store,
            outlet,
            leadership: Leadership::default(),
            options,
            wake,
            next_heartbeat: Instant::now(),
            is_failing: false,
        }
    }

    /// Whether it is this relay that publishes.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Publishes until `stop`, then gives the lease back.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut nudges = self.outlet.nudges();
        let mut poll = interval(self.options.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_nudged = tokio::select! {
                () = stop.cancelled() => break,
                () = self.wake.notified() => false,
                () = next(&mut nudges) => true,
                _ = poll.tick() => true,
            };
            let round = self.round(is_nudged);
            let result = tokio::select! {
                () = stop.cancelled() => break,
                result = round => result,
            };
            sleep(GATHER).await;
            if self.failed(result) {
                self.leadership.set(false);
                sleep(PAUSE).await;
            }
        }
        self.leadership.set(false);
        self.lease.release().await;
    }

    /// Publishes everything where the lease is ours; else tells the one who has it, where it is this process that has
    /// changed something.
    async fn round(&mut self, is_nudged: bool) -> Result<(), RelayError> {
        let is_leader = self.lease.hold().await?;
        self.leadership.set(is_leader);
        gauge!(RELAY_LEADER).set(if is_leader { 1.0 } else { 0.0 });
        if !is_leader {
            if !is_nudged {
                self.outlet.nudge().await?;
            }
            return Ok(());
        }
        while self.publish_some().await? {}
        if Instant::now() >= self.next_heartbeat {
            self.next_heartbeat = Instant::now() + self.options.heartbeat;
            self.bound.keep(self.store.as_ref(), &self.outlet).await?;
        }
        Ok(())
    }

    /// Publishes what one look into the outbox shows, and says whether there may be more that is ours to publish.
    async fn publish_some(&mut self) -> Result<bool, RelayError> {
        let pending = self.store.pending_changes(self.options.batch).await?;
        for batches in groups(&pending) {
            if !self.lease.hold().await? {
                return Ok(false);
            }
            let published = self.outlet.publish(batches).await?;
            let ids: Vec<u64> = batches.iter().map(|batch| batch.id).collect();
            self.store.forget_changes(&ids).await?;
            counter!(RELAY_PUBLISHED).increment(published);
        }
        Ok(u32::try_from(pending.len()).is_ok_and(|count| count >= self.options.batch))
    }

    /// Logs the first failure of a row, and its end.
    fn failed(&mut self, result: Result<(), RelayError>) -> bool {
        match result {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("changes are published again");
                }
                false
            }
            Err(error) => {
                counter!(RELAY_FAILURES).increment(1);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "changes wait to be published");
                }
                true
            }
        }
    }
}

/// Cuts batches into groups that are published together, of [`GROUP_BYTES`] at most or of one batch.
fn groups(batches: &[PendingBatch]) -> impl Iterator<Item = &[PendingBatch]> {
    let mut bytes = 0;
    batches.chunk_by(move |batch, next| {
        bytes += batch.size();
        let fits = bytes + next.size() <= GROUP_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    })
}

async fn next(nudges: &mut Option<Nudges>) {
    match nudges {
        Some(nudges) => nudges.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Packed;

    #[test]
    fn batches_are_published_in_groups_of_bounded_size_or_alone() {
        let batch = |size| PendingBatch {
            id: 0,
            keys: Packed::from(vec![0; size]),
            records: Packed::default(),
        };
        let sizes = [1, GROUP_BYTES - 1, 1, GROUP_BYTES + 1, 1, 1];
        let batches = sizes.map(batch);
        let lengths: Vec<usize> = groups(&batches).map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 1, 1, 2]);
        assert_eq!(groups(&[]).count(), 0);
    }
}
