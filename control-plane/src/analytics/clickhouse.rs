//! The engine that keeps clicks in ClickHouse.

mod connection;
mod counts;
mod raw;
mod rows;
mod schema;
mod sql;
mod writing;

use super::engine::{
    AnalyticsQuery, Breakdown, Chunk, Engine, EngineError, Numbers, RawClick, RawQuery, Slot,
    Visitors,
};
use super::model::Attribute;
use super::rollup::Tally;
use crate::clock;
use crate::config::AnalyticsConfig;
use crate::store::Store;
use async_trait::async_trait;
use connection::Connection;
use schema::{Content, TABLES};
use sql::Sql;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clicks in ClickHouse.
pub struct ClickHouse {
    connection: Connection,
    store: Arc<Store>,
    /// The day on which what is over was dropped last.
    expired: AtomicU64,
}

impl ClickHouse {
    /// An engine that connects, and makes its tables, when it is asked for the first time. The database has the queue.
    #[must_use]
    pub fn new(settings: &AnalyticsConfig, store: Arc<Store>) -> Self {
        Self {
            connection: Connection::new(settings),
            store,
            expired: AtomicU64::new(0),
        }
    }

    /// Writes the clicks and orphan visits of a chunk. They count once however often this is called with that id and
    /// the same rows of the queue, and whatever became of the calls before.
    ///
    /// # Errors
    /// ClickHouse failed; the chunk is written, or will be when this is called again.
    pub async fn insert(&self, insert_id: u64, chunk: &Chunk) -> Result<(), EngineError> {
        writing::write(&self.connection, insert_id, chunk).await
    }

    /// Drops what is older than its retention where the server does not do so by itself; `now` in unix seconds.
    ///
    /// # Errors
    /// ClickHouse failed.
    pub async fn expire(&self, now: u64) -> Result<(), EngineError> {
        writing::expire(&self.connection, now).await
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
        self.insert(insert_id, chunk).await?;
        let totals = totals(chunk);
        let settled = self.store.settle_insert(insert_id, &chunk.rows, &totals);
        Ok(settled.await?)
    }

    async fn count(&self, query: &AnalyticsQuery) -> Result<Numbers, EngineError> {
        counts::count(&self.connection, query).await
    }

    async fn series(
        &self,
        query: &AnalyticsQuery,
        slots: &[u64],
        visitors: Visitors,
    ) -> Result<Vec<Slot>, EngineError> {
        counts::series(&self.connection, query, slots, visitors).await
    }

    async fn breakdown(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
        limit: usize,
    ) -> Result<Breakdown, EngineError> {
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
        let (client, dialect) = self.connection.ready().await?;
        self.store.delete_link_clicks(links).await?;
        // The totals last: they are read first if a deletion is called again after a failure.
        for table in TABLES
            .iter()
            .filter(|table| table.is_of_links() && !table.is_virtual(dialect))
        {
            let sql = Sql::new(&format!("ALTER TABLE {} DELETE WHERE ", table.name));
            let sql = match table.content {
                Content::LinkTotals => sql.links(links),
                _ => sql.known_links(links),
            };
            writing::mutate(&self.connection, &client, sql).await?;
        }
        Ok(deleted.values().map(|(clicks, _)| clicks).sum())
    }

    async fn delete_orphans(&self, tenant_id: u32) -> Result<u64, EngineError> {
        let condition = Sql::new("tenant_id = ").number(tenant_id);
        let count = Sql::new("SELECT count() FROM orphans WHERE ").sql(condition.clone());
        let deleted = self.connection.one(count).await?;
        let (client, _) = self.connection.ready().await?;
        let sql = Sql::new("ALTER TABLE orphans DELETE WHERE ").sql(condition);
        writing::mutate(&self.connection, &client, sql).await?;
        Ok(deleted)
    }

    /// Once a day, what is over is dropped.
    async fn upkeep(&self, _: u64) -> Result<bool, EngineError> {
        let now = clock::unix_seconds();
        let today = now / 86_400;
        if self.expired.load(Ordering::Relaxed) < today {
            self.expire(now).await?;
            self.expired.store(today, Ordering::Relaxed);
        }
        Ok(false)
    }
}

/// The totals that lists of links show, which are in the database with any engine.
fn totals(chunk: &Chunk) -> Vec<(u64, Tally)> {
    let mut totals: HashMap<u64, Tally> = HashMap::new();
    for click in chunk.clicks.iter().filter(|click| click.has_link()) {
        let described = click.described.as_deref();
        let is_bot = described.is_some_and(|described| described.agent.is_bot);
        let total = totals.entry(click.link_id).or_default();
        total.clicks = total.clicks.saturating_add(click.count);
        if is_bot {
            total.bots = total.bots.saturating_add(click.count);
        }
    }
    totals.into_iter().collect()
}
