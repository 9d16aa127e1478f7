//! The statements for removing what is over.

use super::relay::now;
use crate::store::sql::fault::Fault;
use crate::store::sql::rows::{LinkRow, Unsigned};
use crate::store::sql::select_links;
use crate::store::sql::session::Session;
use crate::store::sql::sizes::padded;
use crate::store::sql::sweep::{SweepStatements, TombstoneRow};
use sqlx::{MySql, QueryBuilder, query_as, query_scalar};

impl SweepStatements for Session<MySql> {
    async fn lock_expired(&mut self, grace: u64, limit: u32) -> Result<Vec<u64>, Fault> {
        // Without the hint a small table is scanned, and every row of it locked on the way.
        let query = query_scalar(
            "SELECT id FROM links FORCE INDEX (links_valid_until) \
             WHERE valid_until <= CAST(UNIX_TIMESTAMP() AS SIGNED) - ? AND deleted_at IS NULL \
             ORDER BY valid_until LIMIT ? FOR UPDATE",
        )
        .bind(grace.cast_signed())
        .bind(limit);
        let ids: Vec<Unsigned> = self.run(|c| query.fetch_all(c)).await?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    async fn links_by_id(&mut self, ids: &[u64]) -> Result<Vec<LinkRow>, Fault> {
        let mut select = QueryBuilder::<MySql>::new(select_links!("WHERE l.id IN ("));
        let mut values = select.separated(", ");
        for id in padded(ids) {
            values.push_bind(*id);
        }
        select.push(")");
        let query = select.build_query_as();
        self.run(|c| query.fetch_all(c)).await
    }

    async fn empty_links(&mut self, ids: &[u64], first: u64, now: u64) -> Result<(), Fault> {
        // The hash too: nobody is to find a link by a target that is gone.
        let mut update = QueryBuilder::<MySql>::new(
            "UPDATE links SET url = '', url_hash = 0, title = NULL, tags = '[]', valid_since = NULL, \
             valid_until = NULL, rev = GREATEST(rev + 1, ",
        );
        update.push_bind(first).push("), deleted_at = ");
        update.push_bind(now).push(", updated_at = ").push_bind(now);
        update.push(" WHERE id IN (");
        let mut values = update.separated(", ");
        for id in padded(ids) {
            values.push_bind(*id);
        }
        update.push(")");
        let query = update.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn lock_tombstones(&mut self, kept: u64, limit: u32) -> Result<Vec<TombstoneRow>, Fault> {
        let query = query_as(concat!(
            "SELECT id, rev FROM links FORCE INDEX (links_live) WHERE deleted_at <= CAST(",
            now!(),
            " AS SIGNED) - ? ORDER BY deleted_at LIMIT ? FOR UPDATE"
        ))
        .bind(kept.cast_signed())
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn delete_rows(&mut self, ids: &[u64]) -> Result<(), Fault> {
        let mut delete = QueryBuilder::<MySql>::new("DELETE FROM links WHERE id IN (");
        let mut list = delete.separated(", ");
        for id in padded(ids) {
            list.push_bind(*id);
        }
        delete.push(")");
        let query = delete.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }
}
