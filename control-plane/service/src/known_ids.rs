//! The ids of all API keys that ever existed, so that invented keys cost no lookups.
//!
//! An unknown id makes this process read the ids of new keys, in one read for all unknown ids that arrive meanwhile. So
//! however many keys are invented, the database is asked ten times a second at most, and a key that another process has
//! just made is found by the request itself, which waits for [`PAUSE`] at most. An id takes about 20 bytes, and only admins
//! make more of them: a million keys are 20 MB.

use edgelink_model::clock;
use edgelink_store::{KeyPlace, StoreError};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time between two reads.
const PAUSE: Duration = Duration::from_millis(100);

/// Age of a read up to which an id is taken for an invented one while the limit of waiting ids is reached.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Overlap of a read with the one before, back from the newest key: transactions may end this much later, and clocks may differ
/// this much.
const OVERLAP_MILLIS: u64 = 10 * 60 * 1000;

/// Interval between reads of all ids, if unknown ones are sent: clocks may differ by more than the overlap.
const WHOLE_PERIOD: Duration = Duration::from_mins(10);

/// Number of ids in a page of a read.
const PAGE: u32 = 5_000;

/// The failure to look up a key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyLookupError {
    /// The limit of waiting ids is reached.
    #[error("too many unknown keys are sent")]
    Overloaded,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The ids of all API keys.
pub(crate) struct KnownIds {
    state: Mutex<KnownIdsState>,
    /// Held by the request that reads.
    turn: tokio::sync::Mutex<()>,
    /// Limit on the number of ids waiting for a read: their requests would crowd out all others.
    max_waiting: usize,
}

#[derive(Default)]
struct KnownIdsState {
    ids: HashSet<u64>,
    /// Time of creation of the newest key, unix milliseconds.
    newest: u64,
    /// Start of the last successful read.
    read: Option<Instant>,
    /// Start of the last successful read of all ids.
    read_whole: Option<Instant>,
    /// Time and cause of the failure of the last read.
    failed: Option<(Instant, Arc<KeyLookupError>)>,
    /// The ids that wait for a read, each with the number of its requests.
    waiting: HashMap<u64, usize>,
}

/// A request that waits for a read.
struct Waiting<'a> {
    ids: &'a KnownIds,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut waiting) = self.ids.state().waiting.entry(self.id) {
            *waiting.get_mut() -= 1;
            if *waiting.get() == 0 {
                waiting.remove();
            }
        }
    }
}

impl KnownIdsState {
    fn is_read_within(&self, time: Duration) -> bool {
        self.read.is_some_and(|read| read.elapsed() < time)
    }

    /// The answer for an id, if it is known or the last read has just failed; `None` if the ids have to be read.
    fn answer(&self, id: u64) -> Option<Result<bool, Arc<KeyLookupError>>> {
        if self.ids.contains(&id) {
            return Some(Ok(true));
        }
        let failed = self.failed.as_ref();
        let failed = failed.filter(|(at, _)| at.elapsed() < PAUSE);
        failed.map(|(_, error)| Err(error.clone()))
    }

    /// Time of creation from which the next read begins, unix milliseconds.
    fn begin(&self) -> u64 {
        let is_whole = |read: Instant| read.elapsed() < WHOLE_PERIOD;
        if self.read_whole.is_some_and(is_whole) {
            self.newest.saturating_sub(OVERLAP_MILLIS)
        } else {
            0
        }
    }

    fn add(&mut self, key: &KeyPlace) {
        self.ids.extend(number(&key.id));
        // Another clock may be ahead.
        let created_at = key.created_at.min(clock::unix_millis());
        self.newest = self.newest.max(created_at);
    }
}

impl KnownIds {
    /// An empty set; the first unknown id makes it read. Up to `max_waiting` ids may wait for a read at once.
    pub(crate) fn new(max_waiting: usize) -> Self {
        Self {
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            max_waiting,
        }
    }

    /// True if a key with the id ever existed. `page` reads up to a number of keys after a place, in order.
    pub(crate) async fn has<F>(
        &self,
        id: &str,
        page: impl Fn(KeyPlace, u32) -> F,
    ) -> Result<bool, Arc<KeyLookupError>>
    where
        F: Future<Output = Result<Vec<KeyPlace>, StoreError>>,
    {
        let Some(number) = number(id) else {
            return Ok(false);
        };
        if let Some(answer) = self.state().answer(number) {
            return answer;
        }
        let arrived = Instant::now();
        let Some(_waiting) = self.wait(number) else {
            return if self.state().is_read_within(MAX_AGE) {
                Ok(false)
            } else {
                Err(Arc::new(KeyLookupError::Overloaded))
            };
        };
        let _turn = self.turn.lock().await;
        if let Some(answer) = self.state().answer(number) {
            return answer;
        }
        let last = self.state().read;
        if last.is_some_and(|last| last >= arrived) {
            return Ok(false);
        }
        let since = last.map_or(PAUSE, |last| last.elapsed());
        tokio::time::sleep(PAUSE.saturating_sub(since)).await;
        if let Err(error) = self.read(page).await {
            let error = Arc::new(KeyLookupError::Store(error));
            self.state().failed = Some((Instant::now(), error.clone()));
            return Err(error);
        }
        Ok(self.state().ids.contains(&number))
    }

    /// Registers a waiting request; `None` if the limit of waiting ids is reached.
    fn wait(&self, id: u64) -> Option<Waiting<'_>> {
        let mut state = self.state();
        let is_full = match state.waiting.get(&id) {
            // Requests with a new key come at once, and wait together for the first read.
            Some(requests) => *requests >= self.max_waiting && state.is_read_within(MAX_AGE),
            None => state.waiting.len() >= self.max_waiting,
        };
        if is_full {
            return None;
        }
        *state.waiting.entry(id).or_default() += 1;
        Some(Waiting { ids: self, id })
    }

    /// Adds the id of a key that this process has made.
    pub(crate) fn add(&self, id: &str) {
        self.state().ids.extend(number(id));
    }

    async fn read<F>(&self, page: impl Fn(KeyPlace, u32) -> F) -> Result<(), StoreError>
    where
        F: Future<Output = Result<Vec<KeyPlace>, StoreError>>,
    {
        let begun = Instant::now();
        let begin = self.state().begin();
        let mut after = KeyPlace {
            created_at: begin,
            id: String::new(),
        };
        loop {
            let mut keys = page(after, PAGE).await?;
            let is_last = keys.len() < PAGE as usize;
            let mut state = self.state();
            keys.iter().for_each(|key| state.add(key));
            match keys.pop() {
                Some(last) if !is_last => after = last,
                _ => {
                    state.read = Some(begun);
                    if begin == 0 {
                        state.read_whole = Some(begun);
                    }
                    return Ok(());
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, KnownIdsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses an id as a number; `None` if no key can have that id.
fn number(id: &str) -> Option<u64> {
    u64::from_str_radix(id, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::collections::BTreeSet;
    use std::future::{Ready, pending, ready};
    use std::ops::Bound;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A table of keys that counts how often it is read.
    #[derive(Default)]
    struct Table {
        keys: Mutex<BTreeSet<(u64, String)>>,
        reads: AtomicUsize,
    }

    impl Table {
        fn with(ids: &[&str]) -> Self {
            let table = Self::default();
            ids.iter().for_each(|id| table.insert(id, 1));
            table
        }

        fn insert(&self, id: &str, created_at: u64) {
            let id = id.to_owned();
            self.keys.lock().unwrap().insert((created_at, id));
        }

        fn page(&self, after: KeyPlace, limit: u32) -> Ready<Result<Vec<KeyPlace>, StoreError>> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let place = (after.created_at, after.id);
            let keys = self.keys.lock().unwrap();
            let rest = keys.range((Bound::Excluded(place), Bound::Unbounded));
            let rest = rest.take(limit as usize).cloned();
            let key = |(created_at, id)| KeyPlace { created_at, id };
            ready(Ok(rest.map(key).collect()))
        }

        fn reads(&self) -> usize {
            self.reads.load(Ordering::Relaxed)
        }

        async fn is_in(&self, id: &str, ids: &KnownIds) -> bool {
            let page = |after, limit| self.page(after, limit);
            ids.has(id, page).await.unwrap()
        }
    }

    /// Shifts the last read back by `time`.
    fn age(ids: &KnownIds, time: Duration) {
        let mut state = ids.state();
        state.read = state.read.map(|read| read.checked_sub(time).unwrap());
        state.read_whole = state.read_whole.map(|read| read.checked_sub(time).unwrap());
    }

    #[tokio::test]
    async fn keys_when_invented_cost_one_read_together() {
        let (ids, table) = (KnownIds::new(4), Table::with(&["0a", "0b"]));
        assert!(table.is_in("0a", &ids).await);
        assert_eq!(table.reads(), 1);
        let start = Instant::now();
        let invented = (0x1000..0x1000 + 1000).map(|invented| format!("{invented:x}"));
        let invented: Vec<String> = invented.collect();
        let found = invented.iter().map(|id| table.is_in(id, &ids));
        assert!(!join_all(found).await.contains(&true));
        let pauses = start.elapsed().as_millis() / PAUSE.as_millis();
        assert!(table.reads() as u128 <= 2 + pauses, "{}", table.reads());
        assert!(table.is_in("0b", &ids).await);
        assert!(!table.is_in("no number", &ids).await);
    }

    #[tokio::test]
    async fn key_when_new_is_found_at_the_next_read() {
        let (ids, table) = (KnownIds::new(4), Table::default());
        let made = |n: u64| (n * 60_000, format!("{n:x}"));
        for n in 1..=u64::from(PAGE) * 2 {
            let (created_at, id) = made(n);
            table.insert(&id, created_at);
        }
        assert!(table.is_in("1", &ids).await);
        assert_eq!(table.reads(), 3, "two full pages and their end");
        let (created_at, id) = made(u64::from(PAGE) * 2);
        table.insert("ffffff", created_at - OVERLAP_MILLIS / 2);
        assert!(table.is_in("ffffff", &ids).await);
        assert_eq!(table.reads(), 4);
        assert!(table.is_in(&id, &ids).await);

        table.insert("fffffe", 1);
        assert!(!table.is_in("fffffe", &ids).await, "a clock far behind");
        age(&ids, WHOLE_PERIOD);
        assert!(table.is_in("fffffe", &ids).await);
        ids.add("eeeeee");
        assert!(table.is_in("eeeeee", &ids).await);
    }

    #[tokio::test]
    async fn key_when_a_clock_is_far_ahead_is_found() {
        let (ids, table) = (KnownIds::new(4), Table::default());
        let now = edgelink_model::clock::unix_millis();
        table.insert("aa", now * 2);
        assert!(table.is_in("aa", &ids).await);
        table.insert("bb", now);
        assert!(table.is_in("bb", &ids).await);
    }

    #[tokio::test]
    async fn key_when_database_hangs_is_found_if_known() {
        let (ids, table) = (Arc::new(KnownIds::new(2)), Table::with(&["0a"]));
        assert!(table.is_in("0a", &ids).await);
        age(&ids, MAX_AGE);
        let hanging: Vec<_> = ["01", "02"]
            .map(|id| {
                let ids = ids.clone();
                tokio::spawn(async move { ids.has(id, |_, _| pending()).await.is_ok() })
            })
            .into();
        while ids.state().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(ids.wait(1).is_some(), "another request of one that waits");
        let refused = ids.has("03", |_, _| pending()).await.unwrap_err();
        assert!(matches!(*refused, KeyLookupError::Overloaded), "{refused}");
        assert!(table.is_in("0a", &ids).await, "a known key needs no room");
        hanging.iter().for_each(tokio::task::JoinHandle::abort);
        for lookup in hanging {
            assert!(lookup.await.unwrap_err().is_cancelled());
        }
        assert!(!table.is_in("03", &ids).await, "room again");
        assert!(ids.state().waiting.is_empty());
    }

    #[tokio::test]
    async fn read_when_it_fails_is_not_repeated_for_each_key() {
        let (ids, reads) = (KnownIds::new(4), AtomicUsize::new(0));
        let page = |_, _| {
            reads.fetch_add(1, Ordering::Relaxed);
            ready(Err(StoreError {
                context: "reading ids of keys",
                transient: true,
                source: "away".into(),
            }))
        };
        for id in ["01", "02", "03"] {
            assert!(ids.has(id, page).await.is_err());
        }
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }
}
