//! The known keys: a filter of all keys that ever existed, and one of the codes that edges cannot check by their number.
//! Both are built by a background scan of the database, and kept up to date by the feed.
//!
//! Deleted links stay until the next start: an absence needs the revision of the deletion, which only the database has.
//! So no key is ever removed, and no existing key is denied.

use super::known_codes::KnownCodes;
use crate::Listener;
use async_trait::async_trait;
use edgelink_numbers::Membership;
use edgelink_store::{DomainNames, ScanProgress, ScannedKey, Store, StoreError};
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{CodeFilter, CodeSpace, LinkKey, RecordError};
use futures_util::FutureExt;
use rand_09::SeedableRng;
use rand_09::rngs::SmallRng;
use scalable_cuckoo_filter::{ScalableCuckooFilter, ScalableCuckooFilterBuilder};
use std::hash::{BuildHasher, DefaultHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Initial capacity of the filter of keys; it grows by itself.
const INITIAL_KEYS: usize = 100_000;

/// False-positive rate: the share of absent keys that are taken for existing ones.
const FALSE_POSITIVES: f64 = 0.001;

/// Largest and smallest page of the scan; pages shrink when they are late.
const LARGEST_PAGE: u32 = 5_000;
const SMALLEST_PAGE: u32 = 50;

/// Keys that are added under one lock, before lookups get their turn.
const AT_ONCE: usize = 250;

/// Consecutive pages in time after which pages grow.
const IN_TIME: u32 = 8;

/// A page that takes longer is late.
const LATE: Duration = Duration::from_millis(500);

/// Interval between records of the scan's progress in the database.
const NOTE_PAUSE: Duration = Duration::from_secs(1);

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
            // Keyed randomly, so that collisions of chosen aliases cannot be computed.
            .hasher(RandomState::new().build_hasher())
            // It only chooses which entry makes room.
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
    progress: ScanProgress,
}

/// Filters of existing keys, which spare queries of the database.
pub struct KnownKeys {
    codes: CodeSpace,
    state: Mutex<ScanState>,
    /// Notified when all keys have to be scanned again.
    outdated: Notify,
}

impl KnownKeys {
    /// Creates empty filters, which a scan has to fill.
    #[must_use]
    pub fn new(codes: CodeSpace) -> Self {
        let known = Self {
            codes,
            state: Mutex::new(ScanState {
                complete: None,
                building: None,
                progress: ScanProgress::default(),
            }),
            outdated: Notify::new(),
        };
        known.outdated.notify_one();
        known
    }

    /// True if the key may exist. `false` only if no such row is committed up to the feed's position.
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

    /// The filter of individually known codes, for the edges; `None` before all keys are scanned.
    #[must_use]
    pub fn code_filter(&self) -> Option<CodeFilter> {
        self.state().complete.as_ref()?.codes.filter()
    }

    /// Progress of the scan.
    #[must_use]
    pub fn progress(&self) -> ScanProgress {
        self.state().progress
    }

    /// Begins a scan, which satisfies all earlier requests for one; `false` if that fails.
    fn begin(&self) -> bool {
        let mut state = self.state();
        state.building = KeyFilters::new().ok();
        let _called_for = self.outdated.notified().now_or_never();
        state.building.is_some()
    }

    /// Records a published bound.
    fn note_bound(&self, bound: u64) {
        let mut state = self.state();
        let ScanState {
            complete, building, ..
        } = &mut *state;
        for sets in complete.iter_mut().chain(building) {
            sets.codes.note_bound(bound);
        }
    }

    /// Adds scanned keys; `false` if all have to be scanned again.
    fn add(&self, scanned: &[ScannedKey], progress: ScanProgress) -> bool {
        let mut state = self.state();
        let Some(sets) = &mut state.building else {
            return false;
        };
        for scanned in scanned {
            sets.note(&scanned.key, self.number(&scanned.key));
        }
        state.progress = progress;
        true
    }

    /// Ends the scan, unless all keys have to be scanned again.
    fn complete(&self, progress: ScanProgress) {
        let mut state = self.state();
        if let Some(sets) = state.building.take() {
            tracing::info!(keys = sets.keys.len(), "all keys are known");
            state.complete = Some(sets);
            state.progress = ScanProgress {
                is_complete: true,
                share: 1.0,
                ..progress
            };
        }
    }

    /// Completes the scan without keys.
    #[cfg(test)]
    pub(crate) fn complete_for_tests(&self) {
        self.state().complete = Some(KeyFilters::new().unwrap());
    }

    fn state(&self) -> MutexGuard<'_, ScanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a key's code; `None` if it does not have the form of a generated one.
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
            FeedMessage::Beat(beat) => self.note_bound(beat.bound),
            FeedMessage::Flush => self.invalidate_all(),
            FeedMessage::Del { .. } => {}
        }
    }

    fn invalidate_all(&self) {
        let mut state = self.state();
        state.complete = None;
        state.building = None;
        state.progress = ScanProgress::default();
        self.outdated.notify_one();
    }
}

/// Fills a [`KnownKeys`] at the start and whenever the feed has missed a change.
pub struct KeyScanner {
    known: Arc<KnownKeys>,
    store: Arc<Store>,
    /// A name unique to this process.
    process: String,
    noted: Option<Instant>,
}

impl KeyScanner {
    /// Creates a scan that has not begun. The feed has to be followed before it runs: it carries the links created meanwhile.
    #[must_use]
    pub fn new(known: Arc<KnownKeys>, store: Arc<Store>) -> Self {
        Self {
            known,
            store,
            process: format!("{}-{:016x}", std::process::id(), rand::random::<u64>()),
            noted: None,
        }
    }

    /// Scans until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
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

    async fn scan_until_done(&mut self) {
        while let Err(error) = self.scan().await {
            tracing::warn!(%error, "scanning all keys failed; retrying");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn scan(&mut self) -> Result<(), StoreError> {
        if !self.known.begin() {
            // Without random numbers from the system, other code fails first.
            return Ok(());
        }
        let bound = self.store.bound_state().await?.bound;
        self.known.note_bound(bound);
        let links = self.store.estimated_links().await?;
        let store = self.store.clone();
        let mut pages = KeyScan::new(&*store, links);
        while let Some(page) = pages.next().await {
            if !self.add(&page, pages.progress()).await {
                // Invalidated meanwhile: the notification starts the next scan.
                return Ok(());
            }
            if self.noted.is_none_or(|noted| noted.elapsed() > NOTE_PAUSE) {
                self.note_progress().await;
            }
        }
        self.known.complete(pages.progress());
        self.note_progress().await;
        Ok(())
    }

    /// Records the scan's progress in the database, for `edgelink doctor`. The scan does not depend on it.
    async fn note_progress(&mut self) {
        let progress = self.known.progress();
        if let Err(error) = self.store.note_scan(&self.process, &progress).await {
            tracing::warn!(%error, "recording the progress of the key scan failed; the scan continues");
        }
        self.noted = Some(Instant::now());
    }

    /// Adds a page; `false` if all keys have to be scanned again. Lookups, which use the same filters, wait for a part of it at most.
    async fn add(&self, page: &[ScannedKey], progress: ScanProgress) -> bool {
        for part in page.chunks(AT_ONCE) {
            if !self.known.add(part, progress) {
                return false;
            }
            tokio::task::yield_now().await;
        }
        true
    }
}

/// The pages of a scan, in sequence. After a failed or late one, pages shrink, and then grow again; earlier pages are not lost.
struct KeyScan<'s, S: ?Sized> {
    source: &'s S,
    names: DomainNames,
    after: Option<u64>,
    /// Approximate number of keys.
    all: u64,
    size: u32,
    /// Consecutive pages in time.
    in_time: u32,
    keys: u64,
}

/// Source of pages; a fake in tests.
#[async_trait]
trait PageSource: Send + Sync {
    /// See [`Store::scan_keys`].
    async fn page(
        &self,
        names: &mut DomainNames,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedKey>, StoreError>;
}

#[async_trait]
impl PageSource for Store {
    async fn page(
        &self,
        names: &mut DomainNames,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedKey>, StoreError> {
        self.scan_keys(names, after, limit).await
    }
}

impl<'s, S: PageSource + ?Sized> KeyScan<'s, S> {
    fn new(source: &'s S, all: u64) -> Self {
        Self {
            source,
            names: DomainNames::default(),
            after: None,
            all,
            size: LARGEST_PAGE,
            in_time: 0,
            keys: 0,
        }
    }

    /// Reads the next page, retrying until it succeeds; `None` after the last one.
    async fn next(&mut self) -> Option<Vec<ScannedKey>> {
        loop {
            let started = Instant::now();
            let page = self.source.page(&mut self.names, self.after, self.size);
            match page.await {
                Ok(page) => {
                    if started.elapsed() > LATE {
                        self.shrink();
                    } else {
                        self.grow();
                    }
                    let last = page.last()?;
                    self.after = Some(last.id);
                    self.keys += page.len() as u64;
                    return Some(page);
                }
                Err(error) => {
                    self.shrink();
                    tracing::warn!(%error, keys = self.keys, size = self.size, "reading a page of the scan of all keys failed: retrying with a smaller one");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Shrinks pages after a failed or late one.
    fn shrink(&mut self) {
        self.size = (self.size / 2).max(SMALLEST_PAGE);
        self.in_time = 0;
    }

    /// Counts a page in time; after some of them, pages grow.
    fn grow(&mut self) {
        self.in_time += 1;
        if self.in_time >= IN_TIME {
            self.size = (self.size * 2).min(LARGEST_PAGE);
            self.in_time = 0;
        }
    }

    fn progress(&self) -> ScanProgress {
        let all = self.all.max(self.keys).max(1);
        ScanProgress {
            is_complete: false,
            keys: self.keys,
            share: self.keys as f64 / all as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::feed::Beat;
    use edgelink_wire::record::RecordBytes;
    use edgelink_wire::{CodeLength, Record};

    fn known() -> KnownKeys {
        KnownKeys::new(CodeSpace::new(CodeLength::DEFAULT, None))
    }

    fn complete(known: &KnownKeys) {
        known.complete_for_tests();
    }

    fn put(key: &str) -> FeedMessage<'_> {
        let record = Record::Absent { rev: 1 };
        let record = RecordBytes::new(&record, &*record.to_bytes().leak());
        FeedMessage::Put {
            key,
            record,
            hot: false,
        }
    }

    #[test]
    fn key_when_scan_is_incomplete_is_not_denied() {
        let known = known();
        assert!(known.may_have("a.example/x"));
        assert!(known.code_filter().is_none());
        complete(&known);
        assert!(!known.may_have("a.example/x"));
        known.invalidate_all();
        assert!(known.may_have("a.example/x"));
    }

    #[test]
    fn key_when_deleted_by_the_feed_stays_known() {
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
    fn link_when_keys_are_scanned_is_known_to_exist() {
        let known = known();
        let (there, absent) = ("a.example/x".parse(), "a.example/y".parse());
        let (there, absent): (LinkKey, LinkKey) = (there.unwrap(), absent.unwrap());
        assert!(!known.may_contain(&there));
        complete(&known);
        known.apply(&put("a.example/x"));
        assert!(known.may_contain(&there) && !known.may_contain(&absent));
    }

    #[test]
    fn alias_when_applied_is_in_the_filter_at_once() {
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

    #[test]
    fn scan_when_called_for_during_one_is_repeated() {
        let known = known();
        known.invalidate_all();
        assert!(known.begin());
        let is_wanted = || known.outdated.notified().now_or_never().is_some();
        assert!(!is_wanted(), "one scan is enough");
        assert!(known.add(&[], ScanProgress::default()));
        known.invalidate_all();
        assert!(!known.add(&[], ScanProgress::default()));
        known.complete(ScanProgress::default());
        assert!(known.code_filter().is_none());
        assert!(is_wanted());
        known.begin();
        known.complete(ScanProgress::default());
        assert!(known.progress().is_complete && known.code_filter().is_some());
    }

    /// Keys with the numbers from 1 on, at most `at_once` to a page.
    struct SlowSource {
        keys: u64,
        at_once: u32,
        beyond: Beyond,
        asked: Mutex<Vec<u32>>,
    }

    /// Behaviour for a larger page.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Beyond {
        Fails,
        IsLate,
    }

    impl SlowSource {
        fn new(at_once: u32, beyond: Beyond) -> Self {
            Self {
                keys: 40_000,
                at_once,
                beyond,
                asked: Mutex::default(),
            }
        }

        fn asked(&self) -> Vec<u32> {
            self.asked.lock().unwrap().clone()
        }
    }

    #[async_trait]
    impl PageSource for SlowSource {
        async fn page(
            &self,
            _: &mut DomainNames,
            after: Option<u64>,
            limit: u32,
        ) -> Result<Vec<ScannedKey>, StoreError> {
            self.asked.lock().unwrap().push(limit);
            if limit > self.at_once && self.beyond == Beyond::Fails {
                return Err(StoreError {
                    context: "scanning the keys",
                    transient: true,
                    source: "no answer in time".into(),
                });
            }
            if limit > self.at_once {
                tokio::time::sleep(LATE * 2).await;
            }
            let first = after.unwrap_or(0) + 1;
            let last = (after.unwrap_or(0) + u64::from(limit)).min(self.keys);
            let key = |id| ScannedKey {
                id,
                key: format!("a.example/{id}"),
            };
            Ok((first..=last).map(key).collect())
        }
    }

    async fn scan(source: &SlowSource) -> (Vec<u64>, Vec<ScanProgress>) {
        let mut pages = KeyScan::new(source, source.keys);
        let (mut ids, mut progress) = (Vec::new(), Vec::new());
        while let Some(page) = pages.next().await {
            ids.extend(page.iter().map(|scanned| scanned.id));
            progress.push(pages.progress());
        }
        (ids, progress)
    }

    #[tokio::test(start_paused = true)]
    async fn page_when_it_fails_or_is_late_is_followed_by_smaller() {
        for beyond in [Beyond::Fails, Beyond::IsLate] {
            let source = SlowSource::new(1_000, beyond);
            let (ids, progress) = scan(&source).await;
            assert_eq!(ids, (1..=source.keys).collect::<Vec<_>>());
            let asked = source.asked();
            assert_eq!(asked[..5], [5_000, 2_500, 1_250, 625, 625], "{beyond:?}");
            let again = asked[4..].iter().position(|size| *size > 625);
            assert_eq!(again, Some(IN_TIME as usize - 1), "it becomes larger again");
            assert!(asked.iter().all(|size| *size <= LARGEST_PAGE));
            assert!(progress.is_sorted_by(|one, next| one.keys < next.keys));
            let last = progress.last().unwrap();
            assert_eq!((last.keys, last.share), (source.keys, 1.0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn page_when_reads_are_late_stays_above_the_least_size() {
        let source = SlowSource::new(SMALLEST_PAGE, Beyond::IsLate);
        let (ids, _) = scan(&source).await;
        assert_eq!(ids.len() as u64, source.keys);
        assert_eq!(source.asked().iter().min(), Some(&SMALLEST_PAGE));
    }
}
