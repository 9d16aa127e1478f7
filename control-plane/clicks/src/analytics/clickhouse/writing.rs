//! Exactly-once writing of a chunk.
//!
//! ClickHouse drops an insert whose token it has seen, also in the tables that views fill. Servers before
//! [`Dialect::Modern`] cannot: there the rows are looked up first. The view that fills [`NOTED`] runs after all others and
//! marks an insert as completed. If the rows exist without that mark, the day is rolled up again.

use super::super::chunk::Chunk;
use super::super::engine::EngineError;
use super::super::model::Orphan;
use super::columns;
use super::connection::{Connection, PAUSE};
use super::rows::{RawRow, block, first_number};
use super::schema::{Content, Dialect, Kept, NOTED, NUMBERS_OF_INSERT, TABLES, Table};
use super::sql::Sql;
use bytes::Bytes;
use clickhouse::Client;
use edgelink_model::runtime::aside;
use tokio::time::{Instant, sleep};

/// Factor on the time limit of queries for inserts and deletions.
pub(super) const LONGER: u32 = 6;

/// More rows than any chunk has, so that an insert is one block.
const ROWS_OF_BLOCK: &str = "16777216";

const DAY: u64 = 86_400;

/// The most bytes that are sent at once.
const PIECE: usize = 1 << 20;

/// Writes the clicks of a chunk, and orphan visits, which count once however often this is called with that id.
pub(super) async fn write(
    connection: &Connection,
    insert_id: u64,
    chunk: &Chunk,
    orphans: &[Orphan],
) -> Result<(), EngineError> {
    let (_, dialect) = connection.ready().await?;
    let insert = |table| Insert {
        connection,
        table,
        id: insert_id,
        send_until: chunk.send_until,
        dialect,
    };
    let clicks = insert("clicks");
    let rows = numbered(chunk, insert_id);
    match dialect {
        Dialect::Modern => {
            // A view for it would take most of the server's time. Values come first, so that no click seems to lack one.
            if let Some(block) = aside(|| columns::values(chunk)) {
                insert("value_hours").send(block).await?;
            }
            if !rows.is_empty() {
                let block = aside(|| columns::clicks(chunk, &rows, dialect));
                clicks.send(block).await?;
            }
        }
        Dialect::Classic => {
            let day = |(row, _): &(usize, u64)| chunk.clicks.at[*row] / DAY;
            clicks
                .send_days(rows, day, |rows| columns::clicks(chunk, rows, dialect))
                .await?;
        }
    }
    let numbered = (first_number(insert_id)..).zip(orphans);
    let rows: Vec<RawRow<'_>> = numbered
        .map(|(number, orphan)| RawRow::of_orphan(orphan, number))
        .collect();
    let insert = insert("orphans");
    match dialect {
        _ if rows.is_empty() => Ok(()),
        Dialect::Modern => insert.send(block(&rows)).await,
        Dialect::Classic => insert.send_days(rows, RawRow::day, block).await,
    }
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
    dialect: Dialect,
}

impl Insert<'_> {
    /// Sends a block of rows in one request.
    async fn send(&self, block: Vec<u8>) -> Result<(), EngineError> {
        let (client, _) = self.connection.ready().await?;
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
                .with_setting("min_insert_block_size_bytes", "0");
            let name = self.name();
            insert = match self.dialect {
                Dialect::Classic => insert.with_setting("query_id", name),
                Dialect::Modern => insert
                    .with_setting("async_insert", "0")
                    .with_setting("insert_deduplication_token", name)
                    .with_setting("deduplicate_blocks_in_dependent_materialized_views", "1")
                    .with_setting("parallel_view_processing", "1"),
            };
            while !block.is_empty() {
                insert.send(block.split_to(block.len().min(PIECE))).await?;
            }
            insert.end().await
        };
        self.connection.call_within(limit * LONGER, send).await
    }

    /// Sends the rows of each day unless the table has them, in [`Dialect::Classic`]. The rows of a day become one part of the table,
    /// which exists as a whole or not at all.
    async fn send_days<T>(
        &self,
        mut rows: Vec<T>,
        day: impl Fn(&T) -> u64,
        block: impl Fn(&[T]) -> Vec<u8>,
    ) -> Result<(), EngineError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.connection.await_end(&self.name()).await?;
        rows.sort_by_key(&day);
        for rows in rows.chunk_by(|a, b| day(a) == day(b)) {
            let Some(day) = rows.first().map(&day) else {
                continue;
            };
            if !self.is_there(self.table, day).await? {
                self.send(aside(|| block(rows))).await?;
            } else if self.table == "clicks" && !self.is_there(NOTED, day).await? {
                self.complete(day).await?;
            }
        }
        Ok(())
    }

    /// True if a table has a row of this insert on a day, by the numbers of clicks.
    async fn is_there(&self, table: &str, day: u64) -> Result<bool, EngineError> {
        let first = first_number(self.id);
        let sql = Sql::new(&format!("SELECT count() FROM {table} WHERE number >= "))
            .number(first)
            .text(" AND number < ")
            .number(first + NUMBERS_OF_INSERT)
            .text(" AND ")
            .within("at", &(day * DAY..(day + 1) * DAY));
        let rows: u64 = self.connection.one(sql).await?;
        Ok(rows > 0)
    }

    /// Rolls a day up again whose clicks are written but may be missing from some views, and marks the insert as completed.
    async fn complete(&self, day: u64) -> Result<(), EngineError> {
        let (client, dialect) = self.connection.ready().await?;
        let limit = self.connection.settings().clickhouse_timeout_ms * LONGER;
        let rollups = TABLES
            .iter()
            .filter(|table| table.has_view(dialect) && table.content != Content::Inserts);
        for table in rollups {
            let condition = format!("WHERE toDate(at) = toDate({day})");
            let Some(select) = table.select(&condition) else {
                continue;
            };
            clear(self.connection, table, day).await?;
            let columns: Vec<&str> = table.columns().into_iter().map(|(name, _)| name).collect();
            let columns = columns.join(", ");
            let fill = format!("INSERT INTO {} ({columns}) {select}", table.name);
            let filled = client.query_raw(&fill).execute();
            self.connection.call_within(limit, filled).await?;
        }
        let first = first_number(self.id);
        let note = format!(
            "INSERT INTO {NOTED} (number, at) VALUES ({first}, {})",
            day * DAY
        );
        self.connection.execute(client.query_raw(&note)).await
    }

    fn name(&self) -> String {
        format!("{}-{}", self.id, self.table)
    }
}

/// Removes a day from a table before it is filled again.
///
/// Partitions span several days, and servers of [`Dialect::Classic`] may undo dropping one: merged parts stay on disk for 8 minutes,
/// and return if the server is killed meanwhile. Rows that a mutation deletes stay deleted.
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
    let (client, _) = connection.ready().await?;
    let delete = Sql::new(&format!("ALTER TABLE {} DELETE {of_day}", table.name));
    mutate(connection, &client, delete).await
}

/// Executes a mutation and waits until it is done.
pub(super) async fn mutate(
    connection: &Connection,
    client: &Client,
    sql: Sql,
) -> Result<(), EngineError> {
    let (_, dialect) = connection.ready().await?;
    let limit = connection.settings().clickhouse_timeout_ms * LONGER;
    if dialect == Dialect::Modern {
        let client = client.clone().with_setting("mutations_sync", "1");
        return connection
            .call_within(limit, sql.query(&client, dialect).execute())
            .await;
    }
    connection.execute(sql.query(client, dialect)).await?;
    let start = Instant::now();
    let waiting =
        "SELECT count() FROM system.mutations WHERE database = currentDatabase() AND is_done = 0";
    while connection.one::<u64>(Sql::new(waiting)).await? > 0 {
        if start.elapsed() > limit {
            let late = "a deletion takes too long";
            return Err(EngineError::ClickHouse(late.to_owned()));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Drops data past its retention, in [`Dialect::Classic`]; `now` in unix seconds.
pub(super) async fn expire(connection: &Connection, now: u64) -> Result<(), EngineError> {
    let (client, dialect) = connection.ready().await?;
    if dialect == Dialect::Modern {
        return Ok(());
    }
    let built = connection.built().await?.until;
    for table in TABLES
        .iter()
        .filter(|table| table.content != Content::Built)
    {
        let days = table.kept.days(connection.settings());
        let Some(days) = days.filter(|_| !table.is_virtual(dialect)) else {
            continue;
        };
        let mut first_kept = (now / DAY).saturating_sub(days);
        if table.kept == Kept::Hours {
            // Days that are not rolled up yet stay.
            first_kept = first_kept.min(built);
        }
        let over = format!(
            "SELECT DISTINCT partition FROM system.parts \
             WHERE active AND database = currentDatabase() AND table = ? AND {} < toDate(?)",
            table.last_day()
        );
        let over = client.query(&over).bind(table.name).bind(first_kept);
        for partition in connection.call(over.fetch_all::<String>()).await? {
            // Dates are quoted, months and years are numbers.
            let quote = if partition.contains('-') { "'" } else { "" };
            let drop = format!(
                "ALTER TABLE {} DROP PARTITION {quote}{partition}{quote}",
                table.name
            );
            connection.execute(client.query_raw(&drop)).await?;
        }
    }
    Ok(())
}
