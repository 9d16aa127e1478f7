//! `edgelink sweep`: purges what has expired, once and now.

use crate::config::Config;
use crate::purge::Purger;
use crate::server;
use crate::store::StoreError;

/// Why nothing was purged.
#[derive(Debug, thiserror::Error)]
pub(super) enum SweepError {
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error("another process is purging right now")]
    Busy,
}

pub(super) async fn run(config: &Config) -> Result<(), SweepError> {
    let store = server::open_store(&config.store).await?;
    let purger = Purger::new(store, &config.purge, &config.clicks);
    let purged = purger.purge().await?.ok_or(SweepError::Busy)?;
    println!(
        "removed {} links past their validity, {} tombstones, {} receipts, {} counts of clicks",
        purged.links, purged.tombstones, purged.receipts, purged.clicks
    );
    Ok(())
}
