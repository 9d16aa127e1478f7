//! Resolves a key to its record, with one database query for all concurrent requests: memory, known keys, Redis, and
//! finally the database, under a lock in Redis with a double check.
//!
//! Cached records, here or in Redis, are used only while the feed is current, and those in Redis only if that very Redis
//! has everything that was on the feed. Otherwise the database is asked, with one query for each key and process. Every
//! answer carries its age.

#![allow(
    clippy::disallowed_types,
    reason = "lookups have no parties; their class at the database takes the place of this bound"
)]

mod catch_up;
mod known_codes;
mod known_keys;
mod memory;

use crate::{CurrentFeed, Feed};
use catch_up::CatchUp;
use edgelink_model::deadline;
use edgelink_redis::{Lock, Redis, RedisLookup};
use edgelink_settings::config::ResolveConfig;
use edgelink_settings::telemetry::prometheus::{REDIS_MALFORMED, RESOLUTIONS};
use edgelink_store::{Store, StoreError};
use edgelink_wire::redis::{CLUSTER_LASTS_MILLIS, FeedState};
use edgelink_wire::{LinkKey, Record};
use memory::ResolvedRecord;
use metrics::counter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub use known_keys::{KeyScanner, KnownKeys};
pub use memory::Memory;

/// First pause before asking Redis again for a record that another replica looks up; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// Resolves keys.
pub struct Resolver {
    store: Arc<Store>,
    redis: Option<Arc<Redis>>,
    known_keys: Arc<KnownKeys>,
    catch_up: CatchUp,
    memory: Arc<Memory>,
    feed: Arc<Feed>,
    config: ResolveConfig,
    has_warned: AtomicBool,
}

/// A key to look up.
#[derive(Clone, Copy)]
struct LookupKey<'a> {
    key: &'a LinkKey,
    /// The key as text.
    text: &'a str,
}

/// Redis while the feed is current.
#[derive(Clone, Copy)]
struct CurrentRedis<'a> {
    redis: &'a Redis,
    feed: CurrentFeed,
}

/// The answer of Redis.
enum RedisAnswer {
    Known(ResolvedRecord),
    /// No record, or a malformed one.
    Unknown(RedisLookup),
    /// Redis does not answer, or lacks entries of the feed.
    NotCurrent,
}

/// The record of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// A link, or its absence.
    pub record: Record<String>,
    /// Upper bound of its age: later changes may be missing.
    pub age: Duration,
}

impl Resolver {
    /// Creates a resolver. Its memory has to be a listener of the feed.
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
            config,
            has_warned: AtomicBool::new(false),
        }
    }

    /// Resolves a key to its record and an upper bound of its age, as of the call.
    ///
    /// # Errors
    /// The failure of the database, shared by all calls that joined the lookup.
    pub async fn resolve(&self, key: &LinkKey) -> Result<Resolved, Arc<StoreError>> {
        let asked = Instant::now();
        let question = LookupKey {
            key,
            text: &key.to_string(),
        };
        let ResolvedRecord { record, as_of } = self.find(question).await?;
        let age = asked.saturating_duration_since(as_of);
        Ok(Resolved { record, age })
    }

    async fn find(&self, question: LookupKey<'_>) -> Result<ResolvedRecord, Arc<StoreError>> {
        let current = self.feed.current();
        if let Some(current) = current
            && let Some(record) = self.memory.get(question.text).await
        {
            count("memory");
            let as_of = current.as_of;
            return Ok(ResolvedRecord { record, as_of });
        }
        let look_up = || Box::pin(self.look_up(question, current));
        let found = self.memory.look_up(question.text, look_up()).await;
        match found {
            // The lookup belonged to another caller, which no longer waits.
            Err(error) if error.is_given_up() && is_awaited() => {
                self.memory.look_up(question.text, look_up()).await
            }
            found => found,
        }
    }

    async fn look_up(
        &self,
        question: LookupKey<'_>,
        current: Option<CurrentFeed>,
    ) -> Result<ResolvedRecord, StoreError> {
        let as_of = Instant::now();
        if let Some(rev) = self.absence(question.text).await {
            count("known_keys");
            let record = Record::Absent { rev };
            return Ok(ResolvedRecord { record, as_of });
        }
        match (&self.redis, current) {
            (Some(redis), Some(feed)) => {
                let redis = CurrentRedis { redis, feed };
                self.look_up_in_redis(redis, question).await
            }
            _ => self.ask_database(question.key).await,
        }
    }

    /// The revision of the key's absence; `None` if such a link may have been committed.
    async fn absence(&self, text: &str) -> Option<u64> {
        if self.known_keys.may_have(text) {
            return None;
        }
        let rev = self.catch_up.run().await?;
        (!self.known_keys.may_have(text)).then_some(rev)
    }

    async fn look_up_in_redis(
        &self,
        redis: CurrentRedis<'_>,
        question: LookupKey<'_>,
    ) -> Result<ResolvedRecord, StoreError> {
        let mut pause = FIRST_PAUSE;
        let end = Instant::now() + self.config.lock_wait_ms;
        let generation = redis.feed.generation;
        loop {
            let found = match self.ask_redis(redis, question.text).await {
                RedisAnswer::Known(found) => return Ok(found),
                RedisAnswer::Unknown(lookup) => lookup,
                RedisAnswer::NotCurrent => return self.ask_database(question.key).await,
            };
            let lock = redis
                .redis
                .lock(generation, question.text, self.config.lock_ms);
            match lock.await {
                Ok(Some(lock)) => return self.under_lock(redis, question, found, lock).await,
                Ok(None) if Instant::now() < end => sleep(pause).await,
                // The lock's holder takes too long; it may be gone.
                Ok(None) | Err(_) => return self.ask_database(question.key).await,
            }
            pause *= 2;
        }
    }

    /// Looks the record up in Redis, if Redis has everything that was on the feed when the request came.
    async fn ask_redis(&self, redis: CurrentRedis<'_>, text: &str) -> RedisAnswer {
        let CurrentRedis { redis, feed } = redis;
        let Ok(found) = redis.look_up(feed.generation, text).await else {
            return RedisAnswer::NotCurrent;
        };
        let covers = |state: FeedState| state.covers(feed.generation, feed.number);
        let may_be_another = redis.is_clustered() && !self.are_masters_known();
        if may_be_another || !found.state.is_some_and(covers) {
            return RedisAnswer::NotCurrent;
        }
        match found.lookup {
            RedisLookup::Known(record) => {
                count("redis");
                let as_of = feed.as_of;
                return RedisAnswer::Known(ResolvedRecord { record, as_of });
            }
            RedisLookup::Malformed(ref error) => {
                counter!(REDIS_MALFORMED).increment(1);
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, key = text, "malformed record in Redis; replacing it from the database (further ones are only counted)");
                }
            }
            RedisLookup::Unknown => {}
        }
        RedisAnswer::Unknown(found.lookup)
    }

    /// True if the masters of a cluster were seen so recently that none can have been replaced by one with less: each
    /// beat confirms that they are unchanged.
    fn are_masters_known(&self) -> bool {
        let age = self.feed.age();
        age.is_some_and(|age| age < Duration::from_millis(CLUSTER_LASTS_MILLIS))
    }

    /// Asks Redis again, because another replica may have filled it before the lock was taken, and then the database.
    async fn under_lock(
        &self,
        redis: CurrentRedis<'_>,
        question: LookupKey<'_>,
        found: RedisLookup,
        lock: Lock,
    ) -> Result<ResolvedRecord, StoreError> {
        let answer = match self.ask_redis(redis, question.text).await {
            RedisAnswer::Known(found) => Ok(found),
            _ => match self.ask_database(question.key).await {
                Ok(answer) => {
                    // An unreleased lock expires; the failure is counted where it occurs.
                    let _ = redis.redis.fill(&answer.record, &found, lock).await;
                    return Ok(answer);
                }
                error => error,
            },
        };
        let _ = redis.redis.unlock(lock).await;
        answer
    }

    async fn ask_database(&self, key: &LinkKey) -> Result<ResolvedRecord, StoreError> {
        count("database");
        let as_of = Instant::now();
        let record = self.store.resolve(key).await?;
        Ok(ResolvedRecord { record, as_of })
    }
}

/// True if the client is known to be still waiting.
fn is_awaited() -> bool {
    deadline::of_task().is_some_and(|until| Instant::now() < until)
}

/// Counts an answer of a tier.
fn count(tier: &'static str) {
    counter!(RESOLUTIONS, "tier" => tier).increment(1);
}
