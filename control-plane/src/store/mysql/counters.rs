//! Named numbers.

use crate::store::sql::counters::CounterStatements;
use crate::store::sql::fault::Fault;
use crate::store::sql::rows::Unsigned;
use crate::store::sql::session::Session;
use sqlx::{MySql, query, query_scalar};

impl CounterStatements for Session<MySql> {
    async fn find_counter(&mut self, name: &str) -> Result<Option<u64>, Fault> {
        let query = query_scalar("SELECT value FROM counters WHERE name = ?").bind(name.as_bytes());
        let value: Option<Unsigned> = self.run(|c| query.fetch_optional(c)).await?;
        Ok(value.map(|value| value.0))
    }

    async fn insert_counter(&mut self, name: &str, value: u64, token: u64) -> Result<bool, Fault> {
        let query = query(
            "INSERT INTO counters (name, value) SELECT ?, ? FROM publisher WHERE id = 1 AND token >= ?",
        )
            .bind(name.as_bytes())
            .bind(value)
        .bind(token);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn swap_counter(
        &mut self,
        name: &str,
        expected: u64,
        new: u64,
        token: u64,
    ) -> Result<bool, Fault> {
        let query = query(
            "UPDATE counters SET value = ? WHERE name = ? AND value = ? \
 AND (SELECT token FROM publisher WHERE id = 1) >= ?",
        )
        .bind(new)
        .bind(name.as_bytes())
        .bind(expected)
        .bind(token);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }
}
