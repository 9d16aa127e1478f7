//! Analytics: clicks by link, domain, tenant and time.
//!
//! Edges and this process report clicks ([`crate`]). Acknowledged reports wait in the database's click queue, from which
//! one replica writes them into an engine: rollups in the database itself, or ClickHouse.

pub mod agents;
mod chunk;
mod clickhouse;
mod described;
mod engine;
mod gathering;
mod hot;
mod interval;
mod links;
mod model;
mod orphans;
mod plan;
mod question;
mod reading;
mod sql;
mod view;
mod visitors;
mod writer;

pub use chunk::Chunk;
pub use clickhouse::ClickHouse;
pub use engine::{
    AnalyticsQuery, Breakdown, Engine, EngineError, Numbers, RawClick, RawPlace, RawQuery, Slot,
    Visitors,
};
pub use interval::{Granularity, Interval, MAX_SLOTS, Period, zone};
pub use links::{FoundLinks, LinkResolver};
pub use model::{Agent, Click, Described, Device, Orphan};
pub use orphans::{MAX_ORPHANS, OrphanGroup, orphans, word as orphan_word};
pub use question::{GroupBy, MAX_VALUES, Question, Summary};
pub(crate) use reading::read_live;
pub use sql::SqlEngine;
pub use view::VisitorView;
pub use visitors::VisitorSecrets;
pub use writer::{ClickWriter, Turn, TurnError};

use edgelink_store::{Actor, Store};
use edgelink_wire::LinkKey;

/// Deletes the clicks of a link and returns their number. Clicks in the queue stay, and so do those from before it was imported.
///
/// The deletion is audited first: clicks left after a failure are removed by the next call.
pub async fn delete_clicks(
    store: &Store,
    engine: &dyn Engine,
    key: &LinkKey,
    link_id: u64,
    actor: &Actor,
) -> Result<u64, EngineError> {
    let totals = engine.totals(&[link_id]).await?;
    if let Some((clicks, _)) = totals.get(&link_id) {
        store.note_deleted_clicks(key, *clicks, actor).await?;
    }
    engine.delete(&[link_id]).await
}
