//! The domains that are in effect in this process.

use super::table::DomainTable;
use crate::feed::Listener;
use crate::store::{Store, StoreError};
use edgelink_wire::Domain;
use edgelink_wire::domain_record::domain_of_key;
use edgelink_wire::feed::FeedMessage;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The longest time between two reads of the domains: what the feed does not say is known that much later.
const PERIOD: Duration = Duration::from_secs(2);

/// The domains, kept up to date. While the database does not answer they are those of before.
pub(crate) struct Domains {
    configured: Arc<[Domain]>,
    current: RwLock<Arc<DomainTable>>,
    /// Notified when a domain has changed.
    changed: Notify,
}

impl Domains {
    /// The configured domains, until the others are read.
    pub(crate) fn new(configured: &[Domain]) -> Self {
        let configured: Arc<[Domain]> = configured.into();
        Self {
            current: RwLock::new(Arc::new(DomainTable::new(configured.clone(), Vec::new()))),
            configured,
            changed: Notify::new(),
        }
    }

    /// The domains, as they were when they were last read.
    pub(crate) fn current(&self) -> Arc<DomainTable> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// Reads the domains.
    pub(crate) async fn read(&self, store: &Store) -> Result<Arc<DomainTable>, StoreError> {
        let rows = store.domains().await?;
        let table = Arc::new(DomainTable::new(self.configured.clone(), rows));
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = table.clone();
        Ok(table)
    }

    /// Reads the domains whenever one changes, and from time to time, until `stop`.
    pub(crate) async fn follow(self: Arc<Self>, store: Arc<Store>, stop: CancellationToken) {
        let following = async {
            loop {
                let _ = tokio::time::timeout(PERIOD, self.changed.notified()).await;
                if let Err(error) = self.read(&store).await {
                    tracing::warn!(%error, "reading the domains failed: those of before stay in effect");
                    tokio::time::sleep(PERIOD).await;
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = following => {}
        }
    }
}

impl Listener for Domains {
    fn apply(&self, message: &FeedMessage<'_>) {
        match message {
            FeedMessage::Put { key, .. }
            | FeedMessage::Del { key, .. }
            | FeedMessage::Changed { key } => {
                if domain_of_key(key).is_some() {
                    self.changed.notify_one();
                }
            }
            FeedMessage::Flush => self.changed.notify_one(),
            FeedMessage::Beat(_) => {}
        }
    }

    fn invalidate_all(&self) {
        self.changed.notify_one();
    }
}
