//! Reads reports for the listeners.

use crate::analytics::{Click, LinkResolver, read_live};
use crate::store::{Store, StoreError};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;

/// Reads reports as the click writer does.
pub(crate) struct LiveReader {
    store: Arc<Store>,
    resolver: Arc<LinkResolver>,
}

/// What a report has for listeners.
#[derive(Default)]
pub(super) struct ReadReport {
    pub(super) clicks: Vec<Click>,
    /// The owners of links, if a listener asks for them.
    pub(super) owners: HashMap<u64, Option<u64>>,
}

impl LiveReader {
    /// A reader of reports about the links of a store.
    pub(crate) fn new(store: Arc<Store>, resolver: Arc<LinkResolver>) -> Self {
        Self { store, resolver }
    }

    /// Reads a report.
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
