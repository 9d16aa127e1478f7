//! Analytics: what is known of clicks, by link, domain, tenant and time.
//!
//! Edges and this process report clicks ([`crate::clicks`]). Acknowledged reports wait in the click queue of the database, from
//! where one replica writes them into an engine: rollups in the database itself, or ClickHouse.

pub mod agents;
mod engine;
mod model;
mod visitors;

pub use engine::{
    AnalyticsQuery, Breakdown, Chunk, Engine, EngineError, Numbers, RawClick, RawPlace, RawQuery,
    Scope, Slot, Visitors,
};
pub use model::{Agent, Attribute, Bots, Click, Described, Device, OTHER, Orphan};
pub(crate) use visitors::Visitors as VisitorSecrets;
