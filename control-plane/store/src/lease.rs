//! Named leases, for work that one replica does at a time.

use crate::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// A named lease of the database, held by this process or not.
pub struct NamedLease {
    store: Arc<Store>,
    /// The name in the migrations.
    name: &'static str,
    /// A name unique to this process.
    owner: String,
    duration: Duration,
    /// End of the lease. Measured from before the query, so that it never outlasts the lease in the database.
    until: Option<Instant>,
    /// Time of the next request for it.
    ask_at: Instant,
}

impl NamedLease {
    /// Creates a lease of that duration, not held yet.
    pub fn new(store: Arc<Store>, name: &'static str, duration: Duration) -> Self {
        Self {
            store,
            name,
            owner: format!("{}-{:016x}", std::process::id(), rand::random::<u64>()),
            duration,
            until: None,
            ask_at: Instant::now(),
        }
    }

    /// True while this process holds the lease.
    pub fn is_held(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Half-time of the lease; `None` if it is not held.
    pub fn half(&self) -> Option<Instant> {
        let until = self.until?;
        until.checked_sub(self.duration / 2)
    }

    /// Takes or renews the lease after each third of its duration. True if this process holds it.
    pub async fn hold(&mut self) -> Result<bool, StoreError> {
        let now = Instant::now();
        if now >= self.ask_at {
            let millis = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX);
            let taken = self
                .store
                .take_lease(self.name, &self.owner, millis)
                .await?;
            self.until = taken.then_some(now + self.duration);
            self.ask_at = now + self.duration / 3;
        }
        Ok(self.is_held())
    }

    /// Runs work that may outlast the lease, renewing it meanwhile; `None` if the lease is lost, which cancels the work.
    pub async fn hold_for<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, StoreError> {
        let renew = async {
            loop {
                sleep(self.duration / 3).await;
                let until = self.until.unwrap_or_else(Instant::now);
                match timeout_at(until, self.hold()).await {
                    Ok(Ok(true)) => {}
                    Ok(Err(error)) => return Err(error),
                    Ok(Ok(false)) | Err(_) => return Ok(None),
                }
            }
        };
        tokio::select! {
            done = work => Ok(Some(done)),
            lost = renew => lost,
        }
    }

    /// Releases the lease, so that another process need not wait for its end.
    pub async fn release(&mut self) -> Result<(), StoreError> {
        self.ask_at = Instant::now();
        match self.until.take() {
            Some(_) => self.store.release_lease(self.name, &self.owner).await,
            None => Ok(()),
        }
    }
}
