//! The tables of clicks and conversions, beside the store of links and over its connections.
//!
//! A [`ClickStore`] has one method for each operation. Statements that belong to transactions of the store of links are functions.

mod analytics;
mod clicks;
mod conversions;
mod secret_place;
mod visitor_secrets;

pub use analytics::{
    ClickWrite, DayProgress, DocKey, DocKind, DocPart, DocSpan, DocSum, JOIN_TOTALS, NewOrphan,
    NewRaw, RawHead, RawRow, RawScope, RawSelection, StoredDoc, VISITS, forget_total, remove,
};
pub use clicks::{
    AccountGroup, BatchHead, ClickAccounts, ClickReport, ClickRetention, GroupAccounts,
    GroupedAccounts, NewBatches, QueuedReport, TakenReports,
};
pub use conversions::{Conversion, ConversionSum, IdentifiedClick, MAX_CONVERSIONS, Recorded};
pub use secret_place::DAY;

use clicks::OlderPlanes;
use edgelink_database::Database;
use edgelink_database::calls::Call;
use secret_place::SecretPlace;
use std::sync::Arc;

/// The most rows that one statement deletes.
const MAX_DELETED: u32 = 1000;

/// The tables of clicks and conversions.
#[derive(Clone)]
pub struct ClickStore {
    db: Database,
    older_planes: Arc<OlderPlanes>,
    /// Storage of the secrets of visitor tokens.
    secrets: SecretPlace,
}

impl ClickStore {
    /// The tables in this database.
    #[must_use]
    pub fn new(db: Database) -> Self {
        Self {
            secrets: SecretPlace::of(db.place()),
            older_planes: Arc::default(),
            db,
        }
    }

    /// Returns a handle to these tables over another handle to their database.
    #[must_use]
    pub fn over(&self, db: Database) -> Self {
        Self { db, ..self.clone() }
    }

    fn read(&self, operation: &'static str, context: &'static str) -> Call<'_> {
        self.db.read(operation, context)
    }

    fn write(&self, operation: &'static str, context: &'static str) -> Call<'_> {
        self.db.write(operation, context)
    }
}
