//! From a key to its record, at the cost of one query of the database for all who ask at once: in-process cache, the
//! filter of known keys, Redis, and at last the database, under a lock in Redis with a second look.
//!
//! What is cached, here or in Redis, counts only while the feed is current, and what Redis says only if that very Redis has all
//! that the feed has carried. Otherwise the database is asked, by one request for each key and process. Every answer knows as
//! of when it is right.

mod catch_up;
mod known_codes;
mod known_keys;
mod memory;

use crate::config::ResolveConfig;
use crate::feed::{Current, Feed};
use crate::redis::{Lock, Lookup, Redis};
use crate::store::{Store, StoreError};
use crate::telemetry::prometheus::{REDIS_MALFORMED, RESOLUTIONS};
use catch_up::CatchUp;
use edgelink_wire::redis::{CLUSTER_LASTS_MILLIS, FeedState};
use edgelink_wire::{LinkKey, Record};
use memory::Found;
use metrics::counter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

pub use known_keys::{KeyScanner, KnownKeys};
pub use memory::Memory;

/// The first pause between two looks for what another replica is looking up; the next ones are twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// Resolves keys.
pub struct Resolver {
    store: Arc<Store>,
    redis: Option<Arc<Redis>>,
    known_keys: Arc<KnownKeys>,
    catch_up: CatchUp,
    memory: Arc<Memory>,
    feed: Arc<Feed>,
    lookups: Semaphore,
    config: ResolveConfig,
    has_warned: AtomicBool,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Memory,
    KnownKeys,
    Redis,
    Database,
}

/// What Redis says.
enum Answer {
    Known(Found),
    /// Nothing, or nothing that can be read.
    Unknown(Lookup),
    /// It does not answer, or is not where the feed is.
    NotCurrent,
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The link, or that there is none.
    pub record: Record<String>,
    /// How long before the question that was so, at most; what changed later may be missing.
    pub age: Duration,
}

impl Resolved {
    fn new(found: Found, asked: Instant) -> Self {
        Self {
            record: found.record,
            age: asked.saturating_duration_since(found.as_of),
        }
    }
}

impl Resolver {
    /// A resolver whose memory has to be a listener of the feed.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        redis: Option<Arc<Redis>>,
        known_keys: Arc<KnownKeys>,
        feed: Arc<Feed>,
        memory: Arc<Memory>,
        config: ResolveConfig,
    ) -> Self {
        Self {
            catch_up: CatchUp::new(store.clone(), known_keys.clone(), feed.clone()),
            store,
            redis,
            known_keys,
            memory,
            feed,
            lookups: Semaphore::new(config.max_lookups),
            config,
            has_warned: AtomicBool::new(false),
        }
    }

    /// What is known of the key, and for how long before the call that may have been so only.
    ///
    /// # Errors
    /// The failure of the database, shared by all who asked at once.
    pub async fn resolve(&self, key: &LinkKey) -> Result<Resolved, Arc<StoreError>> {
        let asked = Instant::now();
        let text = key.to_string();
        let current = self.feed.current();
        if let Some(current) = current
            && let Some(record) = self.memory.get(&text).await
        {
            count(Tier::Memory);
            let as_of = current.as_of;
            return Ok(Resolved::new(Found { record, as_of }, asked));
        }
        let look_up = Box::pin(self.look_up(key, &text, current));
        let found = self.memory.look_up(&text, look_up).await?;
        Ok(Resolved::new(found, asked))
    }

    async fn look_up(
        &self,
        key: &LinkKey,
        text: &str,
        current: Option<Current>,
    ) -> Result<Found, StoreError> {
        let as_of = Instant::now();
        if let Some(rev) = self.absence(text).await {
            count(Tier::KnownKeys);
            let record = Record::Absent { rev };
            return Ok(Found { record, as_of });
        }
        match (&self.redis, current) {
            (Some(redis), Some(current)) => self.through_redis(redis, current, key, text).await,
            _ => self.ask_database(key).await,
        }
    }

    /// The revision of its absence, if there was never such a link as far as anything is committed by now.
    async fn absence(&self, text: &str) -> Option<u64> {
        if self.known_keys.may_have(text) {
            return None;
        }
        let certainty = self.catch_up.run().await?;
        (!self.known_keys.may_have(text)).then_some(certainty.rev)
    }

    async fn through_redis(
        &self,
        redis: &Redis,
        current: Current,
        key: &LinkKey,
        text: &str,
    ) -> Result<Found, StoreError> {
        let mut pause = FIRST_PAUSE;
        let end = Instant::now() + self.config.lock_wait_ms;
        let generation = current.generation;
        loop {
            let found = match self.ask_redis(redis, current, text).await {
                Answer::Known(found) => return Ok(found),
                Answer::Unknown(lookup) => lookup,
                Answer::NotCurrent => return self.ask_database(key).await,
            };
            match redis.lock(generation, text, self.config.lock_ms).await {
                Ok(Some(lock)) => {
                    return self
                        .under_lock(redis, current, key, text, found, lock)
                        .await;
                }
                Ok(None) if Instant::now() < end => sleep(pause).await,
                // The holder of the lock takes too long; it may be gone.
                Ok(None) | Err(_) => return self.ask_database(key).await,
            }
            pause *= 2;
        }
    }

    /// What Redis knows, if it has all that the feed had carried when the question came.
    async fn ask_redis(&self, redis: &Redis, current: Current, text: &str) -> Answer {
        let Ok(found) = redis.look_up(current.generation, text).await else {
            return Answer::NotCurrent;
        };
        let covers = |state: FeedState| state.covers(current.generation, current.number);
        let may_be_another = redis.is_clustered() && !self.are_masters_known();
        if may_be_another || !found.state.is_some_and(covers) {
            return Answer::NotCurrent;
        }
        match found.lookup {
            Lookup::Known(record) => {
                count(Tier::Redis);
                let as_of = current.as_of;
                Answer::Known(Found { record, as_of })
            }
            lookup => Answer::Unknown(self.noted(lookup)),
        }
    }

    /// Whether the masters of a cluster were seen so lately that none can have come back with less than it had: each beat
    /// says that they were the same as before.
    fn are_masters_known(&self) -> bool {
        let age = self.feed.age();
        age.is_some_and(|age| age < Duration::from_millis(CLUSTER_LASTS_MILLIS))
    }

    /// Looks again, for another replica may have filled it in before the lock was ours, then in the database.
    async fn under_lock(
        &self,
        redis: &Redis,
        current: Current,
        key: &LinkKey,
        text: &str,
        found: Lookup,
        lock: Lock,
    ) -> Result<Found, StoreError> {
        if let Answer::Known(found) = self.ask_redis(redis, current, text).await {
            // A lock that is not released ends by itself; the failure is counted where it happens.
            let _ = redis.unlock(lock).await;
            return Ok(found);
        }
        match self.ask_database(key).await {
            Ok(answer) => {
                let _ = redis.fill(&answer.record, &found, lock).await;
                Ok(answer)
            }
            Err(error) => {
                let _ = redis.unlock(lock).await;
                Err(error)
            }
        }
    }

    async fn ask_database(&self, key: &LinkKey) -> Result<Found, StoreError> {
        let _permit = self.lookups.acquire().await;
        count(Tier::Database);
        let as_of = Instant::now();
        let record = self.store.resolve(key).await?;
        Ok(Found { record, as_of })
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
        Tier::KnownKeys => "known_keys",
        Tier::Redis => "redis",
        Tier::Database => "database",
    };
    counter!(RESOLUTIONS, "tier" => tier).increment(1);
}
