//! Going through the database.

use super::{Catalog, Sets};
use crate::store::{ScannedKey, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How many keys are read at once.
const PAGE: u32 = 5_000;

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Fills a [`Catalog`], at first and whenever the feed has missed something.
pub struct Scanner {
    catalog: Arc<Catalog>,
    store: Arc<Store>,
}

impl Scanner {
    /// A scanner that has not begun. The feed has to be followed before it runs: what is created behind its back comes
    /// from there.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>, store: Arc<Store>) -> Self {
        Self { catalog, store }
    }

    /// Scans until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let scanning = async {
            loop {
                self.catalog.outdated.notified().await;
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
            tracing::warn!(%error, "the keys cannot be gone through: trying again");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn scan(&self) -> Result<(), StoreError> {
        let bound = self.store.bound_state().await?.bound;
        let Ok(mut sets) = Sets::new() else {
            // Without random numbers nothing else works either.
            return Ok(());
        };
        sets.codes.note_bound(bound);
        self.catalog.state().building = Some(sets);
        let mut after = None;
        loop {
            let page = self.page(after).await;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            if !self.add(&page) {
                // Outdated meanwhile: begun again by the notification.
                return Ok(());
            }
        }
        let mut state = self.catalog.state();
        if let Some(sets) = state.building.take() {
            tracing::info!(keys = sets.keys.len(), "all keys are known");
            state.complete = Some(sets);
        }
        Ok(())
    }

    /// The keys behind `after`, asked for until they are there: what was gone through before is not lost.
    async fn page(&self, after: Option<u64>) -> Vec<ScannedKey> {
        loop {
            match self.store.scan_keys(after, PAGE).await {
                Ok(page) => return page,
                Err(error) => {
                    tracing::warn!(%error, "some keys cannot be gone through: trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn add(&self, page: &[ScannedKey]) -> bool {
        let mut state = self.catalog.state();
        let Some(sets) = &mut state.building else {
            return false;
        };
        for scanned in page {
            sets.note(&scanned.key, self.catalog.number(&scanned.key));
        }
        true
    }
}
