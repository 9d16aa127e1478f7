//! Workers and their time, kept in the store.
//!
//! `worker/<n>` is the millisecond up to which the time of worker `n` is reserved. Advancing it by compare-and-set is
//! the lease: the instance that has advanced it owns the milliseconds in between and, until another instance advances
//! it, the worker. A worker whose time has expired is free.

use super::{NAME, RESERVED_MILLIS, Reservation, Reservations};
use crate::source::IssueError;
use async_trait::async_trait;
use edgelink_store::{Store, StoreError};
use std::sync::Arc;

/// Number of workers, equal to that of issuers.
const WORKERS: u16 = 1000;

/// The workers of all instances on one store.
pub(super) struct StoredWorkers(pub(super) Arc<Store>);

impl StoredWorkers {
    /// Takes a worker whose time has expired, starting from a random one, so that instances that start together rarely
    /// collide.
    async fn take(&self, now: u64) -> Result<Reservation, IssueError> {
        let first = (getrandom::u32().unwrap_or_default() % u32::from(WORKERS)) as u16;
        for worker in (first..WORKERS).chain(0..first) {
            let until = self.0.counter(&name(worker)).await?;
            if until < now
                && let Some(reservation) = self.extend(worker, until, now).await?
            {
                tracing::info!(worker, "leased a snowflake worker");
                return Ok(reservation);
            }
        }
        let reason =
            format!("all {WORKERS} workers are in use, or their clocks are ahead of this one");
        Err(IssueError::transient(NAME, reason))
    }

    /// Reserves time of a worker from `until` on; `None` if its reserved time has another end.
    async fn extend(
        &self,
        worker: u16,
        until: u64,
        now: u64,
    ) -> Result<Option<Reservation>, StoreError> {
        let time = until..until.max(now) + RESERVED_MILLIS;
        let name = name(worker);
        let moved = self.0.swap_counter(&name, until, time.end).await?;
        Ok(moved.then_some(Reservation { worker, time }))
    }
}

#[async_trait]
impl Reservations for StoredWorkers {
    async fn reserve(
        &self,
        held: Option<Reservation>,
        now: u64,
    ) -> Result<Reservation, IssueError> {
        if let Some(held) = held
            && let Some(more) = self.extend(held.worker, held.time.end, now).await?
        {
            return Ok(more);
        }
        self.take(now).await
    }

    async fn release(&self, rest: Reservation) {
        let name = name(rest.worker);
        let released = self.0.swap_counter(&name, rest.time.end, rest.time.start);
        if let Err(error) = released.await {
            tracing::warn!(worker = rest.worker, %error, "failed to release the snowflake worker; its time expires in some seconds");
        }
    }
}

fn name(worker: u16) -> String {
    format!("worker/{worker}")
}
