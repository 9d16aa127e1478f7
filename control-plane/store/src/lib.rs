//! The database, source of truth about links: SQLite, MySQL or MariaDB.
//!
//! A [`Store`] has one method for each operation, in the file of its subject and with SQL shared by all
//! databases; differences are in [`dialect`]. A method runs its statements on a [`session`]; [`calls`] lends it,
//! measures it and bounds it in time. Each layer depends only on those before it: [`error`], [`sql`], [`session`], [`rows`],
//! [`calls`], the operations, and finally [`connect`].

mod accounts;
mod analytics;
mod api_domains;
mod api_keys;
mod audit;
mod bounds;
mod calls;
mod changing;
mod classes;
mod clicks;
mod conversions;
mod counters;
mod creation;
mod deliveries;
mod diagnosis;
mod dialect;
mod domains;
mod edge_health;
mod error;
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
mod lines;
mod link_changes;
mod link_clicks;
mod links;
mod listing;
mod locked_rows;
pub mod low_water;
mod marks;
mod migrate;
mod moving;
mod mysql;
mod names;
mod newest;
mod nodes;
mod outbox;
mod packed;
mod publisher;
mod purge;
mod queues;
mod receipts;
mod reports;
mod revisions;
mod rows;
mod secret_place;
mod session;
mod sessions;
mod sql;
mod sqlite;
mod tags;
mod tenants;
mod terms;
mod twins;
mod users;
mod visitor_secrets;
mod visits;
mod webhooks;

pub use accounts::AccountError;
pub use analytics::{
    ClickWrite, ClickedDomain, ClickedLink, DayProgress, DocKey, DocKind, DocPart, DocSpan, DocSum,
    NewOrphan, NewRaw, RawHead, RawRow, RawScope, RawSelection, StoredDoc,
};
pub use api_domains::{ChangedDomain, DomainError, MAX_COUNTED_LINKS, NewDomain, WatchedDomain};
pub use api_keys::{ApiKeyRow, KeyChange, KeyHolder, KeyPlace, KeyQuery, PreviousSecret};
pub use audit::{Actor, AuditEntry, AuditQuery, Entry};
pub use bounds::{BOUND_LEAD_MILLIS, BoundState};
pub use calls::{OnChange, Store};
pub use clicks::{
    AccountGroup, BatchHead, ClickAccounts, ClickReport, ClickRetention, GroupAccounts,
    GroupedAccounts, NewBatches, QueuedReport, TakenReports,
};
pub use conversions::{Conversion, ConversionSum, IdentifiedClick, MAX_CONVERSIONS, Recorded};
pub use creation::{CreateError, NewLink, WantedNames};
pub use deliveries::{AttemptOutcome, Delivery, FailurePolicy, MANY_FAILURES, PING};
pub use diagnosis::{DatabaseServer, SchemaState};
pub use domains::DomainNames;
pub use edge_health::{EdgeHealth, RequestSums};
pub use error::{Limit, StoreError};
pub use events::{LinkEvent, MAX_AGE as WEBHOOKS_AGE, ShowLink};
pub use failed_logins::{FailedAccount, FailedSum};
pub use identities::{Binding, IdentityError, NamedIdentity};
pub use ids::IDS_SKIPPED;
pub use issuers::{ISSUERS, IssuerHolder, IssuerUsage, Segment};
pub use key_scans::{NotedScan, ScanProgress};
pub use leases::MAX_LEASE_MILLIS;
pub use link_changes::{ChangeError, ChangeFn, ChangeOutcome, CheckFn, LinkChange, subject};
pub use link_clicks::TagClicks;
pub use links::ScannedKey;
pub use listing::{
    LinkPage, ListCursor, ListOrder, ListQuery, ListedIds, ListedState, MAX_EXAMINED, MAX_NUMBERED,
    NumberedPage, NumberedQuery, SortBy, TagsMode, VisitSum,
};
pub use moving::{LinkMove, MoveError, Moved};
pub use nodes::{Answer, Known, Silence, Standing, are_apart};
pub use outbox::{MAX_BATCH_BYTES, MalformedBatch, OutboxSize, PendingBatch, PendingChange};
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
pub use secret_place::DAY;
pub use sessions::{NewSession, SessionLimits, StoredSession};
pub use tags::{MAX_COUNTED, MAX_RETAGGED, TagCount, TagQuery};
pub use tenants::TenantRow;
pub use twins::{Twin, Wanted};
pub use users::{IDENTITY_AWAITED, Logins, UserPatch, UserRow};
pub use visits::VisitCounts;
pub use webhooks::{Secret, WebhookError, WebhookRow, WebhookState};

use edgelink_settings::config::StoreConfig;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens the store that the scheme of its URL names: `sqlite:` (a file, created if missing) or `mysql:` (MySQL
/// 8.0 and later, MariaDB 10.6 and later). The schema is not touched; see [`Store::migrate`].
///
/// # Errors
/// A permanent [`StoreError`] if the URL is wrong or the server refuses us, a transient one if it does not answer.
pub async fn connect(config: &StoreConfig) -> Result<Arc<Store>, StoreError> {
    let url = config.url.expose();
    match url.split_once(':') {
        Some(("sqlite", _)) => Ok(Arc::new(sqlite::connect(url, config).await?)),
        Some(("mysql", _)) => Ok(Arc::new(mysql::connect(config).await?)),
        _ => Err(StoreError {
            context: "reading the database URL",
            transient: false,
            source: "must start with sqlite: or mysql:".into(),
        }),
    }
}

/// Opens a database that has to exist with the schema of this version, for commands that run beside a serving process: with
/// missing or wrong settings they would otherwise do their work on a new and empty file.
///
/// # Errors
/// The errors of [`connect`]; a permanent one if there is no file, or the schema lacks migrations.
pub async fn open(config: &StoreConfig) -> Result<Arc<Store>, StoreError> {
    require_file(config)?;
    let store = connect(config).await?;
    store.require_schema().await?;
    Ok(store)
}

/// Queries each server that the URL names; the results are by name, and empty for SQLite.
///
/// # Errors
/// A permanent one if the URL is wrong.
pub async fn servers(config: &StoreConfig) -> Result<Vec<(String, Known)>, StoreError> {
    if config.url.expose().starts_with("mysql:") {
        mysql::servers(config).await
    } else {
        Ok(Vec::new())
    }
}

/// Fails if the URL names a missing SQLite file.
///
/// # Errors
/// A permanent one, which names the file.
pub fn require_file(config: &StoreConfig) -> Result<(), StoreError> {
    match file(config).filter(|file| !file.exists()) {
        None => Ok(()),
        Some(_) => Err(StoreError {
            context: "looking for the database",
            transient: false,
            source: format!(
                "there is no {}; a new one is made by 'edgelink serve', or 'edgelink migrate --create'",
                name(config)
            )
            .into(),
        }),
    }
}

/// Display name of a database: its kind, location and name, without user and password.
#[must_use]
pub fn name(config: &StoreConfig) -> String {
    match file(config) {
        Some(file) => {
            let file = std::path::absolute(&file).unwrap_or(file);
            format!("SQLite file {}", file.display())
        }
        None => nodes::names(config.url.expose()),
    }
}

/// The file of a SQLite database; `None` for others, or if the URL names none.
fn file(config: &StoreConfig) -> Option<PathBuf> {
    let url = config.url.expose();
    url.starts_with("sqlite:")
        .then(|| sqlite::file(url))
        .flatten()
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
