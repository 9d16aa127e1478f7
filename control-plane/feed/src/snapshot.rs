//! Snapshots: initial state of edge workers.

use crate::resolve::KnownKeys;
use crate::{Feed, FeedError};
use bytes::Bytes;
use edgelink_clicks::{HotLink, hot_links};
use edgelink_settings::config::ClicksConfig;
use edgelink_settings::domains::model::DomainRow;
use edgelink_store::{Store, StoreError};
use edgelink_wire::domain_record::domain_key;
use edgelink_wire::snapshot::{MAX_DOMAINS, MAX_HOT, MAX_HOT_BYTES};
use edgelink_wire::{CodeLength, Domain, Entry, PermutationKey, Record, Snapshot};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time for which a complete snapshot is reused, because many workers start at once.
const LIFETIME: Duration = Duration::from_secs(1);

/// The settings that every snapshot carries.
#[derive(Clone, Debug)]
pub struct SnapshotSettings {
    /// The length of generated codes.
    pub length: CodeLength,
    /// The key of generated codes.
    pub key: Option<PermutationKey>,
    /// The domains, the default one first.
    pub domains: Vec<Domain>,
    /// Settings of hot links.
    pub clicks: ClicksConfig,
}

/// Builds snapshots, and keeps the last one.
pub struct Snapshots {
    maker: Arc<SnapshotMaker>,
    last: SingleFlight<Result<Bytes, Arc<SnapshotError>>>,
}

/// The sources of snapshots.
struct SnapshotMaker {
    store: Arc<Store>,
    known_keys: Arc<KnownKeys>,
    feed: Arc<Feed>,
    settings: SnapshotSettings,
}

/// The error of a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The scan of the keys is not complete yet.
    #[error("not all keys are known yet")]
    NotReady,
    /// The feed is not current.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Snapshots {
    /// Creates a builder of snapshots of `store`, `known_keys` and `feed`.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        known_keys: Arc<KnownKeys>,
        feed: Arc<Feed>,
        settings: SnapshotSettings,
    ) -> Self {
        let maker = Arc::new(SnapshotMaker {
            store,
            known_keys,
            feed,
            settings,
        });
        Self {
            maker,
            last: SingleFlight::default(),
        }
    }

    /// Returns an encoded snapshot that is being built, or was complete at most a second ago, while the feed is current: from it an edge
    /// continues with the feed.
    ///
    /// # Errors
    /// [`SnapshotError`] if a source is unavailable.
    pub async fn get(&self) -> Result<Bytes, Arc<SnapshotError>> {
        let generation = self.maker.generation()?;
        let maker = Arc::clone(&self.maker);
        let make = async move { maker.make(generation).await.map_err(Arc::new) };
        let made = self.last.get(generation, make, Result::is_ok).await;
        // The task has ended without an outcome: the process stops.
        made.unwrap_or_else(|| Err(Arc::new(SnapshotError::NotReady)))
    }
}

/// A value that is built once for all concurrent callers, however long that takes, independently of each of them.
#[derive(Debug)]
struct SingleFlight<T>(Mutex<Option<GenerationValue<T>>>);

/// A value built, or being built, in a generation.
#[derive(Debug)]
struct GenerationValue<T> {
    generation: u64,
    /// The value, and the time of its completion.
    made: watch::Receiver<Option<(Instant, T)>>,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Returns the generation's value that is being built, or was complete recently and is `usable`; otherwise builds one with `make`.
    /// `None` if that is aborted.
    async fn get(
        &self,
        generation: u64,
        make: impl Future<Output = T> + Send + 'static,
        usable: fn(&T) -> bool,
    ) -> Option<T> {
        let mut made = self.share(generation, make, usable);
        let made = made.wait_for(Option::is_some).await.ok()?;
        made.as_ref().map(|(_, value)| value.clone())
    }

    fn share(
        &self,
        generation: u64,
        make: impl Future<Output = T> + Send + 'static,
        usable: fn(&T) -> bool,
    ) -> watch::Receiver<Option<(Instant, T)>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = last
            .as_ref()
            .filter(|value| value.generation == generation && value.is_usable(usable));
        if let Some(value) = shared {
            return value.made.clone();
        }
        let (sender, made) = watch::channel(None);
        tokio::spawn(async move {
            let value = make.await;
            sender.send_replace(Some((Instant::now(), value)));
        });
        *last = Some(GenerationValue {
            generation,
            made: made.clone(),
        });
        made
    }
}

impl<T> GenerationValue<T> {
    fn is_usable(&self, usable: fn(&T) -> bool) -> bool {
        match &*self.made.borrow() {
            Some((at, value)) => usable(value) && at.elapsed() < LIFETIME,
            None => self.made.has_changed().is_ok(),
        }
    }
}

impl SnapshotMaker {
    fn generation(&self) -> Result<u64, SnapshotError> {
        let current = self.feed.current().ok_or(FeedError::NotCurrent)?;
        Ok(current.generation)
    }

    /// Builds a snapshot. The position is read first: later changes follow in the feed, and may be in the snapshot already.
    async fn make(&self, generation: u64) -> Result<Bytes, SnapshotError> {
        let (found, position) = self.feed.place();
        let codes = self
            .known_keys
            .code_filter()
            .ok_or(SnapshotError::NotReady)?;
        let bound = self.store.bound_state().await?.bound;
        let domain_records = self.domain_records().await?;
        let hot = hot_links(&self.store, &self.settings.clicks).await?;
        // Another generation has begun: the codes may belong to the previous one.
        if found != generation || self.generation()? != generation {
            return Err(FeedError::NotCurrent.into());
        }
        let domains = self.settings.domains.iter().take(MAX_DOMAINS);
        let snapshot = Snapshot {
            generation,
            position,
            bound,
            length: self.settings.length,
            key: self.settings.key.clone(),
            domains: domains.map(Domain::as_str).collect(),
            codes,
            hot: carried(&domain_records, &hot),
        };
        Ok(snapshot.to_bytes().into())
    }

    /// Keys and records of the domains that edges have to know.
    async fn domain_records(&self) -> Result<Vec<(String, Record<String>)>, StoreError> {
        let rows = self.store.domains().await?;
        let configured = &self.settings.domains;
        let is_needed = |row: &DomainRow| row.is_in_effect() || configured.contains(&row.domain);
        let rows = rows.iter().filter(|row| is_needed(row));
        let entry = |row: &DomainRow| (domain_key(&row.domain), row.record());
        Ok(rows.map(entry).collect())
    }
}

fn entries(links: &[HotLink]) -> impl Iterator<Item = Entry<'_>> {
    links.iter().map(|(key, record)| Entry {
        key: key.as_bytes(),
        record: record.as_deref(),
    })
}

/// The records of all domains, without which edges would take their hosts for unknown, and the hot links that fit in after them.
fn carried<'a>(domains: &'a [HotLink], hot: &'a [HotLink]) -> Vec<Entry<'a>> {
    let size = |entry: &Entry<'_>| {
        let mut buffer = Vec::new();
        entry.encode(&mut buffer);
        buffer.len()
    };
    let of_domains: usize = entries(domains).map(|entry| size(&entry)).sum();
    let mut room = MAX_HOT_BYTES.checked_sub(of_domains);
    let fitting = entries(hot).take_while(|entry| {
        room = room.and_then(|room| room.checked_sub(size(entry)));
        room.is_some()
    });
    entries(domains).chain(fitting).take(MAX_HOT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::DomainTargets;
    use edgelink_wire::FeedPosition;
    use edgelink_wire::code_filter::CodeFilter;
    use edgelink_wire::domain_record::MAX_DOMAIN_RECORDS;
    use edgelink_wire::record::MAX_DOMAIN_TARGET_LENGTH;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::time::{advance, sleep};

    /// Longest snapshot that an edge accepts by default.
    const MAX_BYTES: usize = 16 << 20;

    fn domains(count: usize, target_length: usize) -> Vec<HotLink> {
        let target = format!("{:x<target_length$}", "https://e.com/");
        let targets = DomainTargets {
            root: Some(target.as_str()),
            not_found: Some(&target),
            expired: Some(&target),
        };
        let made = (0..count).map(|number| Domain::parse(&format!("{number}.example")).unwrap());
        made.map(|domain| (domain_key(&domain), targets.record(&domain, 1)))
            .collect()
    }

    /// Asks for the value of a generation, which takes long, and equals the number of builds begun.
    async fn ask(last: &SingleFlight<u32>, begun: &Arc<AtomicU32>, generation: u64) -> Option<u32> {
        let begun = Arc::clone(begun);
        let make = async move {
            let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
            sleep(LIFETIME * 5).await;
            number
        };
        last.get(generation, make, |number| *number != 3).await
    }

    #[tokio::test(start_paused = true)]
    async fn value_when_slow_is_built_once_for_all_callers() {
        let last = SingleFlight::default();
        let begun = Arc::new(AtomicU32::new(0));
        let ask = |generation| ask(&last, &begun, generation);
        // The first caller leaves before the value is built.
        assert!(tokio::time::timeout(LIFETIME * 3, ask(7)).await.is_err());
        let (one, other) = tokio::join!(ask(7), ask(7));
        assert_eq!((one, other), (Some(1), Some(1)));
        advance(LIFETIME / 2).await;
        assert_eq!(ask(7).await, Some(1));
        advance(LIFETIME).await;
        assert_eq!(ask(7).await, Some(2));
        // Another generation.
        assert_eq!(ask(8).await, Some(3));
        // An unusable value is not returned again.
        assert_eq!(ask(8).await, Some(4));
    }

    #[test]
    fn snapshot_when_full_keeps_domains_before_hot_links() {
        let hot = domains(2_000, 1_000);
        for (count, length, all_hot, any_hot) in [
            (0, 100, false, true),
            (3, 100, false, true),
            (MAX_DOMAIN_RECORDS, 100, false, true),
            (MAX_DOMAIN_RECORDS, MAX_DOMAIN_TARGET_LENGTH, false, false),
        ] {
            let made = domains(count, length);
            let snapshot = Snapshot {
                generation: 1,
                position: FeedPosition::default(),
                bound: 1,
                length: CodeLength::DEFAULT,
                key: None,
                domains: Vec::new(),
                codes: CodeFilter::with_capacity(1).unwrap(),
                hot: carried(&made, &hot),
            };
            let bytes = snapshot.to_bytes();
            assert!(bytes.len() < MAX_BYTES / 2, "{count} {}", bytes.len());
            let read = Snapshot::decode(&bytes).unwrap();
            let keys =
                |links: &[HotLink]| links.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
            let carried: Vec<String> = read
                .hot
                .iter()
                .map(|entry| String::from_utf8(entry.key.into()).unwrap())
                .collect();
            assert_eq!(carried[..count], keys(&made));
            let hot_ones = carried.len() - count;
            assert_eq!(
                (hot_ones == hot.len(), hot_ones > 0),
                (all_hot, any_hot),
                "{count}"
            );
        }
        assert_eq!(carried(&[], &hot[..5]).len(), 5);
    }
}
