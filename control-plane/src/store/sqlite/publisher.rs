//! The publisher's statements in the dialect of SQLite.

use crate::clock;
use crate::store::PublisherState;
use crate::store::sql::fault::Fault;
use crate::store::sql::publisher::{
    OutboxRow, PendingKeysRow, PendingRow, PublisherRow, PublisherStatements, publisher_columns,
};
use crate::store::sql::session::Session;
use crate::store::sql::sizes::padded;
use edgelink_wire::FeedPosition;
use sqlx::{QueryBuilder, Sqlite, query, query_as};

/// The clock, which is the database's as well, before the statement looks at anything: unix time in microseconds. SQLite's own
/// function would answer what it is when a row is read.
fn now() -> i64 {
    clock::unix_micros().cast_signed()
}

impl PublisherStatements for Session<Sqlite> {
    async fn publisher(&mut self) -> Result<PublisherRow, Fault> {
        let query = query_as(concat!(
            "SELECT ? AS now, ",
            publisher_columns!(),
            " FROM publisher p WHERE p.id = 1"
        ))
        .bind(now());
        self.run(|c| query.fetch_one(c)).await
    }

    async fn lock_publisher(&mut self) -> Result<PublisherRow, Fault> {
        // A transaction that writes has the database to itself.
        self.publisher().await
    }

    async fn write_publisher(&mut self, state: &PublisherState) -> Result<(), Fault> {
        let query = query(
            "UPDATE publisher SET owner = ?, lease_until = ?, token = ?, generation = ?, position_millis = ?, \
             position_sequence = ?, kind = ?, rev_floor = ? WHERE id = 1",
        )
        .bind(state.owner.as_str())
        .bind(state.lease_until.cast_signed())
        .bind(state.token.cast_signed())
        .bind(state.generation.cast_signed())
        .bind(state.position.millis.cast_signed())
        .bind(state.position.sequence.cast_signed())
        .bind(state.kind.as_str())
        .bind(state.rev_floor.cast_signed());
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn pending(&mut self, limit: u32) -> Result<Vec<PendingRow>, Fault> {
        let query = query_as(concat!(
            "SELECT ? AS now, ",
            publisher_columns!(),
            ", o.id, o.link_keys, o.records \
             FROM publisher p LEFT JOIN (SELECT id FROM outbox ORDER BY id LIMIT ?) AS oldest ON TRUE \
             LEFT JOIN outbox o ON o.id = oldest.id WHERE p.id = 1"
        ))
        .bind(now())
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn pending_keys(&mut self, limit: u32) -> Result<Vec<PendingKeysRow>, Fault> {
        let query = query_as(concat!(
            "SELECT ? AS now, ",
            publisher_columns!(),
            ", o.link_keys FROM publisher p LEFT JOIN outbox o ON o.id >= 0 WHERE p.id = 1 LIMIT ?"
        ))
        .bind(now())
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }

    async fn outbox_size(&mut self) -> Result<OutboxRow, Fault> {
        let query = query_as(
            "SELECT ? AS now, (SELECT created_at FROM outbox ORDER BY id LIMIT 1) AS oldest, \
             (SELECT COUNT(*) FROM (SELECT id FROM outbox LIMIT 100000) AS waiting) AS rows_waiting"
        )
        .bind(now());
        self.run(|c| query.fetch_one(c)).await
    }

    async fn note_published(&mut self, token: u64, position: FeedPosition) -> Result<bool, Fault> {
        let query = query(
            "UPDATE publisher SET position_millis = ?, position_sequence = ? WHERE id = 1 AND token = ? \
             AND (position_millis < ? OR position_millis = ? AND position_sequence <= ?)",
        )
        .bind(position.millis.cast_signed())
        .bind(position.sequence.cast_signed())
        .bind(token.cast_signed())
        .bind(position.millis.cast_signed())
        .bind(position.millis.cast_signed())
        .bind(position.sequence.cast_signed());
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn forget_changes(&mut self, ids: &[u64]) -> Result<(), Fault> {
        let mut delete = QueryBuilder::<Sqlite>::new("DELETE FROM outbox WHERE id IN (");
        let mut list = delete.separated(", ");
        for id in padded(ids) {
            list.push_bind(id.cast_signed());
        }
        delete.push(")");
        let query = delete.build();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn skip_numbers(&mut self, count: u64, end: u64, generation: u64) -> Result<(), Fault> {
        let issuers = query("UPDATE issuers SET next = next + MIN(?, (MAX(?, next) - next) / 2)")
            .bind(count.cast_signed())
            .bind(end.cast_signed());
        self.run(|c| issuers.execute(c)).await?;
        let counters = query(
            "INSERT INTO counters (name, value) VALUES ('numbers', ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
        )
        .bind(count.cast_signed());
        self.run(|c| counters.execute(c)).await?;
        let note = query(
            "INSERT INTO counters (name, value) VALUES ('skipped_in', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(generation.cast_signed());
        self.run(|c| note.execute(c)).await?;
        Ok(())
    }
}
