//! Making sure, before a key is denied, that everything committed by now is in the catalogue. All who ask at once share one
//! look into the outbox.

use crate::catalog::Catalog;
use crate::feed::Feed;
use crate::redis::Redis;
use crate::store::{Packed, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// With more batches of changes than this under way, nothing is denied.
const MAX_PENDING: u32 = 1_000;

/// How long the feed may take to come as far as Redis is.
const FEED_WAIT: Duration = Duration::from_millis(100);

/// The time between two looks at least, so that a flood of keys that are not there does not become one of queries.
const PACE: Duration = Duration::from_millis(2);

struct Round {
    /// The number of the last round that is over.
    number: u64,
    /// Whether it was certain.
    is_certain: bool,
    next: Instant,
}

/// Brings the catalogue up to date.
pub(super) struct CatchUp {
    store: Arc<dyn Store>,
    redis: Option<Arc<Redis>>,
    catalog: Arc<Catalog>,
    feed: Arc<Feed>,
    /// How many rounds were begun.
    begun: AtomicU64,
    last: Mutex<Round>,
}

impl CatchUp {
    pub(super) fn new(
        store: Arc<dyn Store>,
        redis: Option<Arc<Redis>>,
        catalog: Arc<Catalog>,
        feed: Arc<Feed>,
    ) -> Self {
        Self {
            store,
            redis,
            catalog,
            feed,
            begun: AtomicU64::new(0),
            last: Mutex::new(Round {
                number: 0,
                is_certain: false,
                next: Instant::now(),
            }),
        }
    }

    /// Whether the catalogue has everything that was committed before the call. A round that began after the call counts,
    /// whoever began it; one that was under way does not.
    pub(super) async fn run(&self) -> bool {
        let asked = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if last.number <= asked {
            sleep_until(last.next).await;
            last.number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            last.is_certain = self.round().await;
            last.next = Instant::now() + PACE;
        }
        last.is_certain
    }

    /// What is committed is in the outbox until it is published, and from then on in the feed.
    async fn round(&self) -> bool {
        let Ok(pending) = self.store.pending_keys(MAX_PENDING).await else {
            return false;
        };
        let are_readable = pending.iter().all(|keys| self.note(keys));
        let is_all = u32::try_from(pending.len()).is_ok_and(|count| count < MAX_PENDING);
        are_readable && is_all && self.feed_has_caught_up().await
    }

    /// Notes keys, where they can be read.
    fn note(&self, keys: &Packed) -> bool {
        let texts = keys.values().map(|key| str::from_utf8(key.ok()?).ok());
        let Some(texts) = texts.collect::<Option<Vec<_>>>() else {
            return false;
        };
        self.catalog.note(texts);
        true
    }

    async fn feed_has_caught_up(&self) -> bool {
        let Some(redis) = &self.redis else {
            // The relay of this process, the only one, puts changes on the feed before it deletes them.
            return true;
        };
        match redis.newest().await {
            Ok(newest) => self.feed.is_live() && self.feed.catch_up(newest, FEED_WAIT).await,
            Err(_) => false,
        }
    }
}
