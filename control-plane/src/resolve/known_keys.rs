//! The known keys: a filter of all keys that ever were, and one of the codes that edges cannot tell from their number. Both
//! are built by a scan of the database in the background, and kept up to date by the feed.
//!
//! Deleted links stay in until the next start: what is known of them is the revision of their deletion, and only the
//! database has that. So nothing is ever taken out, and no key that is there is ever denied.

use super::known_codes::KnownCodes;
use crate::feed::Listener;
use crate::numbers::Membership;
use crate::store::{ScannedKey, Store, StoreError};
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{CodeFilter, CodeSpace, LinkKey, RecordError};
use rand_09::SeedableRng;
use rand_09::rngs::SmallRng;
use scalable_cuckoo_filter::{DefaultHasher, ScalableCuckooFilter, ScalableCuckooFilterBuilder};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How many keys the filter has room for at first; it grows by itself.
const INITIAL_KEYS: usize = 100_000;

/// Out of how many keys that are not there one may be taken for one that is.
const FALSE_POSITIVES: f64 = 0.001;

/// How many keys are read at once.
const PAGE: u32 = 5_000;

/// The pause after a failure of the scan.
const PAUSE: Duration = Duration::from_secs(1);

/// Keys and codes, as far as they are known.
struct Sets {
    keys: ScalableCuckooFilter<str, DefaultHasher, SmallRng>,
    codes: KnownCodes,
}

impl Sets {
    fn new() -> Result<Self, RecordError> {
        let keys = ScalableCuckooFilterBuilder::new()
            .initial_capacity(INITIAL_KEYS)
            .false_positive_probability(FALSE_POSITIVES)
            // Only chooses which entry makes room.
            .rng(SmallRng::seed_from_u64(0))
            .finish();
        Ok(Self {
            keys,
            codes: KnownCodes::new()?,
        })
    }
}

struct State {
    /// What holds by now; `None` before all keys were scanned once.
    complete: Option<Sets>,
    /// What is being scanned.
    building: Option<Sets>,
}

/// Which keys there are, without asking the database.
pub struct KnownKeys {
    codes: CodeSpace,
    state: Mutex<State>,
    /// Notified when all keys have to be scanned again.
    outdated: Notify,
}

impl KnownKeys {
    /// Filters that hold nothing yet.
    #[must_use]
    pub fn new(codes: CodeSpace) -> Self {
        let known = Self {
            codes,
            state: Mutex::new(State {
                complete: None,
                building: None,
            }),
            outdated: Notify::new(),
        };
        known.outdated.notify_one();
        known
    }

    /// Whether the key may be there. False only where there is no such row as far as the feed has come.
    #[must_use]
    pub fn may_have(&self, key: &str) -> bool {
        let state = self.state();
        let complete = state.complete.as_ref();
        complete.is_none_or(|sets| sets.keys.contains(key))
    }

    /// Notes keys that are there.
    pub fn note<'a>(&self, keys: impl IntoIterator<Item = &'a str>) {
        let mut state = self.state();
        for key in keys {
            state.note(key, self.number(key));
        }
    }

    /// The codes that are known by name, for the edges; `None` before all keys were scanned.
    #[must_use]
    pub fn code_filter(&self) -> Option<CodeFilter> {
        self.state().complete.as_ref()?.codes.filter()
    }

    /// Says that all keys were scanned and there were none.
    #[cfg(test)]
    pub(crate) fn complete_for_tests(&self) {
        self.state().complete = Some(Sets::new().unwrap());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number that the code of a key has, where it has the shape of a generated one.
    fn number(&self, key: &str) -> Option<u64> {
        let (_, code) = key.split_once('/')?;
        self.codes.number(code.as_bytes())
    }
}

impl Sets {
    fn note(&mut self, key: &str, number: Option<u64>) {
        self.keys.insert_if_not_contained(key);
        if let Some((_, code)) = key.split_once('/') {
            self.codes.note(code, number);
        }
    }
}

impl State {
    fn note(&mut self, key: &str, number: Option<u64>) {
        for sets in self.complete.iter_mut().chain(self.building.iter_mut()) {
            sets.note(key, number);
        }
    }
}

impl Membership for KnownKeys {
    /// Says no as long as not all keys were scanned: the first code of a link is then tried, as it should be.
    fn may_contain(&self, key: &LinkKey) -> bool {
        let state = self.state();
        let complete = state.complete.as_ref();
        complete.is_some_and(|sets| sets.keys.contains(&key.to_string()))
    }
}

impl Listener for KnownKeys {
    fn apply(&self, message: &FeedMessage<'_>) {
        match message {
            FeedMessage::Put { key, .. } | FeedMessage::Changed { key } => {
                let number = self.number(key);
                self.state().note(key, number);
            }
            FeedMessage::Beat(beat) => {
                let mut state = self.state();
                let State { complete, building } = &mut *state;
                for sets in complete.iter_mut().chain(building) {
                    sets.codes.note_bound(beat.bound);
                }
            }
            FeedMessage::Flush => self.start_anew(),
            FeedMessage::Del { .. } => {}
        }
    }

    fn start_anew(&self) {
        let mut state = self.state();
        state.complete = None;
        state.building = None;
        self.outdated.notify_one();
    }
}

/// Fills a [`KnownKeys`], at first and whenever the feed has missed something.
pub struct KeyScanner {
    known: Arc<KnownKeys>,
    store: Arc<Store>,
}

impl KeyScanner {
    /// A scan that has not begun. The feed has to be followed before it runs: what is created meanwhile comes from there.
    #[must_use]
    pub fn new(known: Arc<KnownKeys>, store: Arc<Store>) -> Self {
        Self { known, store }
    }

    /// Scans until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let scanning = async {
            loop {
                self.known.outdated.notified().await;
                self.scan_until_done().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = scanning => {}
        }
    }

    async fn scan_until_done(&self) {
        while let Err(error) = self.scan().await {
            tracing::warn!(%error, "the scan of all keys failed and is retried");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn scan(&self) -> Result<(), StoreError> {
        let bound = self.store.bound_state().await?.bound;
        let Ok(mut sets) = Sets::new() else {
            // Without random numbers nothing else works either.
            return Ok(());
        };
        sets.codes.note_bound(bound);
        self.known.state().building = Some(sets);
        let mut after = None;
        loop {
            let page = self.page(after).await;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            if !self.add(&page) {
                // Outdated meanwhile: the notification begins the next scan.
                return Ok(());
            }
        }
        let mut state = self.known.state();
        if let Some(sets) = state.building.take() {
            tracing::info!(keys = sets.keys.len(), "all keys are known");
            state.complete = Some(sets);
        }
        Ok(())
    }

    /// The keys behind `after`, asked for until they are there: what was scanned before is not lost.
    async fn page(&self, after: Option<u64>) -> Vec<ScannedKey> {
        loop {
            match self.store.scan_keys(after, PAGE).await {
                Ok(page) => return page,
                Err(error) => {
                    tracing::warn!(%error, "a page of the scan of all keys failed and is retried");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn add(&self, page: &[ScannedKey]) -> bool {
        let mut state = self.known.state();
        let Some(sets) = &mut state.building else {
            return false;
        };
        for scanned in page {
            sets.note(&scanned.key, self.known.number(&scanned.key));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::feed::Beat;
    use edgelink_wire::{CodeLength, Record};

    fn known() -> KnownKeys {
        KnownKeys::new(CodeSpace::new(CodeLength::DEFAULT, None))
    }

    fn complete(known: &KnownKeys) {
        known.complete_for_tests();
    }

    fn put(key: &str) -> FeedMessage<'_> {
        let record = Record::Absent { rev: 1 };
        FeedMessage::Put {
            key,
            record,
            hot: false,
        }
    }

    #[test]
    fn before_all_keys_were_scanned_nothing_is_denied() {
        let known = known();
        assert!(known.may_have("a.example/x"));
        assert!(known.code_filter().is_none());
        complete(&known);
        assert!(!known.may_have("a.example/x"));
        known.start_anew();
        assert!(known.may_have("a.example/x"));
    }

    #[test]
    fn what_the_feed_brings_is_there_and_stays_when_it_is_deleted() {
        let known = known();
        complete(&known);
        known.apply(&put("a.example/x"));
        known.apply(&FeedMessage::Del {
            key: "a.example/x",
            rev: 2,
        });
        assert!(known.may_have("a.example/x"));
        assert!(!known.may_have("a.example/y"));
    }

    #[test]
    fn a_link_is_taken_for_one_that_exists_only_once_all_keys_were_scanned() {
        let known = known();
        let (there, absent) = ("a.example/x".parse(), "a.example/y".parse());
        let (there, absent): (LinkKey, LinkKey) = (there.unwrap(), absent.unwrap());
        assert!(!known.may_contain(&there));
        complete(&known);
        known.apply(&put("a.example/x"));
        assert!(known.may_contain(&there) && !known.may_contain(&absent));
    }

    #[test]
    fn an_alias_of_any_shape_is_in_the_filter_at_once() {
        let known = known();
        complete(&known);
        known.apply(&FeedMessage::Beat(Beat {
            bound: 1000,
            ..Beat::default()
        }));
        known.apply(&put("a.example/ZZZZZZZ"));
        known.apply(&put("a.example/other-shape"));
        known.apply(&FeedMessage::Changed {
            key: "a.example/changed",
        });
        known.apply(&put("a.example/0000007"));
        let filter = known.code_filter().unwrap();
        for code in ["ZZZZZZZ", "other-shape", "changed"] {
            assert!(filter.may_contain(code.as_bytes()), "{code}");
        }
        // Generated, and below the bound.
        assert!(!filter.may_contain(b"0000007"));
    }
}
