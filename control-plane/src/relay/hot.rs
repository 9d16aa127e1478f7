//! The hot links, told to all edges by the publisher.
//!
//! They are read beside the publisher's loop, because that takes time, and appended in it. A link that was changed meanwhile
//! is left out: what was read of it may be older than what is on the feed already.

use crate::clicks::hot_links;
use crate::config::ClicksConfig;
use crate::store::{Store, StoreError};
use edgelink_wire::Record;
use edgelink_wire::feed::FeedMessage;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// With more links changed while the hot ones are read, these are read again later.
const MAX_CHANGED: usize = 100_000;

/// The hot links.
pub(super) struct HotLinks {
    store: Arc<Store>,
    config: ClicksConfig,
    next: Instant,
    reading: Option<Reading>,
    /// Those that were hot the last time.
    known: HashSet<String>,
}

struct Reading {
    task: JoinHandle<Result<Vec<HotLink>, StoreError>>,
    /// The links that were changed since it began.
    changed: HashSet<String>,
}

/// A hot link.
pub(super) type HotLink = (String, Record<String>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HotLinks {
    pub(super) fn new(store: Arc<Store>, config: ClicksConfig) -> Self {
        Self {
            store,
            config,
            next: Instant::now(),
            reading: None,
            known: HashSet::new(),
        }
    }

    /// Another process publishes.
    pub(super) fn forget(&mut self) {
        self.reading = None;
        self.known.clear();
    }

    /// Notes what is published.
    pub(super) fn note(&mut self, messages: &[FeedMessage<'_>]) {
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

    /// The links that have become hot, once they are read; begins to read them where it is time to.
    pub(super) async fn take(&mut self) -> Vec<HotLink> {
        match self.reading.take_if(|reading| reading.task.is_finished()) {
            Some(reading) => self.finish(reading).await,
            None => {
                self.begin();
                Vec::new()
            }
        }
    }

    fn begin(&mut self) {
        let now = Instant::now();
        if self.reading.is_some() || now < self.next {
            return;
        }
        self.next = now + self.config.hot_period_ms;
        let (store, options) = (self.store.clone(), self.config.clone());
        let task = tokio::spawn(async move { hot_links(store.as_ref(), &options).await });
        self.reading = Some(Reading {
            task,
            changed: HashSet::new(),
        });
    }

    async fn finish(&mut self, mut reading: Reading) -> Vec<HotLink> {
        let links = match (&mut reading.task).await {
            Ok(Ok(links)) => links,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the hot links are not published this time");
                return Vec::new();
            }
            Err(_) => return Vec::new(),
        };
        let known = links.iter().map(|(key, _)| key.clone()).collect();
        let before = std::mem::replace(&mut self.known, known);
        let is_news = |key: &String| !before.contains(key) && !reading.changed.contains(key);
        links.into_iter().filter(|(key, _)| is_news(key)).collect()
    }
}
