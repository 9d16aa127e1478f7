//! The store, source of truth about links.
//!
//! A [`Store`] has one method for each operation, in the file of its subject. A method runs its statements on a session of
//! [`edgelink_database`], which measures it and bounds it in time.

mod accounts;
mod api_domains;
mod api_keys;
mod audit;
mod bounds;
mod changing;
mod clicked_links;
mod counters;
mod creation;
mod deliveries;
mod diagnosis;
mod domains;
mod edge_health;
mod events;
mod external_ids;
mod failed_logins;
mod identities;
mod ids;
mod installation;
mod issuers;
mod key_scans;
pub mod lease;
mod leases;
mod link_changes;
mod link_clicks;
mod links;
mod listing;
mod locked_rows;
pub mod low_water;
mod marks;
mod migrate;
mod moving;
mod names;
mod newest;
mod outbox;
mod packed;
mod publisher;
mod purge;
mod queues;
mod receipts;
mod reports;
mod rows;
mod sessions;
mod store;
mod tags;
mod tenants;
mod terms;
mod twins;
mod users;
mod visits;
mod webhooks;

pub use accounts::AccountError;
pub use api_domains::{ChangedDomain, DomainError, MAX_COUNTED_LINKS, NewDomain, WatchedDomain};
pub use api_keys::{ApiKeyRow, KeyChange, KeyHolder, KeyPlace, KeyQuery, PreviousSecret};
pub use audit::{Actor, AuditEntry, AuditQuery, Entry};
pub use bounds::{BOUND_LEAD_MILLIS, BoundState};
pub use clicked_links::{ClickedDomain, ClickedLink};
pub use creation::{CreateError, NewLink, WantedNames};
pub use deliveries::{AttemptOutcome, Delivery, FailurePolicy, MANY_FAILURES, PING};
pub use diagnosis::{DatabaseServer, SchemaState};
pub use domains::DomainNames;
pub use edge_health::{EdgeHealth, RequestSums};
pub use edgelink_database::error::{Limit, StoreError};
pub use events::{LinkEvent, MAX_AGE as WEBHOOKS_AGE, ShowLink};
pub use failed_logins::{FailedAccount, FailedSum};
pub use identities::{Binding, IdentityError, NamedIdentity};
pub use ids::IDS_SKIPPED;
pub use issuers::{ISSUERS, IssuerHolder, IssuerUsage, Segment};
pub use key_scans::{NotedScan, ScanProgress};
pub use leases::MAX_LEASE_MILLIS;
pub use link_changes::{
    ChangeError, ChangeFn, ChangeOutcome, CheckFn, LinkChange, SingleChange, subject,
};
pub use link_clicks::TagClicks;
pub use links::ScannedKey;
pub use listing::{
    LinkPage, ListCursor, ListOrder, ListQuery, ListedIds, ListedState, MAX_EXAMINED, MAX_NUMBERED,
    NumberedPage, NumberedQuery, SortBy, TagsMode, VisitSum,
};
pub use moving::{LinkMove, MoveError, Moved};
pub use outbox::{
    MAX_BATCH_BYTES, MalformedBatch, OutboxRuns, OutboxSize, PendingBatch, PendingChange,
};
pub use packed::{CutOff, Packed};
pub use publisher::{
    FeedKind, FlushReason, LeaseClaim, NUMBERS_SKIPPED, OTHER_KIND_WAIT_MILLIS, Past, Pending,
    PendingKeys, PublisherState, Skipped,
};
pub use queues::MarkedQueue;
pub use receipts::{Receipt, StoredReceipt};
pub use reports::{
    MAX_OPEN_OF_LINK, NewReport, ReportQuery, ReportReason, ReportRow, Reported, Reviewer,
};
pub use sessions::{NewSession, SessionLimits, StoredSession};
pub use store::{OnChange, Store};
pub use tags::{MAX_COUNTED, MAX_RETAGGED, TagCount, TagQuery};
pub use tenants::TenantRow;
pub use twins::{Twin, Wanted};
pub use users::{IDENTITY_AWAITED, Logins, UserPatch, UserRow};
pub use visits::VisitCounts;
pub use webhooks::{SigningKey, WebhookError, WebhookRow, WebhookState};

use edgelink_settings::config::StoreConfig;
use std::sync::Arc;

/// Opens the store in the database that the URL of `config` names, see [`edgelink_database::connect`]. The schema is not touched; see
/// [`Store::migrate`].
///
/// # Errors
/// The failure to connect.
pub async fn connect(config: &StoreConfig) -> Result<Arc<Store>, StoreError> {
    let database = edgelink_database::connect(config).await?;
    Ok(Arc::new(Store::new(database)))
}

/// Opens a database that has to exist with the schema of this version, for commands that run beside a serving process: with
/// missing or wrong settings they would otherwise do their work on a new and empty file.
///
/// # Errors
/// The errors of [`connect`]; a permanent one if there is no file, or the schema lacks migrations.
pub async fn open(config: &StoreConfig) -> Result<Arc<Store>, StoreError> {
    edgelink_database::require_file(config)?;
    let store = connect(config).await?;
    store.require_schema().await?;
    Ok(store)
}

/// Opens the store of `config`, and brings its schema up to date if that is configured.
///
/// # Errors
/// The failure of the database.
pub async fn open_store(config: &StoreConfig) -> Result<Arc<Store>, StoreError> {
    let store = connect(config).await?;
    if config.auto_migrate {
        store.migrate().await?;
    }
    Ok(store)
}
