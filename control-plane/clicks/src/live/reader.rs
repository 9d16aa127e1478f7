//! Decoding of reports for listeners.

use crate::analytics::{Click, LinkResolver, read_live};
use bytes::Bytes;
use edgelink_store::{Store, StoreError};
use std::collections::HashMap;
use std::sync::Arc;

/// Decodes reports like the click writer.
pub struct LiveReader {
    store: Arc<Store>,
    resolver: Arc<LinkResolver>,
}

/// A decoded report for listeners.
#[derive(Default)]
pub(super) struct ReadReport {
    pub(super) clicks: Vec<Click>,
    /// The owners of links, if a listener needs them.
    pub(super) owners: HashMap<u64, Option<u64>>,
}

impl LiveReader {
    /// Creates a reader that resolves links in a store.
    pub fn new(store: Arc<Store>, resolver: Arc<LinkResolver>) -> Self {
        Self { store, resolver }
    }

    /// Decodes a report.
    pub(super) async fn read(
        &self,
        report: &Bytes,
        needs_owners: bool,
    ) -> Result<ReadReport, StoreError> {
        let clicks = read_live(report, &self.resolver).await?;
        let mut owners = HashMap::new();
        if needs_owners {
            let mut ids: Vec<u64> = clicks.iter().map(|click| click.link_id).collect();
            ids.sort_unstable();
            ids.dedup();
            owners = self.store.link_owners(&ids).await?;
        }
        Ok(ReadReport { clicks, owners })
    }
}
