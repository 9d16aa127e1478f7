//! Records in this process, kept fresh by the feed: a record from before a change is never used after it.

use crate::Listener;
use edgelink_settings::config::ResolveConfig;
use edgelink_store::StoreError;
use edgelink_wire::Record;
use edgelink_wire::feed::FeedMessage;
use moka::future::Cache;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// The number of change counters. Keys share them: a change invalidates a few other keys as well, which costs a lookup.
const COUNTERS: usize = 4096;

/// Bytes of an entry beside its texts: its slots in the tables of the cache, which may be half empty, key and record, and the
/// overhead of the allocator.
const OVERHEAD: usize = 704;

/// Result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedRecord {
    pub(super) record: Record<String>,
    /// Time at or after which the record was correct.
    pub(super) as_of: Instant,
}

type FlightOutcome = Result<ResolvedRecord, Arc<StoreError>>;

/// A lookup in flight.
struct LookupFlight {
    stamp: ChangeStamp,
    outcome: OnceCell<FlightOutcome>,
}

#[derive(Clone)]
struct MemoryEntry {
    record: Record<String>,
    /// The counters when the lookup began.
    stamp: ChangeStamp,
}

impl MemoryEntry {
    /// Size in bytes, without the key.
    fn bytes(&self) -> usize {
        let texts = match &self.record {
            Record::Link(link) => link.url.len() + link.extension.len(),
            Record::Absent { .. } => 0,
        };
        OVERHEAD + texts
    }
}

/// Counters of changes: to keys that share a counter, and to all keys at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangeStamp {
    key: u64,
    all: u64,
}

/// Records in this process.
pub struct Memory {
    records: Cache<String, MemoryEntry>,
    flights: Mutex<HashMap<String, Arc<LookupFlight>>>,
    hasher: RandomState,
    changes: Vec<AtomicU64>,
    invalidations: AtomicU64,
}

impl Memory {
    /// An empty memory.
    #[must_use]
    pub fn new(config: &ResolveConfig) -> Self {
        let records = Cache::builder()
            .max_capacity(config.cache_bytes)
            .weigher(|key: &String, entry: &MemoryEntry| {
                u32::try_from(key.len() + entry.bytes()).unwrap_or(u32::MAX)
            })
            .time_to_live(config.cache_ms)
            .build();
        Self {
            records,
            flights: Mutex::default(),
            hasher: RandomState::new(),
            changes: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            invalidations: AtomicU64::new(0),
        }
    }

    /// The cached record of a key; `None` if the key has changed since.
    pub(super) async fn get(&self, key: &str) -> Option<Record<String>> {
        let entry = self.records.get(key).await?;
        if entry.stamp == self.stamp(key) {
            return Some(entry.record);
        }
        self.records.invalidate(key).await;
        None
    }

    /// Looks up a key, once for all concurrent callers, and caches the record. A caller after a change never gets a
    /// record from before it. (The cache's own shared lookup panics when many consecutive callers are cancelled.)
    pub(super) async fn look_up(
        &self,
        key: &str,
        look_up: impl Future<Output = Result<ResolvedRecord, StoreError>>,
    ) -> FlightOutcome {
        let waiter = self.join(key);
        let flight = waiter.flight.clone();
        let outcome = flight.outcome.get_or_init(|| async {
            let found = look_up.await.map_err(Arc::new)?;
            let entry = MemoryEntry {
                record: found.record.clone(),
                stamp: flight.stamp,
            };
            self.records.insert(key.to_owned(), entry).await;
            Ok(found)
        });
        Box::pin(outcome).await.clone()
    }

    /// Joins the flight for a key, or begins one if none began since the last change.
    fn join<'a>(&'a self, key: &'a str) -> FlightWaiter<'a> {
        let mut flights = self.flights();
        let stamp = self.stamp(key);
        let flight = match flights.get(key) {
            Some(flight) if flight.stamp == stamp && flight.outcome.get().is_none() => {
                flight.clone()
            }
            _ => {
                let outcome = OnceCell::new();
                let flight = Arc::new(LookupFlight { stamp, outcome });
                flights.insert(key.to_owned(), flight.clone());
                flight
            }
        };
        FlightWaiter {
            memory: self,
            key,
            flight,
        }
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<String, Arc<LookupFlight>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Invalidates the record of a key, and lookups in flight.
    pub fn invalidate(&self, key: &str) {
        self.counter(key).fetch_add(1, Ordering::AcqRel);
    }

    fn stamp(&self, key: &str) -> ChangeStamp {
        ChangeStamp {
            key: self.counter(key).load(Ordering::Acquire),
            all: self.invalidations.load(Ordering::Acquire),
        }
    }

    fn counter(&self, key: &str) -> &AtomicU64 {
        let hash = self.hasher.hash_one(key) as usize;
        &self.changes[hash % COUNTERS]
    }
}

/// A caller that waits for a flight.
struct FlightWaiter<'a> {
    memory: &'a Memory,
    key: &'a str,
    flight: Arc<LookupFlight>,
}

impl Drop for FlightWaiter<'_> {
    /// The last waiter removes the flight, also if all of them were dropped before it was complete.
    fn drop(&mut self) {
        let mut flights = self.memory.flights();
        let flight = flights.get(self.key);
        let is_it = flight.is_some_and(|flight| Arc::ptr_eq(flight, &self.flight));
        // References: the table's, this waiter's, and that of the call that is dropped with it.
        if is_it && (self.flight.outcome.get().is_some() || Arc::strong_count(&self.flight) <= 3) {
            flights.remove(self.key);
        }
    }
}

impl Listener for Memory {
    fn apply(&self, message: &FeedMessage<'_>) {
        match message {
            FeedMessage::Put {
                key, hot: false, ..
            }
            | FeedMessage::Del { key, .. }
            | FeedMessage::Changed { key } => {
                self.invalidate(key);
            }
            FeedMessage::Flush => self.invalidate_all(),
            FeedMessage::Put { hot: true, .. } | FeedMessage::Beat(_) => {}
        }
    }

    fn invalidate_all(&self) {
        self.invalidations.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_model::allocations;
    use edgelink_wire::{LinkRecord, LinkState, RedirectStatus};
    use std::sync::atomic::AtomicU32;
    use tokio::sync::oneshot;

    fn memory() -> Memory {
        Memory::new(&ResolveConfig {
            cache_bytes: 1 << 20,
            cache_ms: std::time::Duration::from_secs(60),
            ..ResolveConfig::default()
        })
    }

    fn absent(rev: u64) -> Record<String> {
        Record::Absent { rev }
    }

    fn found(rev: u64) -> ResolvedRecord {
        ResolvedRecord {
            record: absent(rev),
            as_of: Instant::now(),
        }
    }

    async fn look_up(
        memory: &Memory,
        look_up: impl Future<Output = Result<ResolvedRecord, StoreError>>,
    ) -> Record<String> {
        memory.look_up(KEY, look_up).await.unwrap().record
    }

    const KEY: &str = "a.example/x";

    /// A record with an extension of so many bytes.
    fn link(extension: usize) -> Record<String> {
        Record::Link(LinkRecord {
            url: "https://example.com/".to_owned(),
            redirect: RedirectStatus::default(),
            state: LinkState::default(),
            valid_since: None,
            valid_until: None,
            forward_query: true,
            rev: 1,
            extension: vec![0; extension],
        })
    }

    async fn fill(memory: &Memory, records: usize, extension: usize) {
        for number in 0..records {
            let found = ResolvedRecord {
                record: link(extension),
                as_of: Instant::now(),
            };
            let lookup = async { Ok(found) };
            memory
                .look_up(&format!("a.example/{number}"), lookup)
                .await
                .unwrap();
            if number % 64 == 0 {
                memory.records.run_pending_tasks().await;
            }
        }
        memory.records.run_pending_tasks().await;
    }

    #[tokio::test]
    async fn records_when_held_weigh_at_least_their_bytes() {
        for (records, extension) in [(4_000, 0), (2_000, 100), (200, 16_000)] {
            let memory = Memory::new(&ResolveConfig {
                cache_bytes: 1 << 30,
                cache_ms: std::time::Duration::from_secs(600),
                ..ResolveConfig::default()
            });
            // The fixed size of the cache.
            fill(&memory, 1, 0).await;
            let before = allocations::held();
            fill(&memory, records, extension).await;
            let held = allocations::held() - before;
            let weight = memory.records.weighted_size();
            assert_eq!(memory.records.entry_count(), records as u64);
            // Records of caches that other tests have dropped may be freed on this thread meanwhile.
            assert!(held <= weight as i64, "{extension}: {held} > {weight}");
        }
    }

    #[tokio::test]
    async fn cache_when_rules_are_large_stays_within_its_bytes() {
        let memory = memory();
        fill(&memory, 500, 16_000).await;
        let held = memory.records.entry_count();
        assert!(memory.records.weighted_size() <= 1 << 20);
        assert!((1..=(1 << 20) / 16_000).contains(&held), "{held}");
    }

    #[tokio::test]
    async fn lookup_when_requests_are_concurrent_is_shared() {
        let memory = Arc::new(memory());
        let lookups = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (memory, lookups) = (memory.clone(), lookups.clone());
                tokio::spawn(async move {
                    let lookup = async {
                        lookups.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        Ok(found(7))
                    };
                    look_up(&memory, lookup).await
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), absent(7));
        }
        assert_eq!(lookups.load(Ordering::Relaxed), 1);
        assert_eq!(memory.get(KEY).await, Some(absent(7)));
        assert!(memory.flights().is_empty());
    }

    #[tokio::test]
    async fn lookup_when_made_before_a_change_is_not_used_after() {
        let memory = memory();
        let change = FeedMessage::Del { key: KEY, rev: 2 };
        // The change arrives while the lookup is in flight.
        let lookup = async {
            memory.apply(&change);
            Ok(found(1))
        };
        assert_eq!(look_up(&memory, lookup).await, absent(1));
        assert_eq!(memory.get(KEY).await, None);
        look_up(&memory, async { Ok(found(2)) }).await;
        assert_eq!(memory.get(KEY).await, Some(absent(2)));
        memory.invalidate_all();
        assert_eq!(memory.get(KEY).await, None);
        look_up(&memory, async { Ok(found(3)) }).await;
        memory.apply(&FeedMessage::Changed { key: KEY });
        assert_eq!(memory.get(KEY).await, None);
    }

    #[tokio::test]
    async fn lookup_when_record_is_cached_asks_again() {
        let memory = memory();
        for rev in 1..3 {
            assert_eq!(
                look_up(&memory, async { Ok(found(rev)) }).await,
                absent(rev)
            );
        }
    }

    #[tokio::test]
    async fn lookup_when_begun_before_a_change_is_not_joined() {
        let memory = Arc::new(memory());
        let (finish, finished) = oneshot::channel();
        let (begun, began) = oneshot::channel();
        let early = tokio::spawn({
            let memory = memory.clone();
            async move {
                let lookup = async {
                    begun.send(()).unwrap();
                    finished.await.unwrap();
                    Ok(found(1))
                };
                look_up(&memory, lookup).await
            }
        });
        began.await.unwrap();
        memory.apply(&FeedMessage::Del { key: KEY, rev: 2 });
        assert_eq!(look_up(&memory, async { Ok(found(2)) }).await, absent(2));
        finish.send(()).unwrap();
        assert_eq!(early.await.unwrap(), absent(1));
        assert_eq!(memory.get(KEY).await, None, "the early one does not count");
        assert!(memory.flights().is_empty());
    }

    #[tokio::test]
    async fn lookup_when_given_up_is_made_by_a_waiter() {
        let memory = Arc::new(memory());
        let (begun, began) = oneshot::channel();
        let first = tokio::spawn({
            let memory = memory.clone();
            async move {
                let lookup = async {
                    begun.send(()).unwrap();
                    std::future::pending().await
                };
                look_up(&memory, lookup).await
            }
        });
        began.await.unwrap();
        let second = tokio::spawn({
            let memory = memory.clone();
            async move { look_up(&memory, async { Ok(found(2)) }).await }
        });
        tokio::task::yield_now().await;
        first.abort();
        assert_eq!(second.await.unwrap(), absent(2));
        assert!(memory.flights().is_empty());
    }

    #[tokio::test]
    async fn lookup_when_it_fails_is_not_cached() {
        let memory = memory();
        let failure = StoreError {
            context: "resolving",
            transient: true,
            source: "away".into(),
        };
        assert!(memory.look_up(KEY, async { Err(failure) }).await.is_err());
        assert_eq!(look_up(&memory, async { Ok(found(1)) }).await, absent(1));
    }
}
