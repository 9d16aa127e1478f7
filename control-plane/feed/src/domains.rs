//! The domains that are in effect in this process.

use super::Listener;
use edgelink_settings::domains::DomainTable;
use edgelink_store::{Store, StoreError};
use edgelink_wire::domain_record::domain_of_key;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{Domain, DomainSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Longest interval between reads of the domains: changes that the feed missed are known that much later.
const PERIOD: Duration = Duration::from_secs(2);

/// Age from which this process no longer denies unknown domains: one may have been created meanwhile.
const MAX_AGE: Duration = Duration::from_secs(5);

/// The domains, kept up to date. While the database does not answer, the previous ones stay.
pub struct Domains {
    configured: Arc<DomainSet>,
    current: RwLock<CurrentTable>,
    /// Notified when a domain has changed.
    changed: Notify,
}

struct CurrentTable {
    table: Arc<DomainTable>,
    /// Start of the last read; at first, start of this process.
    since: Instant,
    /// Set by the first read.
    is_read: bool,
}

impl Domains {
    /// Starts with the configured domains, until the others are read.
    pub fn new(configured: &[Domain]) -> Self {
        let configured = Arc::new(DomainSet::new(configured));
        Self {
            current: RwLock::new(CurrentTable {
                table: Arc::new(DomainTable::new(configured.clone(), Vec::new())),
                since: Instant::now(),
                is_read: false,
            }),
            configured,
            changed: Notify::new(),
        }
    }

    /// The domains as of the last read.
    pub fn current(&self) -> Arc<DomainTable> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.table.clone()
    }

    /// The domains and the time since they were read; `None` if there may be others.
    pub fn complete(&self) -> Option<(Arc<DomainTable>, Duration)> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let age = current.since.elapsed();
        let is_read = current.is_read && age <= MAX_AGE;
        is_read.then(|| (current.table.clone(), age))
    }

    /// True if there may be domains that this process does not know, because it is cut off from changes.
    pub fn is_outdated(&self) -> bool {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.since.elapsed() > MAX_AGE
    }

    /// Reads the domains.
    pub async fn read(&self, store: &Store) -> Result<Arc<DomainTable>, StoreError> {
        let since = Instant::now();
        let rows = store.domains().await?;
        let table = Arc::new(DomainTable::new(self.configured.clone(), rows));
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = CurrentTable {
            table: table.clone(),
            since,
            is_read: true,
        };
        Ok(table)
    }

    /// Reads the domains whenever one changes, and from time to time, until `stop`.
    pub async fn follow(self: Arc<Self>, store: Arc<Store>, stop: CancellationToken) {
        let following = async {
            loop {
                let _ = tokio::time::timeout(PERIOD, self.changed.notified()).await;
                if let Err(error) = self.read(&store).await {
                    tracing::warn!(%error, "failed to reload domains; keeping the previous ones");
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
