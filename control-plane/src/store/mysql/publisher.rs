//! The publisher's statements in the dialect that MySQL and MariaDB share.

use crate::store::PublisherState;
use crate::store::sql::fault::Fault;
use crate::store::sql::publisher::{
    OutboxRow, PendingKeysRow, PendingRow, PublisherRow, PublisherStatements, publisher_columns,
};
use crate::store::sql::session::Session;
use crate::store::sql::sizes::padded;
use edgelink_wire::FeedPosition;
use sqlx::{MySql, QueryBuilder, query, query_as};

/// The database's clock when the statement began, which is before it looks at anything: unix time in microseconds.
macro_rules! now {
    () => {
        "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)"
    };
}

impl PublisherStatements for Session<MySql> {
    async fn publisher(&mut self) -> Result<PublisherRow, Fault> {
        let query = query_as(concat!(
            "SELECT ",
            now!(),
            " AS now, ",
            publisher_columns!(),
            " FROM publisher p WHERE p.id = 1"
        ));
        self.run(|c| query.fetch_one(c)).await
    }

    async fn lock_publisher(&mut self) -> Result<PublisherRow, Fault> {
        let query = query_as(concat!(
            "SELECT ",
            now!(),
            " AS now, ",
            publisher_columns!(),
            " FROM publisher p WHERE p.id = 1 FOR UPDATE"
        ));
        self.run(|c| query.fetch_one(c)).await
    }

    async fn write_publisher(&mut self, state: &PublisherState) -> Result<(), Fault> {
        let query = query(
            "UPDATE publisher SET owner = ?, lease_until = ?, token = ?, generation = ?, position_millis = ?, \
             position_sequence = ?, kind = ?, rev_floor = ? WHERE id = 1",
        )
        .bind(state.owner.as_bytes())
        .bind(state.lease_until)
        .bind(state.token)
        .bind(state.generation)
        .bind(state.position.millis)
        .bind(state.position.sequence)
        .bind(state.kind.as_bytes())
        .bind(state.rev_floor);
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn pending(&mut self, limit: u32) -> Result<Vec<PendingRow>, Fault> {
        // Sorted as numbers alone: MariaDB would copy all rows with their contents into a temporary table.
        let query = query_as(concat!(
            "SELECT ",
            now!(),
            " AS now, ",
            publisher_columns!(),
            ", o.id, o.link_keys, o.records \
             FROM publisher p LEFT JOIN (SELECT id FROM outbox ORDER BY id LIMIT ?) AS oldest ON TRUE \
             LEFT JOIN outbox o ON o.id = oldest.id WHERE p.id = 1"
        ))
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn pending_keys(&mut self, limit: u32) -> Result<Vec<PendingKeysRow>, Fault> {
        let query = query_as(concat!(
            "SELECT ",
            now!(),
            " AS now, ",
            publisher_columns!(),
            ", o.link_keys FROM publisher p LEFT JOIN outbox o ON o.id >= 0 WHERE p.id = 1 LIMIT ?"
        ))
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn outbox_size(&mut self) -> Result<OutboxRow, Fault> {
        let query = query_as(concat!(
            "SELECT ",
            now!(),
            " AS now, (SELECT created_at FROM outbox ORDER BY id LIMIT 1) AS oldest, \
             (SELECT CAST(COUNT(*) AS UNSIGNED) FROM (SELECT id FROM outbox LIMIT 100000) AS waiting) AS rows_waiting"
        ));
        self.run(|c| query.fetch_one(c)).await
    }

    async fn note_published(&mut self, token: u64, position: FeedPosition) -> Result<bool, Fault> {
        let query = query(
            "UPDATE publisher SET position_millis = ?, position_sequence = ? WHERE id = 1 AND token = ? \
             AND (position_millis < ? OR position_millis = ? AND position_sequence <= ?)",
        )
        .bind(position.millis)
        .bind(position.sequence)
        .bind(token)
        .bind(position.millis)
        .bind(position.millis)
        .bind(position.sequence);
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn forget_changes(&mut self, ids: &[u64]) -> Result<(), Fault> {
        let mut delete = QueryBuilder::<MySql>::new("DELETE FROM outbox WHERE id IN (");
        let mut list = delete.separated(", ");
        for id in padded(ids) {
            list.push_bind(*id);
        }
        delete.push(")");
        let query = delete.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn skip_numbers(&mut self, count: u64, end: u64, generation: u64) -> Result<(), Fault> {
        let issuers =
            query("UPDATE issuers SET next = next + LEAST(?, (GREATEST(?, next) - next) DIV 2)")
                .bind(count)
                .bind(end);
        self.run(|c| issuers.execute(c)).await?;
        let counters = query(
            "INSERT INTO counters (name, value) VALUES ('numbers', ?) ON DUPLICATE KEY UPDATE value = value + VALUES(value)",
        )
        .bind(count);
        self.run(|c| counters.execute(c)).await?;
        let note = query(
            "INSERT INTO counters (name, value) VALUES ('skipped_in', ?) ON DUPLICATE KEY UPDATE value = VALUES(value)",
        )
        .bind(generation);
        self.run(|c| note.execute(c)).await?;
        Ok(())
    }
}
