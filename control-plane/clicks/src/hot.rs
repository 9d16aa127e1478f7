//! Hot links: the most clicked ones of the last minutes. The publisher puts them on the feed.

use edgelink_settings::config::ClicksConfig;
use edgelink_store::{Store, StoreError};
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{LinkKey, Record};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Most links that may change during a read of the hot links; with more, they are read again later.
const MAX_CHANGED: usize = 100_000;

/// The key of a hot link, and its record.
pub type HotLink = (String, Record<String>);

/// The most hot links that are read together.
const PAGE: usize = 1_024;

/// Reads the hot links and their records, the hottest first.
pub async fn hot_links(store: &Store, config: &ClicksConfig) -> Result<Vec<HotLink>, StoreError> {
    // Reported keys that are no link keys are left out.
    let keys = store.clicks().hot_keys(config.hot_count).await?.into_iter();
    let keys: Vec<LinkKey> = keys.filter_map(|text| text.parse().ok()).collect();
    let mut links = Vec::with_capacity(keys.len());
    for keys in keys.chunks(PAGE) {
        let mut records: HashMap<LinkKey, _> =
            store.resolve_links(keys).await?.into_iter().collect();
        let found = keys
            .iter()
            .filter_map(|key| Some((key.to_string(), records.remove(key)?)));
        links.extend(found);
    }
    Ok(links)
}

/// The publisher's hot links. A task reads them, because that takes time, and the publisher's loop appends them. A link
/// that changes meanwhile is skipped: its record may be older than the feed.
pub struct HotLinks {
    store: Arc<Store>,
    config: ClicksConfig,
    next: Instant,
    reading: Option<HotReading>,
    /// The keys of the last hot links.
    known: HashSet<String>,
}

/// A read in progress.
struct HotReading {
    task: AbortOnDropHandle<Result<Vec<HotLink>, StoreError>>,
    /// The keys of links that have changed since it began.
    changed: HashSet<String>,
}

impl HotLinks {
    /// Creates it; nothing is read yet.
    #[must_use]
    pub fn new(store: Arc<Store>, config: ClicksConfig) -> Self {
        Self {
            store,
            config,
            next: Instant::now(),
            reading: None,
            known: HashSet::new(),
        }
    }

    /// Drops the hot links, because another process publishes.
    pub fn clear(&mut self) {
        self.reading = None;
        self.known.clear();
    }

    /// Notes published changes.
    pub fn note(&mut self, messages: &[FeedMessage<'_>]) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        for message in messages {
            match message {
                FeedMessage::Put { key, .. }
                | FeedMessage::Del { key, .. }
                | FeedMessage::Changed { key } => {
                    reading.changed.insert((*key).to_owned());
                }
                FeedMessage::Flush | FeedMessage::Beat(_) => {}
            }
        }
        if reading.changed.len() > MAX_CHANGED {
            self.reading = None;
        }
    }

    /// Returns newly hot links once they are read; starts a read if one is due.
    pub async fn take(&mut self) -> Vec<HotLink> {
        if let Some(reading) = self.reading.take_if(|reading| reading.task.is_finished()) {
            return self.finish(reading).await;
        }
        let now = Instant::now();
        if self.reading.is_none() && now >= self.next {
            self.next = now + self.config.hot_period_ms;
            let (store, options) = (self.store.clone(), self.config.clone());
            let task = tokio::spawn(async move { hot_links(&store, &options).await });
            self.reading = Some(HotReading {
                task: AbortOnDropHandle::new(task),
                changed: HashSet::new(),
            });
        }
        Vec::new()
    }

    async fn finish(&mut self, reading: HotReading) -> Vec<HotLink> {
        let links = match reading.task.await {
            Ok(Ok(links)) => links,
            Ok(Err(error)) => {
                tracing::warn!(%error, "reading the hot links failed; retrying with the next period");
                return Vec::new();
            }
            Err(_) => return Vec::new(),
        };
        let known = links.iter().map(|(key, _)| key.clone()).collect();
        let before = std::mem::replace(&mut self.known, known);
        let is_new = |key: &String| !before.contains(key) && !reading.changed.contains(key);
        links.into_iter().filter(|(key, _)| is_new(key)).collect()
    }
}
