//! Analytics in the database: the queue of reports, and the tables of the SQL engine.
//!
//! `click_state` has one row. Every change of rollups, raw clicks or totals locks it first, so that these changes are serialized.

mod days;
mod docs;
mod hot;
mod older;
mod orphans;
mod purge;
mod queries;
mod raw;
mod removal;
mod state;
mod totals;
mod writing;

pub use days::DayProgress;
pub use docs::{DocKey, DocKind};
pub use orphans::NewOrphan;
pub use queries::{DocPart, DocSpan, DocSum, StoredDoc};
pub use raw::{NewRaw, RawHead, RawRow, RawScope, RawSelection};
pub use writing::ClickWrite;

pub use removal::remove;
pub use totals::{JOIN_TOTALS, VISITS, forget_total};
