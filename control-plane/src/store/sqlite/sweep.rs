//! The statements for removing what is over.

use super::relay::now;
use crate::store::sql::fault::Fault;
use crate::store::sql::rows::{LinkRow, Unsigned};
use crate::store::sql::select_links;
use crate::store::sql::session::Session;
use crate::store::sql::sizes::padded;
use crate::store::sql::sweep::{SweepStatements, TombstoneRow};
use sqlx::{QueryBuilder, Sqlite, query_as, query_scalar};

impl SweepStatements for Session<Sqlite> {
    async fn lock_expired(&mut self, grace: u64, limit: u32) -> Result<Vec<u64>, Fault> {
        let query = query_scalar(
            "SELECT id FROM links WHERE valid_until <= unixepoch() - ? AND deleted_at IS NULL \
             ORDER BY valid_until LIMIT ?",
        )
        .bind(grace.cast_signed())
        .bind(limit);
        let ids: Vec<Unsigned> = self.run(|c| query.fetch_all(c)).await?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    async fn links_by_id(&mut self, ids: &[u64]) -> Result<Vec<LinkRow>, Fault> {
        let mut select = QueryBuilder::<Sqlite>::new(select_links!("WHERE l.id IN ("));
        let mut values = select.separated(", ");
        for id in padded(ids) {
            values.push_bind(id.cast_signed());
        }
        select.push(")");
        let query = select.build_query_as();
        self.run(|c| query.fetch_all(c)).await
    }

    async fn empty_links(&mut self, ids: &[u64], first: u64, now: u64) -> Result<(), Fault> {
        // The hash too: nobody is to find a link by a target that is gone.
        let mut update = QueryBuilder::<Sqlite>::new(
            "UPDATE links SET url = '', url_hash = 0, title = NULL, tags = '[]', valid_since = NULL, \
             valid_until = NULL, rev = MAX(rev + 1, ",
        );
        update
            .push_bind(first.cast_signed())
            .push("), deleted_at = ");
        update
            .push_bind(now.cast_signed())
            .push(", updated_at = ")
            .push_bind(now.cast_signed());
        update.push(" WHERE id IN (");
        let mut values = update.separated(", ");
        for id in padded(ids) {
            values.push_bind(id.cast_signed());
        }
        update.push(")");
        let query = update.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn lock_tombstones(&mut self, kept: u64, limit: u32) -> Result<Vec<TombstoneRow>, Fault> {
        let query = query_as(concat!(
            "SELECT id, rev FROM links WHERE deleted_at <= ",
            now!(),
            " - ? ORDER BY deleted_at LIMIT ?"
        ))
        .bind(kept.cast_signed())
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn delete_rows(&mut self, ids: &[u64]) -> Result<(), Fault> {
        let mut delete = QueryBuilder::<Sqlite>::new("DELETE FROM links WHERE id IN (");
        let mut list = delete.separated(", ");
        for id in padded(ids) {
            list.push_bind(id.cast_signed());
        }
        delete.push(")");
        let query = delete.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }
}
