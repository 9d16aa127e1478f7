//! Rollups of clicks by link and value once their day is complete, and of months along with their last day.
//!
//! `built_days` lists the days that are done. A day that was interrupted is redone from its beginning.

use super::super::engine::EngineError;
use super::super::interval::first_of_month;
use super::connection::{Built, Connection};
use super::schema::{Kept, TABLES};
use super::sql::Sql;
use super::writing::clear;
use std::time::Duration;

const DAY: u64 = 86_400;

const HOUR: u64 = 3_600;

/// Time limit of a statement that rolls up a day or a month.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Rolls up the next day if it is complete, and returns whether it was. All clicks before `settled` (unix seconds) are written.
pub(super) async fn build(connection: &Connection, settled: u64) -> Result<bool, EngineError> {
    // Another replica may have rolled up days just now.
    connection.forget_built();
    let Some(day) = next(connection).await? else {
        return Ok(false);
    };
    if (day + 1) * DAY + HOUR > settled {
        return Ok(false);
    }
    let client = connection.ready().await?;
    let (name, limit) = (connection.fill_name(), LIMIT.as_secs().to_string());
    connection.await_end(&name).await?;
    let is_last_of_month = first_of_month(day + 1) == day + 1;
    let tables = TABLES
        .iter()
        .filter(|table| table.is_filled_late())
        .filter(|table| table.kept != Kept::Months || is_last_of_month);
    for table in tables {
        clear(connection, table, day).await?;
        for fill in table.fill(day) {
            let fill = client.query_raw(&fill).with_setting("query_id", &name);
            let filled = fill.with_setting("max_execution_time", &limit).execute();
            connection.call_within(LIMIT, filled).await?;
        }
    }
    let done = format!("INSERT INTO built_days (day) VALUES (toDate({day}))");
    connection.execute(client.query_raw(&done)).await?;
    connection.forget_built();
    Ok(true)
}

/// The next day to roll up; `None` if there are no clicks.
async fn next(connection: &Connection) -> Result<Option<u64>, EngineError> {
    let Built { until, .. } = connection.built().await?;
    if until > 0 {
        return Ok(Some(until));
    }
    let first = "SELECT toUInt64(toUInt32(min(toDate(hour)))), count() FROM domain_hours";
    let (first, rows): (u64, u64) = connection.one(Sql::new(first)).await?;
    Ok((rows > 0).then_some(first))
}
