//! The links followed most in the last minutes: found by the replica that publishes, and told to all edges.

use crate::clock;
use crate::store::{Store, StoreError};
use edgelink_wire::{LinkKey, Record};
use std::time::Duration;

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
    store: &Store,
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
