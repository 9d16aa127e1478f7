//! The known keys: a filter of all keys that ever were, and one of the codes that edges cannot check by their number.
//! Both are built by a scan of the database in the background, and kept up to date by the feed.
//!
//! Deleted links stay until the next start: an absence needs the revision of the deletion, which only the database has.
//! So no key is ever removed, and no existing key is denied.

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

/// The share of absent keys that are taken for existing ones.
const FALSE_POSITIVES: f64 = 0.001;

/// The keys of one page of the scan.
const PAGE: u32 = 5_000;

/// The pause before a retry of the scan.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The filters of keys and codes.
struct KeyFilters {
    keys: ScalableCuckooFilter<str, DefaultHasher, SmallRng>,
    codes: KnownCodes,
}

impl KeyFilters {
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

struct ScanState {
    /// The complete filters; `None` before the first scan is complete.
    complete: Option<KeyFilters>,
    /// The filters that a scan is filling.
    building: Option<KeyFilters>,
}

/// Which keys there are, without asking the database.
pub struct KnownKeys {
    codes: CodeSpace,
    state: Mutex<ScanState>,
    /// Notified when all keys have to be scanned again.
    outdated: Notify,
}

impl KnownKeys {
    /// Empty filters, which a scan has to fill.
    #[must_use]
    pub fn new(codes: CodeSpace) -> Self {
        let known = Self {
            codes,
            state: Mutex::new(ScanState {
                complete: None,
                building: None,
            }),
            outdated: Notify::new(),
        };
        known.outdated.notify_one();
        known
    }

    /// Whether the key may exist. `false` only if no such row is committed as far as the feed has come.
    #[must_use]
    pub fn may_have(&self, key: &str) -> bool {
        let state = self.state();
        let complete = state.complete.as_ref();
        complete.is_none_or(|sets| sets.keys.contains(key))
    }

    /// Adds keys.
    pub fn note<'a>(&self, keys: impl IntoIterator<Item = &'a str>) {
        let mut state = self.state();
        for key in keys {
            state.note(key, self.number(key));
        }
    }

    /// The filter of codes known by name, for the edges; `None` before all keys were scanned.
    #[must_use]
    pub fn code_filter(&self) -> Option<CodeFilter> {
        self.state().complete.as_ref()?.codes.filter()
    }

    /// Completes the scan without keys.
    #[cfg(test)]
    pub(crate) fn complete_for_tests(&self) {
        self.state().complete = Some(KeyFilters::new().unwrap());
    }

    fn state(&self) -> MutexGuard<'_, ScanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a key's code; `None` if it has not the shape of a generated one.
    fn number(&self, key: &str) -> Option<u64> {
        let (_, code) = key.split_once('/')?;
        self.codes.number(code.as_bytes())
    }
}

impl KeyFilters {
    fn note(&mut self, key: &str, number: Option<u64>) {
        self.keys.insert_if_not_contained(key);
        if let Some((_, code)) = key.split_once('/') {
            self.codes.note(code, number);
        }
    }
}

impl ScanState {
    fn note(&mut self, key: &str, number: Option<u64>) {
        for sets in self.complete.iter_mut().chain(self.building.iter_mut()) {
            sets.note(key, number);
        }
    }
}

impl Membership for KnownKeys {
    /// `false` until all keys were scanned, so that the first code of a link is tried.
    fn may_contain(&self, key: &LinkKey) -> bool {
        let state = self.state();
        let complete = state.complete.as_ref();
        complete.is_some_and(|sets| sets.keys.contains(key.to_string().as_str()))
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
                let ScanState { complete, building } = &mut *state;
                for sets in complete.iter_mut().chain(building) {
                    sets.codes.note_bound(beat.bound);
                }
            }
            FeedMessage::Flush => self.invalidate_all(),
            FeedMessage::Del { .. } => {}
        }
    }

    fn invalidate_all(&self) {
        let mut state = self.state();
        state.complete = None;
        state.building = None;
        self.outdated.notify_one();
    }
}

/// Fills a [`KnownKeys`] at the start and whenever the feed has missed a change.
pub struct KeyScanner {
    known: Arc<KnownKeys>,
    store: Arc<Store>,
}

impl KeyScanner {
    /// A scan that has not begun. The feed has to be followed before it runs: it carries the links created meanwhile.
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
            tracing::warn!(%error, "scanning all keys failed: retrying");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn scan(&self) -> Result<(), StoreError> {
        let bound = self.store.bound_state().await?.bound;
        let Ok(mut sets) = KeyFilters::new() else {
            // The system has no random numbers, and other code fails first.
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
                // Invalidated meanwhile: the notification starts the next scan.
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

    /// A page of keys after `after`, retried until it is there: earlier pages are not lost.
    async fn page(&self, after: Option<u64>) -> Vec<ScannedKey> {
        loop {
            match self.store.scan_keys(after, PAGE).await {
                Ok(page) => return page,
                Err(error) => {
                    tracing::warn!(%error, "reading a page of the scan of all keys failed: retrying");
                    tokio::time::sleep(RETRY_PAUSE).await;
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
        known.invalidate_all();
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
