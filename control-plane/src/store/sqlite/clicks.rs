//! The statements for clicks in SQLite's dialect.

use crate::store::CountedBatch;
use crate::store::sql::clicks::{AccountsRow, ClickStatements, MinuteRow};
use crate::store::sql::fault::Fault;
use crate::store::sql::session::Session;
use sqlx::{QueryBuilder, Sqlite, query, query_as, query_scalar};

impl ClickStatements for Session<Sqlite> {
    async fn note_batch(&mut self, batch: &CountedBatch) -> Result<bool, Fault> {
        let query = query(
            "INSERT INTO click_batches (worker, seq, received_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        )
        .bind(batch.worker.as_slice())
        .bind(batch.seq.cast_signed())
        .bind(batch.received_at.cast_signed());
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn account(&mut self, batch: &CountedBatch, counted: u64) -> Result<(), Fault> {
        let query = query(
            "INSERT INTO click_workers (worker, sent, dropped, counted, seen_at) VALUES (?, ?, ?, ?, ?) \
             ON CONFLICT (worker) DO UPDATE SET sent = MAX(sent, excluded.sent), \
             dropped = MAX(dropped, excluded.dropped), counted = counted + excluded.counted, \
             seen_at = excluded.seen_at",
        )
        .bind(batch.worker.as_slice())
        .bind(batch.sent.cast_signed())
        .bind(batch.dropped.cast_signed())
        .bind(counted.cast_signed())
        .bind(batch.received_at.cast_signed());
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn add_clicks(&mut self, rows: &[MinuteRow<'_>]) -> Result<(), Fault> {
        let mut insert =
            QueryBuilder::<Sqlite>::new("INSERT INTO click_minutes (minute, link_key, clicks) ");
        insert.push_values(rows, |mut values, row| {
            values
                .push_bind(row.minute.cast_signed())
                .push_bind(row.key)
                .push_bind(row.clicks.cast_signed());
        });
        insert.push(
            " ON CONFLICT (minute, link_key) DO UPDATE SET clicks = clicks + excluded.clicks",
        );
        let query = insert.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn hot_keys(&mut self, minute: u64, limit: u32) -> Result<Vec<Vec<u8>>, Fault> {
        let query = query_scalar(
            "SELECT link_key FROM click_minutes WHERE minute >= ? GROUP BY link_key \
             ORDER BY SUM(clicks) DESC, link_key LIMIT ?",
        )
        .bind(minute.cast_signed())
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn click_accounts(&mut self) -> Result<AccountsRow, Fault> {
        let query = query_as(
            "SELECT COALESCE(SUM(sent), 0) AS sent, COALESCE(SUM(counted), 0) AS counted, \
             COALESCE(SUM(dropped), 0) AS dropped FROM click_workers",
        );
        self.run(|c| query.fetch_one(c)).await
    }

    async fn purge_minutes(&mut self, minute: u64, limit: u32) -> Result<u64, Fault> {
        let query = query(
            "DELETE FROM click_minutes WHERE (minute, link_key) IN \
             (SELECT minute, link_key FROM click_minutes WHERE minute < ? LIMIT ?)",
        )
        .bind(minute.cast_signed())
        .bind(limit);
        self.about_to_last();
        Ok(self.run(|c| query.execute(c)).await?.rows_affected())
    }

    async fn purge_batches(&mut self, received_at: u64, limit: u32) -> Result<u64, Fault> {
        let query = query(
            "DELETE FROM click_batches WHERE (worker, seq) IN \
             (SELECT worker, seq FROM click_batches WHERE received_at < ? LIMIT ?)",
        )
        .bind(received_at.cast_signed())
        .bind(limit);
        self.about_to_last();
        Ok(self.run(|c| query.execute(c)).await?.rows_affected())
    }
}
