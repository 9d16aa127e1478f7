//! Records in this process, kept fresh by the feed: what was looked up before a change came is never used after it.

use crate::feed::Listener;
use crate::store::StoreError;
use edgelink_wire::Record;
use edgelink_wire::feed::FeedMessage;
use moka::future::Cache;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Keys share counters of changes: a change voids a few other keys as well, which only costs a lookup.
const COUNTERS: usize = 4096;

/// What an entry takes beside its key and target, in bytes, roughly.
const OVERHEAD: usize = 160;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// In bytes.
    pub bytes: u64,
    /// At most.
    pub time: Duration,
}

#[derive(Clone)]
struct Remembered {
    record: Record<String>,
    /// The changes that had come when the lookup began.
    stamp: Stamp,
}

/// How many changes had come: to keys with the same counter, and to everything at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    key: u64,
    all: u64,
}

/// Records in this process.
pub struct Memory {
    records: Cache<String, Remembered>,
    hasher: RandomState,
    changes: Vec<AtomicU64>,
    restarts: AtomicU64,
}

impl Memory {
    /// Nothing remembered yet.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        let records = Cache::builder()
            .max_capacity(options.bytes)
            .weigher(|key: &String, value: &Remembered| {
                let url = match &value.record {
                    Record::Link(link) => link.url.len(),
                    Record::Absent { .. } => 0,
                };
                u32::try_from(OVERHEAD + key.len() + url).unwrap_or(u32::MAX)
            })
            .time_to_live(options.time)
            .build();
        Self {
            records,
            hasher: RandomState::new(),
            changes: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            restarts: AtomicU64::new(0),
        }
    }

    /// What is remembered of a key, unless it has changed since.
    pub(super) async fn get(&self, key: &str) -> Option<Record<String>> {
        let remembered = self.records.get(key).await?;
        if remembered.stamp == self.stamp(key) {
            return Some(remembered.record);
        }
        self.records.invalidate(key).await;
        None
    }

    /// Looks a key up, once for all who ask meanwhile, and remembers the answer.
    pub(super) async fn look_up(
        &self,
        key: &str,
        look_up: impl Future<Output = Result<Record<String>, StoreError>>,
    ) -> Result<Record<String>, Arc<StoreError>> {
        let remembering = async {
            let stamp = self.stamp(key);
            let record = look_up.await?;
            Ok(Remembered { record, stamp })
        };
        let remembered = self
            .records
            .try_get_with_by_ref(key, Box::pin(remembering))
            .await?;
        Ok(remembered.record)
    }

    /// Forgets what is known of a key, and what is being looked up.
    pub(crate) fn void(&self, key: &str) {
        self.counter(key).fetch_add(1, Ordering::AcqRel);
    }

    fn stamp(&self, key: &str) -> Stamp {
        Stamp {
            key: self.counter(key).load(Ordering::Acquire),
            all: self.restarts.load(Ordering::Acquire),
        }
    }

    fn counter(&self, key: &str) -> &AtomicU64 {
        let hash = self.hasher.hash_one(key) as usize;
        &self.changes[hash % COUNTERS]
    }
}

impl Listener for Memory {
    fn apply(&self, message: &FeedMessage<'_>) {
        match message {
            FeedMessage::Put {
                key, hot: false, ..
            }
            | FeedMessage::Del { key, .. } => {
                self.void(key);
            }
            FeedMessage::Flush => self.start_anew(),
            FeedMessage::Put { hot: true, .. } | FeedMessage::Bound { .. } => {}
        }
    }

    fn start_anew(&self) {
        self.restarts.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn memory() -> Memory {
        Memory::new(MemoryOptions {
            bytes: 1 << 20,
            time: Duration::from_secs(60),
        })
    }

    fn absent(rev: u64) -> Record<String> {
        Record::Absent { rev }
    }

    const KEY: &str = "a.example/x";

    #[tokio::test]
    async fn who_asks_at_once_shares_one_lookup() {
        let memory = Arc::new(memory());
        let lookups = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (memory, lookups) = (memory.clone(), lookups.clone());
                tokio::spawn(async move {
                    let look_up = async {
                        lookups.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        Ok(absent(7))
                    };
                    memory.look_up(KEY, look_up).await.unwrap()
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), absent(7));
        }
        assert_eq!(lookups.load(Ordering::Relaxed), 1);
        assert_eq!(memory.get(KEY).await, Some(absent(7)));
    }

    #[tokio::test]
    async fn what_was_looked_up_before_a_change_is_not_used_after_it() {
        let memory = memory();
        let change = FeedMessage::Del { key: KEY, rev: 2 };
        // The change comes while the lookup is under way.
        let look_up = async {
            memory.apply(&change);
            Ok(absent(1))
        };
        assert_eq!(memory.look_up(KEY, look_up).await.unwrap(), absent(1));
        assert_eq!(memory.get(KEY).await, None);
        memory.look_up(KEY, async { Ok(absent(2)) }).await.unwrap();
        assert_eq!(memory.get(KEY).await, Some(absent(2)));
        memory.start_anew();
        assert_eq!(memory.get(KEY).await, None);
    }

    #[tokio::test]
    async fn a_failure_is_not_remembered() {
        let memory = memory();
        let failure = StoreError {
            context: "resolving",
            transient: true,
            source: "away".into(),
        };
        assert!(memory.look_up(KEY, async { Err(failure) }).await.is_err());
        assert_eq!(
            memory.look_up(KEY, async { Ok(absent(1)) }).await.unwrap(),
            absent(1)
        );
    }
}
