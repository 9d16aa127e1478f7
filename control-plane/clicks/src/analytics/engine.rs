//! The trait of engines, which keep clicks and answer questions about them.

use super::chunk::Chunk;
use async_trait::async_trait;
use edgelink_model::counts::{Attribute, Bots, ClickScope};
use edgelink_store::StoreError;
use std::collections::HashMap;
use std::time::Duration;

/// The error of an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// ClickHouse failed; a retry may succeed.
    #[error("ClickHouse: {0}")]
    ClickHouse(String),
    /// This engine, as configured, does not keep the data that is asked for.
    #[error("{0}")]
    Unsupported(&'static str),
}

impl EngineError {
    /// True if the engine refuses the values of this call, and would accept others.
    #[must_use]
    pub fn refuses_values(&self) -> bool {
        matches!(self, Self::Store(error) if error.refuses_values())
    }
}

/// A query about clicks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalyticsQuery {
    /// The links or domain whose clicks are read.
    pub scope: ClickScope,
    /// The first second (unix seconds), on the hour; on the minute for a series of minutes.
    pub from: u64,
    /// The end, exclusive, on the hour or minute.
    pub to: u64,
    /// The filter for bots.
    pub bots: Bots,
}

/// Counts of clicks and visitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Clicks.
    pub clicks: u64,
    /// Estimated distinct visitors, excluding bots, counted per day. 0 if only bots are asked for.
    pub visitors: u64,
}

/// The clicks of a part of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Its beginning (unix seconds).
    pub from: u64,
    /// Its counts.
    pub numbers: Numbers,
}

/// Clicks by the values of an attribute, most clicks first. The empty value has clicks without one, and [`super::OTHER`] the
/// remainder, so that all add up to the clicks; by tag to more, because a click counts for each tag.
pub type Breakdown = Vec<(String, u64)>;

/// Option to count visitors, which is expensive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visitors {
    /// They are.
    Counted,
    /// [`Numbers::visitors`] is 0.
    Ignored,
}

/// A query for single clicks, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawQuery {
    /// The links or domain; with `orphans` the tenant or domain of orphan visits.
    pub scope: ClickScope,
    /// The first second.
    pub from: u64,
    /// The end, exclusive.
    pub to: u64,
    /// The filter for bots.
    pub bots: Bots,
    /// Selects orphan visits instead of clicks.
    pub orphans: bool,
    /// The click after which the page begins; `None` for the first page.
    pub after: Option<RawPlace>,
    /// Number of clicks to skip.
    pub skip: u64,
    /// Most clicks to return.
    pub limit: u32,
}

/// The position of a click in the order of [`RawQuery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawPlace {
    /// Unix seconds.
    pub at: u64,
    /// Distinguishes clicks of a second.
    pub number: u64,
}

/// A single click or orphan visit.
#[derive(Clone, Debug)]
pub struct RawClick {
    /// Its position.
    pub place: RawPlace,
    /// The link; 0 for an orphan visit.
    pub link_id: u64,
    /// The link key, or domain and path of an orphan visit.
    pub key: String,
    /// The kind of an orphan visit.
    pub orphan: Option<edgelink_wire::clicks::events::OrphanKind>,
    /// Its attributes.
    pub described: super::model::Described,
}

/// Stores clicks and answers queries about them.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Writes a chunk of the queue. When it returns `Ok`, each of its clicks counts exactly once, and its rows are gone from the
    /// queue. After an error the rows are still queued, or were written: the next call finds out which.
    async fn write(&self, chunk: &Chunk) -> Result<(), EngineError>;

    /// Target duration of a write, because it holds up others; `None` if it does not.
    fn pace(&self) -> Option<Duration> {
        None
    }

    /// Does the next part of periodic work, such as rolling up days, and returns whether more is due. The writing process calls it.
    /// All clicks before `settled` (unix seconds) are written.
    async fn upkeep(&self, settled: u64) -> Result<bool, EngineError> {
        let _ = settled;
        Ok(false)
    }

    /// Counts clicks and, if asked, visitors.
    async fn count(
        &self,
        query: &AnalyticsQuery,
        visitors: Visitors,
    ) -> Result<Numbers, EngineError>;

    /// The result of [`Engine::count`], and the counts of each slot. `slots` are their beginnings, ascending, on the hour, from
    /// `query.from` on. Engines that keep minutes ([`edgelink_settings::config::AnalyticsConfig::kept_minutes`]) accept slots on the minute.
    async fn series(
        &self,
        query: &AnalyticsQuery,
        slots: &[u64],
    ) -> Result<(Numbers, Vec<Slot>), EngineError>;

    /// Counts clicks, in total and by the values of an attribute: at most `limit` values and [`super::OTHER`].
    async fn breakdown(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
        limit: usize,
    ) -> Result<(u64, Breakdown), EngineError>;

    /// Returns single clicks, or [`EngineError::Unsupported`] if none are kept.
    async fn raw(&self, query: &RawQuery) -> Result<Vec<RawClick>, EngineError>;

    /// Counts the results of [`Engine::raw`] over all pages, up to `most`.
    async fn count_raw(&self, query: &RawQuery, most: u64) -> Result<u64, EngineError>;

    /// Total clicks and bot clicks by link; links without clicks are omitted.
    async fn totals(&self, links: &[u64]) -> Result<HashMap<u64, (u64, u64)>, EngineError>;

    /// Removes the clicks of links and returns their number. Clicks in the queue stay.
    async fn delete(&self, links: &[u64]) -> Result<u64, EngineError>;

    /// Removes the orphan visits of a tenant and returns their number.
    async fn delete_orphans(&self, tenant_id: u32) -> Result<u64, EngineError>;
}
