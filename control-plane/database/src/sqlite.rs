//! The embedded database: one file, one process that writes.

use super::calls::{Connections, Database, Place, Pools};
use super::error::{Fault, StoreError};
use super::session::{IDLE_TIMEOUT, Pool};
use edgelink_model::clock;
use edgelink_settings::config::StoreConfig;
use edgelink_wire::backoff::Bounds;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqlitePool};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

const CONTEXT: &str = "opening the SQLite database";

/// SQLite has no packets; this bounds the memory of one statement.
const MAX_BYTES: usize = 4 << 20;

/// The pauses before retries to open a file that another process opens for the first time.
const OPEN_PAUSES: Bounds = Bounds {
    first_millis: 5,
    cap_millis: 100,
};

/// Opens a file, or creates it.
pub(super) async fn connect(url: &str, config: &StoreConfig) -> Result<Database, StoreError> {
    let connect = parse(url)?
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        // A commit is on the disk before it is answered: 201 means durable.
        .synchronous(SqliteSynchronous::Full)
        // Waits for another writing process (the command line), but not for the whole statement timeout.
        .busy_timeout(config.timeout_ms / 2)
        // The store has metrics of its own; log lines of slow statements add nothing.
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new().acquire_timeout(config.timeout_ms);
    // Writers of one file only wait for each other. Behind one connection they do so in order of arrival.
    let writer = pool
        .clone()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None);
    let writers = open(writer, &connect, config.timeout_ms).await?;
    let connect = connect.read_only(true);
    let readers = |connections| {
        let pool = pool.clone().max_connections(connections);
        let pool = pool.idle_timeout(IDLE_TIMEOUT);
        Pools {
            readers: Pool::Sqlite(pool.connect_lazy_with(connect.clone())),
            writers: Pool::Sqlite(writers.clone()),
        }
    };
    let most_readers = config.max_connections.saturating_sub(1).max(1);
    let connections = Connections {
        shared: readers(most_readers),
        control: readers(config.control_connections),
        bulkheads: Connections::bulkheads(config, most_readers),
    };
    let max_bytes = Arc::new(AtomicUsize::new(MAX_BYTES));
    let place = Place::File(parse(url)?.get_filename().to_owned());
    Ok(Database::new(connections, config, max_bytes, place))
}

/// The file that a URL names; `None` if it names none.
pub(super) fn file(url: &str) -> Option<PathBuf> {
    let options = parse(url).ok()?;
    Some(options.get_filename().to_owned())
}

/// Opens the file. While another process switches a new one to write-ahead logging, SQLite may be busy at once: it does
/// not wait where both could wait for each other (sqlite3_busy_handler, "C-language Interface").
async fn open(
    pool: SqlitePoolOptions,
    connect: &SqliteConnectOptions,
    within: Duration,
) -> Result<SqlitePool, StoreError> {
    let begun = Instant::now();
    let mut failures = 0;
    loop {
        match pool.clone().connect_with(connect.clone()).await {
            Ok(pool) => return Ok(pool),
            Err(error) => {
                let error = refused(error);
                failures += 1;
                if !error.transient || begun.elapsed() >= within {
                    return Err(error);
                }
                tokio::time::sleep(clock::pause_after(failures, OPEN_PAUSES)).await;
            }
        }
    }
}

fn parse(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    // Every connection to memory would be a database of its own.
    if url.contains(":memory:") || url.contains("mode=memory") {
        let source = "must name a file: an in-memory database is lost at exit".into();
        return Err(StoreError {
            context: CONTEXT,
            transient: false,
            source,
        });
    }
    SqliteConnectOptions::from_str(url).map_err(refused)
}

fn refused(error: sqlx::Error) -> StoreError {
    let fault = Fault::Sql(error);
    let remedy = fault.remedy();
    fault.into_error(CONTEXT, remedy)
}
