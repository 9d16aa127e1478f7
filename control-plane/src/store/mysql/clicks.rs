//! The statements for clicks in the dialect that MySQL and MariaDB share.

use crate::store::CountedBatch;
use crate::store::sql::clicks::{AccountsRow, ClickStatements, MinuteRow};
use crate::store::sql::fault::Fault;
use crate::store::sql::session::Session;
use sqlx::{MySql, QueryBuilder, query, query_as, query_scalar};

impl ClickStatements for Session<MySql> {
    async fn note_batch(&mut self, batch: &CountedBatch) -> Result<bool, Fault> {
        let query =
            query("INSERT IGNORE INTO click_batches (worker, seq, received_at) VALUES (?, ?, ?)")
                .bind(batch.worker.as_slice())
                .bind(batch.seq)
                .bind(batch.received_at);
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn account(&mut self, batch: &CountedBatch, counted: u64) -> Result<(), Fault> {
        let query = query(
            "INSERT INTO click_workers (worker, sent, dropped, counted, seen_at) VALUES (?, ?, ?, ?, ?) \
             ON DUPLICATE KEY UPDATE sent = GREATEST(sent, VALUES(sent)), \
             dropped = GREATEST(dropped, VALUES(dropped)), counted = counted + VALUES(counted), \
             seen_at = VALUES(seen_at)",
        )
        .bind(batch.worker.as_slice())
        .bind(batch.sent)
        .bind(batch.dropped)
        .bind(counted)
        .bind(batch.received_at);
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn add_clicks(&mut self, rows: &[MinuteRow<'_>]) -> Result<(), Fault> {
        let mut insert =
            QueryBuilder::<MySql>::new("INSERT INTO click_minutes (minute, link_key, clicks) ");
        insert.push_values(rows, |mut values, row| {
            values
                .push_bind(row.minute)
                .push_bind(row.key.as_bytes())
                .push_bind(row.clicks);
        });
        insert.push(" ON DUPLICATE KEY UPDATE clicks = clicks + VALUES(clicks)");
        let query = insert.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn hot_keys(&mut self, minute: u64, limit: u32) -> Result<Vec<Vec<u8>>, Fault> {
        let query = query_scalar(
            "SELECT link_key FROM click_minutes WHERE minute >= ? GROUP BY link_key \
             ORDER BY SUM(clicks) DESC, link_key LIMIT ?",
        )
        .bind(minute)
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn click_accounts(&mut self) -> Result<AccountsRow, Fault> {
        let query = query_as(
            "SELECT CAST(COALESCE(SUM(sent), 0) AS UNSIGNED) AS sent, \
             CAST(COALESCE(SUM(counted), 0) AS UNSIGNED) AS counted, \
             CAST(COALESCE(SUM(dropped), 0) AS UNSIGNED) AS dropped FROM click_workers",
        );
        self.run(|c| query.fetch_one(c)).await
    }

    async fn purge_minutes(&mut self, minute: u64, limit: u32) -> Result<u64, Fault> {
        let query = query("DELETE FROM click_minutes WHERE minute < ? ORDER BY minute LIMIT ?")
            .bind(minute)
            .bind(limit);
        self.about_to_last();
        Ok(self.run(|c| query.execute(c)).await?.rows_affected())
    }

    async fn purge_batches(&mut self, received_at: u64, limit: u32) -> Result<u64, Fault> {
        let query =
            query("DELETE FROM click_batches WHERE received_at < ? ORDER BY received_at LIMIT ?")
                .bind(received_at)
                .bind(limit);
        self.about_to_last();
        Ok(self.run(|c| query.execute(c)).await?.rows_affected())
    }
}
