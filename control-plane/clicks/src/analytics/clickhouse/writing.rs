//! Exactly-once writing of a chunk.
//!
//! ClickHouse drops an insert whose token it has seen, also in the tables that views fill.

use super::super::chunk::Chunk;
use super::super::engine::EngineError;
use super::super::model::Orphan;
use super::columns;
use super::connection::Connection;
use super::rows::{ClickHouseRow, block, first_number};
use super::schema::Table;
use super::sql::Sql;
use bytes::Bytes;
use edgelink_model::runtime::aside;
use tokio::time::Instant;

/// Factor on the time limit of queries for inserts and deletions.
pub(super) const LONGER: u32 = 6;

/// More rows than any chunk has, so that an insert is one block.
const ROWS_OF_BLOCK: &str = "16777216";

/// The most bytes that are sent at once.
const PIECE: usize = 1 << 20;

/// Writes the clicks of a chunk, and orphan visits, which count once however often this is called with that id.
pub(super) async fn write(
    connection: &Connection,
    insert_id: u64,
    chunk: &Chunk,
    orphans: &[Orphan],
) -> Result<(), EngineError> {
    let insert = |table| Insert {
        connection,
        table,
        id: insert_id,
        send_until: chunk.send_until,
    };
    // A view for it would take most of the server's time. Values come first, so that no click seems to lack one.
    if let Some(block) = aside(|| columns::values(chunk)) {
        insert("value_hours").send(block).await?;
    }
    let rows = numbered(chunk, insert_id);
    if !rows.is_empty() {
        let block = aside(|| columns::clicks(chunk, &rows));
        insert("clicks").send(block).await?;
    }
    let numbered = (first_number(insert_id)..).zip(orphans);
    let rows: Vec<ClickHouseRow<'_>> = numbered
        .map(|(number, orphan)| ClickHouseRow::of_orphan(orphan, number))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    insert("orphans").send(block(&rows)).await
}

/// Rows of clicks, each with the first of its numbers.
fn numbered(chunk: &Chunk, insert_id: u64) -> Vec<(usize, u64)> {
    let mut next = first_number(insert_id);
    let number = |(row, count): (usize, &u64)| {
        let number = next;
        next += count;
        (row, number)
    };
    chunk.clicks.count.iter().enumerate().map(number).collect()
}

/// Rows for a table.
#[derive(Clone, Copy)]
struct Insert<'a> {
    connection: &'a Connection,
    table: &'static str,
    id: u64,
    send_until: Option<Instant>,
}

impl Insert<'_> {
    /// Sends a block of rows in one request.
    async fn send(&self, block: Vec<u8>) -> Result<(), EngineError> {
        let client = self.connection.ready().await?;
        let limit = self.connection.settings().clickhouse_timeout_ms;
        if self.send_until.is_some_and(|until| Instant::now() > until) {
            let late = "the lease of the writer of clicks is half over before they are sent: they are read again";
            return Err(EngineError::ClickHouse(late.to_owned()));
        }
        let mut block = Bytes::from(block);
        let send = async {
            let mut insert = client
                .insert_formatted_with(format!("INSERT INTO {} FORMAT Native", self.table))
                .with_timeouts(Some(limit), None)
                .with_setting("max_insert_block_size", ROWS_OF_BLOCK)
                .with_setting("min_insert_block_size_rows", ROWS_OF_BLOCK)
                .with_setting("min_insert_block_size_bytes", "0")
                .with_setting("async_insert", "0")
                .with_setting("insert_deduplication_token", self.name())
                .with_setting("deduplicate_blocks_in_dependent_materialized_views", "1")
                .with_setting("parallel_view_processing", "1");
            while !block.is_empty() {
                insert.send(block.split_to(block.len().min(PIECE))).await?;
            }
            insert.end().await
        };
        self.connection.call_within(limit * LONGER, send).await
    }

    fn name(&self) -> String {
        format!("{}-{}", self.id, self.table)
    }
}

/// Removes a day from a table before it is filled again. Partitions span several days.
pub(super) async fn clear(
    connection: &Connection,
    table: &Table,
    day: u64,
) -> Result<(), EngineError> {
    let of_day = table.kept.on_day(day);
    let rows = Sql::new(&format!("SELECT count() FROM {} {of_day}", table.name));
    if connection.one::<u64>(rows).await? == 0 {
        return Ok(());
    }
    let delete = Sql::new(&format!("ALTER TABLE {} DELETE {of_day}", table.name));
    mutate(connection, delete).await
}

/// Executes a mutation and waits until it is done.
pub(super) async fn mutate(connection: &Connection, sql: Sql) -> Result<(), EngineError> {
    let client = connection.ready().await?;
    let client = client.with_setting("mutations_sync", "1");
    let limit = connection.settings().clickhouse_timeout_ms * LONGER;
    let mutation = sql.query(&client).execute();
    connection.call_within(limit, mutation).await
}
