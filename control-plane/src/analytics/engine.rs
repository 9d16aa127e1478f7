//! The trait of engines, which keep clicks and answer questions about them.

use super::chunk::Chunk;
use crate::counts::{Attribute, Bots, Scope};
use crate::store::StoreError;
use async_trait::async_trait;
use std::collections::HashMap;
use std::time::Duration;

/// Why an engine does not answer.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// ClickHouse failed: the same call may succeed later.
    #[error("ClickHouse: {0}")]
    ClickHouse(String),
    /// This engine, as it is configured, does not keep what is asked for.
    #[error("{0}")]
    Unsupported(&'static str),
}

impl EngineError {
    /// Whether the values of the very call are refused, and others would be taken.
    #[must_use]
    pub fn refuses_values(&self) -> bool {
        matches!(self, Self::Store(error) if error.refuses_values())
    }
}

/// What is asked about clicks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalyticsQuery {
    /// Whose clicks.
    pub scope: Scope,
    /// The first second, which begins an hour (unix seconds); a minute if a series of minutes is asked for.
    pub from: u64,
    /// The first second that does not count any more, which begins an hour, or a minute.
    pub to: u64,
    /// Whether bots count.
    pub bots: Bots,
}

/// Clicks, and how many visitors made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Clicks.
    pub clicks: u64,
    /// Different visitors without bots, each day for itself; an estimate. 0 if bots only are asked for.
    pub visitors: u64,
}

/// The clicks of a part of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// When it begins: unix seconds.
    pub from: u64,
    /// What was in it.
    pub numbers: Numbers,
}

/// Clicks by the values of an attribute, most clicks first. The empty value has those without one; [`super::OTHER`] has what is
/// left out, so that all sum up to the clicks; those by tag to more, as a click counts for each tag.
pub type Breakdown = Vec<(String, u64)>;

/// Whether visitors are counted, which costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visitors {
    /// They are.
    Counted,
    /// [`Numbers::visitors`] is 0.
    Ignored,
}

/// Which single clicks are asked for, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawQuery {
    /// Whose; orphan visits of the tenant or domain if `orphans`.
    pub scope: Scope,
    /// The first second.
    pub from: u64,
    /// The first second that does not count any more.
    pub to: u64,
    /// Whether bots are among them.
    pub bots: Bots,
    /// Orphan visits instead of clicks.
    pub orphans: bool,
    /// Behind which click; `None` for the first page.
    pub after: Option<RawPlace>,
    /// How many to leave out before the first one.
    pub skip: u64,
    /// How many at most.
    pub limit: u32,
}

/// The place of a click in the order of [`RawQuery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawPlace {
    /// Unix seconds.
    pub at: u64,
    /// Tells clicks of a second apart.
    pub number: u64,
}

/// A click, or an orphan visit, as it was.
#[derive(Clone, Debug)]
pub struct RawClick {
    /// Where it stands.
    pub place: RawPlace,
    /// The link; 0 for an orphan visit.
    pub link_id: u64,
    /// The link key, or domain and path of an orphan visit.
    pub key: String,
    /// What an orphan visit asked for.
    pub orphan: Option<edgelink_wire::clicks::events::OrphanKind>,
    /// What is known of it.
    pub described: super::model::Described,
}

/// Keeps clicks, and answers questions about them.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Writes a chunk of the queue: when it returns `Ok`, each of its clicks counts exactly once, and its rows are gone from the
    /// queue. After an error the rows stay, or were written: the next call tells these apart.
    async fn write(&self, chunk: &Chunk) -> Result<(), EngineError>;

    /// For how long a write may take: it holds others up. `None` if it does not.
    fn pace(&self) -> Option<Duration> {
        None
    }

    /// Does the next part of what is to be done now and then, such as summing up days; whether there is more of it. The process that
    /// writes calls it. All clicks before `settled` (unix seconds) are written.
    async fn upkeep(&self, settled: u64) -> Result<bool, EngineError> {
        let _ = settled;
        Ok(false)
    }

    /// How many clicks there were.
    async fn count(
        &self,
        query: &AnalyticsQuery,
        visitors: Visitors,
    ) -> Result<Numbers, EngineError>;

    /// What [`Engine::count`] says, and the clicks of each part of the interval that `slots` begin (ascending, each at an hour, the
    /// first one is `query.from`). Engines that keep minutes ([`crate::config::AnalyticsConfig::kept_minutes`]) take slots at minutes.
    async fn series(
        &self,
        query: &AnalyticsQuery,
        slots: &[u64],
    ) -> Result<(Numbers, Vec<Slot>), EngineError>;

    /// How many clicks there were, and how many by the values of an attribute, at most `limit` values and [`super::OTHER`].
    async fn breakdown(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
        limit: usize,
    ) -> Result<(u64, Breakdown), EngineError>;

    /// Single clicks. [`EngineError::Unsupported`] if none are kept.
    async fn raw(&self, query: &RawQuery) -> Result<Vec<RawClick>, EngineError>;

    /// How many [`Engine::raw`] would find in all pages, up to `most`.
    async fn count_raw(&self, query: &RawQuery, most: u64) -> Result<u64, EngineError>;

    /// All clicks and those of bots that were counted of each link; links without clicks are left out.
    async fn totals(&self, links: &[u64]) -> Result<HashMap<u64, (u64, u64)>, EngineError>;

    /// Removes the clicks of links; how many there were. Those that wait in the queue stay.
    async fn delete(&self, links: &[u64]) -> Result<u64, EngineError>;

    /// Removes the orphan visits of a tenant; how many there were.
    async fn delete_orphans(&self, tenant_id: u32) -> Result<u64, EngineError>;
}
