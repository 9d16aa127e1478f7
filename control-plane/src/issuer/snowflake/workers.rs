//! Workers and their time, kept in the store.
//!
//! `worker/<n>` is the millisecond up to which the time of worker `n` is reserved. Moving it on by compare-and-set is the
//! lease: who has moved it owns the milliseconds in between and, as long as nobody else moves it, the worker. A worker
//! whose time is over is free.

use super::{RESERVED_MS, Reservation, Reservations};
use crate::issuer::IssueError;
use crate::store::{Store, StoreError};
use async_trait::async_trait;
use std::sync::Arc;
use tokio::sync::Mutex;

/// How many workers there are; as many as there are issuers.
const WORKERS: u16 = 1000;

/// The workers of all instances on one store.
pub struct StoredWorkers {
    store: Arc<Store>,
    mine: Mutex<Option<Mine>>,
}

#[derive(Clone, Copy)]
struct Mine {
    worker: u16,
    until: u64,
}

impl StoredWorkers {
    /// No worker is taken before the first reservation.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            mine: Mutex::default(),
        }
    }

    /// Goes on with the worker that this instance has; nothing where another has taken it.
    async fn extend(&self, mine: Mine, now: u64) -> Result<Option<Reservation>, StoreError> {
        self.claim(mine.worker, mine.until, now).await
    }

    /// Takes a worker whose time is over, looking at all of them from a random one on, so that instances that start
    /// together rarely meet.
    async fn take(&self, now: u64) -> Result<Reservation, IssueError> {
        let first = getrandom::u32().unwrap_or_default() % u32::from(WORKERS);
        for step in 0..u32::from(WORKERS) {
            let worker = ((first + step) % u32::from(WORKERS)) as u16;
            let until = self.store.counter(&name(worker)).await?;
            if until >= now {
                continue;
            }
            if let Some(reservation) = self.claim(worker, until, now).await? {
                tracing::info!(worker, "this instance is a snowflake worker");
                return Ok(reservation);
            }
        }
        Err(IssueError::Source {
            name: "snowflake",
            reason: format!(
                "all {WORKERS} workers are in use, or their clocks are ahead of this one"
            ),
            transient: true,
        })
    }

    async fn claim(
        &self,
        worker: u16,
        until: u64,
        now: u64,
    ) -> Result<Option<Reservation>, StoreError> {
        let end = until.max(now) + RESERVED_MS;
        let moved = self.store.swap_counter(&name(worker), until, end).await?;
        Ok(moved.then_some(Reservation {
            worker,
            time: until..end,
        }))
    }
}

#[async_trait]
impl Reservations for StoredWorkers {
    async fn reserve(&self, now: u64) -> Result<Reservation, IssueError> {
        let mut mine = self.mine.lock().await;
        let extended = match *mine {
            Some(mine) => self.extend(mine, now).await?,
            None => None,
        };
        let reservation = match extended {
            Some(reservation) => reservation,
            None => self.take(now).await?,
        };
        *mine = Some(Mine {
            worker: reservation.worker,
            until: reservation.time.end,
        });
        Ok(reservation)
    }

    async fn release(&self, rest: Reservation) {
        let name = name(rest.worker);
        let released = self
            .store
            .swap_counter(&name, rest.time.end, rest.time.start);
        if let Err(error) = released.await {
            tracing::warn!(worker = rest.worker, %error, "the worker stays reserved for some seconds");
        }
    }
}

fn name(worker: u16) -> String {
    format!("worker/{worker}")
}
