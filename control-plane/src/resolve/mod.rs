//! From a key to its record, at the cost of one query of the database for all who ask at once: in-process cache, the
//! catalogue of keys, Redis, and at last the database, under a lock in Redis with a second look.
//!
//! Redis that does not answer is passed over; the database is then asked by one request for each key and process.

mod catch_up;
mod memory;

use crate::catalog::Catalog;
use crate::feed::Feed;
use crate::redis::{Lock, Lookup, Redis};
use crate::store::{Store, StoreError};
use crate::telemetry::prometheus::{REDIS_MALFORMED, RESOLUTIONS};
use catch_up::CatchUp;
use edgelink_wire::{LinkKey, Record};
use metrics::counter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

pub use memory::{Memory, MemoryOptions};

/// The first pause between two looks for what another replica is looking up; the next ones are twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// How links are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveOptions {
    /// The in-process cache.
    pub memory: MemoryOptions,
    /// For how long a lookup may be locked in Redis.
    pub lock: Duration,
    /// How long to wait for another replica's lookup.
    pub lock_wait: Duration,
    /// How many lookups of the database may be under way at once.
    pub max_lookups: usize,
}

/// Resolves keys.
pub struct Resolver {
    store: Arc<dyn Store>,
    redis: Option<Arc<Redis>>,
    catalog: Arc<Catalog>,
    catch_up: CatchUp,
    memory: Arc<Memory>,
    feed: Arc<Feed>,
    lookups: Semaphore,
    options: ResolveOptions,
    has_warned: AtomicBool,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Memory,
    Catalog,
    Redis,
    Database,
}

impl Resolver {
    /// A resolver whose memory has to be a listener of the feed.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        redis: Option<Arc<Redis>>,
        catalog: Arc<Catalog>,
        feed: Arc<Feed>,
        memory: Arc<Memory>,
        options: ResolveOptions,
    ) -> Self {
        Self {
            catch_up: CatchUp::new(store.clone(), redis.clone(), catalog.clone(), feed.clone()),
            store,
            redis,
            catalog,
            memory,
            feed,
            lookups: Semaphore::new(options.max_lookups),
            options,
            has_warned: AtomicBool::new(false),
        }
    }

    /// What is known of the key.
    ///
    /// # Errors
    /// The failure of the database, shared by all who asked at once.
    pub async fn resolve(&self, key: &LinkKey) -> Result<Record<String>, Arc<StoreError>> {
        let text = key.to_string();
        if !self.feed.is_live() {
            // Nobody would tell of changes; who asks at once still shares a lookup.
            self.memory.void(&text);
        } else if let Some(record) = self.memory.get(&text).await {
            count(Tier::Memory);
            return Ok(record);
        }
        let look_up = Box::pin(self.look_up(key, &text));
        self.memory.look_up(&text, look_up).await
    }

    async fn look_up(&self, key: &LinkKey, text: &str) -> Result<Record<String>, StoreError> {
        if self.is_absent(text).await {
            count(Tier::Catalog);
            return Ok(Record::Absent { rev: 0 });
        }
        match &self.redis {
            Some(redis) => self.through_redis(redis, key, text).await,
            None => self.ask_database(key).await,
        }
    }

    /// Whether there was never such a link, as far as anything is committed by now.
    async fn is_absent(&self, text: &str) -> bool {
        !self.catalog.may_have(text) && self.catch_up.run().await && !self.catalog.may_have(text)
    }

    async fn through_redis(
        &self,
        redis: &Redis,
        key: &LinkKey,
        text: &str,
    ) -> Result<Record<String>, StoreError> {
        let mut pause = FIRST_PAUSE;
        let end = Instant::now() + self.options.lock_wait;
        loop {
            let found = match redis.look_up(text).await {
                Ok(Lookup::Known(record)) => {
                    count(Tier::Redis);
                    return Ok(record);
                }
                Ok(found) => self.noted(found),
                Err(_) => return self.ask_database(key).await,
            };
            match redis.lock(text, self.options.lock).await {
                Ok(Some(lock)) => return self.under_lock(redis, key, text, found, lock).await,
                Ok(None) if Instant::now() < end => sleep(pause).await,
                // Whoever has the lock takes too long; they may be gone.
                Ok(None) | Err(_) => return self.ask_database(key).await,
            }
            pause *= 2;
        }
    }

    /// Looks again, for somebody may have filled it in before the lock was ours, then in the database.
    async fn under_lock(
        &self,
        redis: &Redis,
        key: &LinkKey,
        text: &str,
        found: Lookup,
        lock: Lock,
    ) -> Result<Record<String>, StoreError> {
        if let Ok(Lookup::Known(record)) = redis.look_up(text).await {
            count(Tier::Redis);
            // A lock that is not released ends by itself; the failure is counted where it happens.
            let _ = redis.unlock(text, lock).await;
            return Ok(record);
        }
        match self.ask_database(key).await {
            Ok(record) => {
                let _ = redis.fill(text, &record, &found, lock).await;
                Ok(record)
            }
            Err(error) => {
                let _ = redis.unlock(text, lock).await;
                Err(error)
            }
        }
    }

    async fn ask_database(&self, key: &LinkKey) -> Result<Record<String>, StoreError> {
        let _permit = self.lookups.acquire().await;
        count(Tier::Database);
        self.store.resolve(key).await
    }

    /// Counts what no version of ours wrote, and logs the first of it.
    fn noted(&self, found: Lookup) -> Lookup {
        if let Lookup::Malformed(error) = &found {
            counter!(REDIS_MALFORMED).increment(1);
            if !self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "a record in Redis cannot be read and is replaced; further ones are only counted");
            }
        }
        found
    }
}

fn count(tier: Tier) {
    let tier = match tier {
        Tier::Memory => "memory",
        Tier::Catalog => "catalog",
        Tier::Redis => "redis",
        Tier::Database => "database",
    };
    counter!(RESOLUTIONS, "tier" => tier).increment(1);
}
