//! The engine that keeps clicks in ClickHouse.

mod columns;
mod connection;
mod counts;
mod days;
mod native;
mod raw;
mod rows;
mod schema;
mod spans;
mod sql;
mod writing;

use super::chunk::Chunk;
use super::engine::{
    AnalyticsQuery, Breakdown, Engine, EngineError, Numbers, RawClick, RawQuery, Slot, Visitors,
};
use super::model::Orphan;
use async_trait::async_trait;
use connection::Connection;
use edgelink_click_store::ClickStore;
use edgelink_model::counts::Attribute;
use edgelink_settings::config::AnalyticsConfig;
use schema::{Content, TABLES};
use sql::Sql;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Clicks in ClickHouse.
pub struct ClickHouse {
    connection: Connection,
    store: ClickStore,
}

impl ClickHouse {
    /// Creates an engine that connects and creates its tables on first use. The queue is in the database.
    #[must_use]
    pub fn new(settings: &AnalyticsConfig, store: ClickStore) -> Self {
        Self {
            connection: Connection::new(settings),
            store,
        }
    }

    /// Returns the version of the server, without creating anything.
    ///
    /// # Errors
    /// ClickHouse does not answer, or refuses the user.
    pub async fn version(&self) -> Result<String, EngineError> {
        self.connection.version().await
    }

    /// Writes the clicks and orphan visits of a chunk. They count once, however often this is called with that id and the same rows of
    /// the queue, and however earlier calls ended.
    ///
    /// # Errors
    /// ClickHouse failed; the chunk is written, or will be when this is called again.
    pub async fn insert(&self, insert_id: u64, chunk: &Chunk) -> Result<(), EngineError> {
        writing::write(&self.connection, insert_id, chunk, &chunk.orphans).await
    }
}

#[async_trait]
impl Engine for ClickHouse {
    /// Marks the rows before they are sent, so that a repeated call has the same rows and the same id.
    async fn write(&self, chunk: &Chunk) -> Result<(), EngineError> {
        let insert_id = match chunk.insert_id {
            Some(insert_id) => insert_id,
            None => {
                let insert_id = rand::random::<u64>() >> 1;
                self.store.mark_reports(&chunk.rows, insert_id).await?;
                insert_id
            }
        };
        let orphan_days = orphan_days(&chunk.orphans);
        let kept = self.kept_orphans(&chunk.orphans, &orphan_days).await?;
        writing::write(&self.connection, insert_id, chunk, &kept).await?;
        let totals = chunk.totals();
        let settled = self
            .store
            .settle_insert(insert_id, &chunk.rows, &totals, &orphan_days);
        Ok(settled.await?)
    }

    async fn count(
        &self,
        query: &AnalyticsQuery,
        visitors: Visitors,
    ) -> Result<Numbers, EngineError> {
        counts::count(&self.connection, query, visitors).await
    }

    async fn series(
        &self,
        query: &AnalyticsQuery,
        slots: &[u64],
    ) -> Result<(Numbers, Vec<Slot>), EngineError> {
        counts::series(&self.connection, query, slots).await
    }

    async fn breakdown(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
        limit: usize,
    ) -> Result<(u64, Breakdown), EngineError> {
        counts::breakdown(&self.connection, query, by, limit).await
    }

    async fn raw(&self, query: &RawQuery) -> Result<Vec<RawClick>, EngineError> {
        raw::raw(&self.connection, query).await
    }

    async fn count_raw(&self, query: &RawQuery, most: u64) -> Result<u64, EngineError> {
        raw::count(&self.connection, query, most).await
    }

    async fn totals(&self, links: &[u64]) -> Result<HashMap<u64, (u64, u64)>, EngineError> {
        let sql = Sql::new("SELECT link_id, sum(clicks), sum(bots) FROM link_totals WHERE ")
            .links(links)
            .text(" GROUP BY link_id");
        let found: Vec<(u64, u64, u64)> = self.connection.all(sql).await?;
        let totals = found.into_iter();
        Ok(totals
            .map(|(link, clicks, bots)| (link, (clicks, bots)))
            .collect())
    }

    async fn delete(&self, links: &[u64]) -> Result<u64, EngineError> {
        let deleted = self.totals(links).await?;
        self.store.delete_link_clicks(links).await?;
        // The totals come last: they are read first if a deletion is repeated after a failure. Sources of days and months come before
        // the rollups, and rollups in progress are awaited.
        let fill = self.connection.fill_name();
        for table in TABLES.iter().filter(|table| table.is_of_links()) {
            let sql = Sql::new(&format!("ALTER TABLE {} DELETE WHERE ", table.name));
            let sql = match table.content {
                Content::LinkTotals => sql.links(links),
                _ => sql.known_links(links),
            };
            if table.is_filled_late() {
                self.connection.await_end(&fill).await?;
            }
            writing::mutate(&self.connection, sql).await?;
        }
        Ok(deleted.values().map(|(clicks, _)| clicks).sum())
    }

    async fn delete_orphans(&self, tenant_id: u32) -> Result<u64, EngineError> {
        let condition = Sql::new("tenant_id = ").number(tenant_id);
        let count = Sql::new("SELECT count() FROM orphans WHERE ").sql(condition.clone());
        let deleted = self.connection.one(count).await?;
        self.store.delete_orphan_visits(tenant_id).await?;
        let sql = Sql::new("ALTER TABLE orphans DELETE WHERE ").sql(condition);
        writing::mutate(&self.connection, sql).await?;
        Ok(deleted)
    }

    /// Rolls up completed days. The server drops what is past its retention by itself.
    async fn upkeep(&self, settled: u64) -> Result<bool, EngineError> {
        days::build(&self.connection, settled).await
    }
}

impl ClickHouse {
    /// Keeps at most the configured number of orphan visits of each tenant and day. They are counted when the insert is settled, so
    /// that a repeated insert has the same ones.
    async fn kept_orphans<'a>(
        &self,
        orphans: &'a [Orphan],
        orphan_days: &[((u32, u64), u64)],
    ) -> Result<Cow<'a, [Orphan]>, EngineError> {
        let most = self.connection.settings().max_orphans;
        let days: Vec<(u32, u64)> = orphan_days.iter().map(|(day, _)| *day).collect();
        let mut counted = self.store.orphan_days(&days).await?;
        let is_over = |(day, visits): &((u32, u64), u64)| {
            let before = counted.get(day).copied().unwrap_or(0);
            before.saturating_add(*visits) > most
        };
        if !orphan_days.iter().any(is_over) {
            return Ok(Cow::Borrowed(orphans));
        }
        let is_kept = |orphan: &&Orphan| {
            let visits = counted.entry(day_of(orphan)).or_default();
            *visits += 1;
            *visits <= most
        };
        Ok(Cow::Owned(
            orphans.iter().filter(is_kept).cloned().collect(),
        ))
    }
}

/// The tenant and the day (unix time / 86400) of an orphan visit.
fn day_of(orphan: &Orphan) -> (u32, u64) {
    (orphan.tenant_id, orphan.at / 86_400)
}

/// Counts orphan visits by tenant and day.
fn orphan_days(orphans: &[Orphan]) -> Vec<((u32, u64), u64)> {
    let mut days: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for orphan in orphans {
        *days.entry(day_of(orphan)).or_default() += 1;
    }
    days.into_iter().collect()
}
