//! The store: a handle to the database with the caches of this process.

use super::domains::{self, Configured, DomainKeys};
use super::events::EventWriter;
use super::marks::{DeliveryMarks, OutboxMark};
use super::newest::NewestRow;
use edgelink_click_store::ClickStore;
use edgelink_database::Database;
use edgelink_database::calls::Call;
use edgelink_database::classes::Class;
use edgelink_database::error::StoreError;
use edgelink_database::run;
use edgelink_wire::{Domain, LinkKey};
use std::sync::Arc;

/// The database, which is the source of truth.
///
/// Every method is one transaction: it is committed when it returns `Ok`, and possibly committed after an error that
/// [`StoreError::is_transient`]. Every creation, change and deletion of a link writes the outbox in the same
/// transaction, but for changes of tags alone by [`Store::replace_tag`], which edges do not get.
///
/// Each operation is one method, with its SQL, in the file of its subject.
#[derive(Clone)]
pub struct Store {
    pub(super) db: Database,
    clicks: ClickStore,
    pub(super) domains: Arc<DomainKeys>,
    pub(super) newest: Arc<NewestRow>,
    pub(super) outbox_mark: Arc<OutboxMark>,
    pub(super) delivery_marks: Arc<DeliveryMarks>,
    on_change: Option<OnChange>,
    /// The configured domains, which no tenant created.
    pub(super) configured: Configured,
    /// Writer of webhook events; `None` without webhooks.
    pub(super) events: Option<Arc<EventWriter>>,
}

/// A listener for the keys of links that may have changed; see [`Store::with_listener`].
pub type OnChange = Arc<dyn Fn(&[LinkKey]) + Send + Sync>;

impl Store {
    /// A store in this database.
    pub(super) fn new(db: Database) -> Self {
        Self {
            clicks: ClickStore::new(db.clone()),
            db,
            domains: Arc::default(),
            newest: Arc::default(),
            outbox_mark: Arc::default(),
            delivery_marks: Arc::default(),
            on_change: None,
            configured: None,
            events: None,
        }
    }

    /// A call that only reads, with its name in metrics and its description in errors.
    pub(super) fn read(&self, operation: &'static str, context: &'static str) -> Call<'_> {
        self.db.read(operation, context)
    }

    /// A call that may write.
    pub(super) fn write(&self, operation: &'static str, context: &'static str) -> Call<'_> {
        self.db.write(operation, context)
    }

    /// The database's clock, in unix milliseconds.
    pub(super) async fn now(&self) -> Result<u64, StoreError> {
        self.db.now().await
    }

    /// The tables of clicks and conversions.
    #[must_use]
    pub fn clicks(&self) -> &ClickStore {
        &self.clicks
    }

    /// Returns a handle to this store that calls `on_change` after each call that may have changed links, even a failed one.
    /// The purge of expired links passes no keys.
    #[must_use]
    pub fn with_listener(&self, on_change: OnChange) -> Arc<Self> {
        Arc::new(Self {
            on_change: Some(on_change),
            ..self.clone()
        })
    }

    /// Returns a handle to this store that refuses new links on domains not owned by their tenant, except for these.
    #[must_use]
    pub fn with_configured_domains(&self, domains: &[Domain]) -> Arc<Self> {
        Arc::new(Self {
            configured: Some(domains.into()),
            ..self.clone()
        })
    }

    /// Returns a handle to this store that runs at most `most` lookups at once.
    #[must_use]
    pub fn with_max_lookups(&self, most: usize) -> Arc<Self> {
        let db = self.db.with_max_lookups(most);
        Arc::new(Self {
            clicks: self.clicks.over(db.clone()),
            db,
            ..self.clone()
        })
    }

    /// Calls the listener, if there is one.
    pub(super) fn notify_listener(&self, keys: &[LinkKey]) {
        if let Some(on_change) = &self.on_change {
            on_change(keys);
        }
    }

    /// The id of a domain's row; `None` if it has never had a link.
    pub async fn find_domain_key(&self, domain: &Domain) -> Result<Option<u32>, StoreError> {
        let call = self.read("find_domain", "finding a domain");
        let call = call.of(Class::Creations);
        run!(call, |session| domains::find(session, domain).await)
    }

    /// The id of a domain's row when last read, for a transaction that checks it. An unknown one is read, and
    /// added if missing.
    pub(super) async fn remembered_domain_key(&self, domain: &Domain) -> Result<u32, StoreError> {
        if let Some(id) = self.domains.get(domain) {
            return Ok(id);
        }
        let call = self.write("add_domain", "adding a domain");
        let call = call.of(Class::Creations);
        let token = self.newest.token();
        let id = run!(call, |session| domains::add(session, domain, token).await)?;
        self.domains.insert(domain.clone(), id);
        Ok(id)
    }
}
