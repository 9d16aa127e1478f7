//! `edgelink sweep`: purges what has expired, once and now.

use crate::config::Config;
use crate::server;
use crate::store::StoreError;
use crate::sweeper::Sweeper;

/// Why nothing was removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SweepError {
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error("another process is sweeping right now")]
    Busy,
}

pub(super) async fn run(config: &Config) -> Result<(), SweepError> {
    let store = server::open_store(&config.store).await?;
    let sweeper = Sweeper::new(store, &config.sweeper, &config.clicks);
    let swept = sweeper.sweep().await?;
    let swept = swept.ok_or(SweepError::Busy)?;
    println!(
        "removed {} links past their validity, {} tombstones, {} receipts, {} counts of clicks",
        swept.links, swept.tombstones, swept.receipts, swept.clicks
    );
    Ok(())
}
