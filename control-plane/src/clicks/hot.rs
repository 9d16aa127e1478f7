//! The links followed most in the last minutes: found by the replica that publishes, and told to all edges.

use crate::clock;
use crate::relay::{Leadership, Outlet, RelayError};
use crate::store::{Store, StoreError};
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{LinkKey, Record};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Which links are hot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotOptions {
    /// How many of them there are at most.
    pub count: u32,
    /// How many minutes count.
    pub window_minutes: u64,
    /// How often they are found.
    pub period: Duration,
}

/// The hot links of a store.
pub async fn hot_links(
    store: &dyn Store,
    options: &HotOptions,
) -> Result<Vec<(String, Record<String>)>, StoreError> {
    let minute = (clock::unix_seconds() / 60).saturating_sub(options.window_minutes);
    let mut links = Vec::new();
    for text in store.hot_keys(minute, options.count).await? {
        // What edges count and what is no key of ours stays out.
        let Ok(key) = text.parse::<LinkKey>() else {
            continue;
        };
        let record = store.resolve(&key).await?;
        if matches!(record, Record::Link(_)) {
            links.push((text, record));
        }
    }
    Ok(links)
}

/// Publishes the hot links.
pub struct HotLinks {
    store: Arc<dyn Store>,
    outlet: Arc<Outlet>,
    leadership: Leadership,
    options: HotOptions,
    /// Those that were hot the last time.
    known: HashSet<String>,
}

impl HotLinks {
    /// Works while this replica publishes.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        outlet: Arc<Outlet>,
        leadership: Leadership,
        options: HotOptions,
    ) -> Self {
        Self {
            store,
            outlet,
            leadership,
            options,
            known: HashSet::new(),
        }
    }

    /// Publishes until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut period = interval(self.options.period);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = period.tick() => {}
            }
            if !self.leadership.is_ours() {
                self.known.clear();
                continue;
            }
            if let Err(error) = self.publish().await {
                tracing::warn!(%error, "the hot links are not published this time");
            }
        }
    }

    /// Tells the edges of those that have become hot.
    async fn publish(&mut self) -> Result<(), RelayError> {
        let links = hot_links(self.store.as_ref(), &self.options).await?;
        let messages: Vec<FeedMessage<'_>> = links
            .iter()
            .filter(|(key, _)| !self.known.contains(key))
            .map(|(key, record)| FeedMessage::Put {
                key,
                record: record.as_deref(),
                hot: true,
            })
            .collect();
        if !messages.is_empty() {
            self.outlet.send(&messages).await?;
        }
        self.known = links.into_iter().map(|(key, _)| key).collect();
        Ok(())
    }
}
