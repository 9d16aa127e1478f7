//! The links followed most in the last minutes: found by the replica that publishes, and told to all edges.

use crate::clock;
use crate::config::ClicksConfig;
use crate::store::{Store, StoreError};
use edgelink_wire::{LinkKey, Record};

/// The hot links of a store.
pub async fn hot_links(
    store: &Store,
    config: &ClicksConfig,
) -> Result<Vec<(String, Record<String>)>, StoreError> {
    let minute = (clock::unix_seconds() / 60).saturating_sub(config.hot_window_minutes);
    let mut links = Vec::new();
    for text in store.hot_keys(minute, config.hot_count).await? {
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
