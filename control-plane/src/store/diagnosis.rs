//! What the database says of itself: version, settings, clock, and which migrations it has.

use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::migrate;
use super::session::PooledConnection;
use super::sql::sql;
use crate::clock;
use sqlx::{Row, raw_sql};
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// The variables of MySQL and MariaDB that matter, as far as the server has them.
const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN \
    ('innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'innodb_doublewrite', 'read_only', \
     'max_connections', 'max_allowed_packet', 'time_zone', 'tx_isolation', 'transaction_isolation', 'sql_mode')";

/// A server of the database, or the library of SQLite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseServer {
    /// Its version, as it says it.
    pub version: String,
    /// Whether it is SQLite.
    pub is_sqlite: bool,
    /// Settings by name, as they are on a connection of this process; none of SQLite.
    pub variables: HashMap<String, String>,
    /// By how many milliseconds its clock is ahead of ours.
    pub ahead_millis: i64,
}

impl DatabaseServer {
    /// A setting; "unknown" if the server has none of that name.
    #[must_use]
    pub fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("unknown", String::as_str)
    }
}

/// Migrations of the schema, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaState {
    /// Those that this version has and the database has not.
    pub missing: Vec<i64>,
    /// Those that began and have not come to their end.
    pub unfinished: Vec<i64>,
    /// Those of later versions.
    pub later: Vec<i64>,
}

impl SchemaState {
    /// An error unless this version can work with the schema.
    fn check(&self) -> Result<(), StoreError> {
        let found = match (&self.missing, &self.unfinished) {
            (missing, _) if !missing.is_empty() => format!("migrations {missing:?} are missing"),
            (_, begun) if !begun.is_empty() => {
                format!("migrations {begun:?} began and have not come to their end")
            }
            _ => return Ok(()),
        };
        Err(StoreError {
            context: "checking the schema",
            transient: false,
            source: format!("{found}: run 'edgelink migrate' of this version").into(),
        })
    }
}

impl Store {
    /// An error unless the database has the schema of this version, or a later one.
    pub(super) async fn require_schema(&self) -> Result<(), StoreError> {
        let state = self.schema().await.map_err(|error| {
            if error.transient {
                error
            } else {
                StoreError {
                    source: format!(
                        "{}: run 'edgelink migrate' if it has no schema yet",
                        error.source
                    )
                    .into(),
                    ..error
                }
            }
        })?;
        state.check()
    }

    /// What the server says of itself.
    pub async fn server(&self) -> Result<DatabaseServer, StoreError> {
        run!(self.read("server", "asking for settings"), |session| {
            let (now, binds) = session.dialect().clock();
            let asked = (Instant::now(), clock::unix_micros());
            let query = sql(format!("SELECT {now} AS now")).bind_all(binds);
            let (now,): (u64,) = session.fetch_one(query).await?;
            // Somewhere between question and answer: in the middle.
            let here = asked.1 + u64::try_from(asked.0.elapsed().as_micros() / 2).unwrap_or(0);
            let mut server = match session.unbounded() {
                PooledConnection::MySql(connection) => mysql(connection).await?,
                PooledConnection::Sqlite(connection) => sqlite(connection).await?,
            };
            server.ahead_millis = now.cast_signed().wrapping_sub(here.cast_signed()) / 1000;
            Ok(server)
        })
    }

    /// Which migrations the database has.
    pub async fn schema(&self) -> Result<SchemaState, StoreError> {
        run!(self.read("schema", "reading the migrations"), |session| {
            let known = match session.unbounded() {
                PooledConnection::MySql(_) => migrate::mysql(),
                PooledConnection::Sqlite(_) => migrate::sqlite(),
            };
            let known: BTreeSet<i64> = known.iter().map(|migration| migration.version).collect();
            let query = sql("SELECT version, success FROM _sqlx_migrations ORDER BY version");
            let rows: Vec<(i64, bool)> = session.fetch_all(query).await?;
            let of = |is_done| {
                let rows = rows.iter().filter(move |(_, success)| *success == is_done);
                rows.map(|(version, _)| *version).collect::<BTreeSet<_>>()
            };
            let (done, unfinished) = (of(true), of(false));
            let begun: BTreeSet<i64> = done.union(&unfinished).copied().collect();
            Ok(SchemaState {
                missing: known.difference(&begun).copied().collect(),
                later: done.difference(&known).copied().collect(),
                unfinished: unfinished.into_iter().collect(),
            })
        })
    }
}

async fn mysql(connection: &mut sqlx::MySqlConnection) -> Result<DatabaseServer, Fault> {
    let mut variables = HashMap::new();
    for row in raw_sql(VARIABLES).fetch_all(&mut *connection).await? {
        let name: String = row.try_get_unchecked(0)?;
        variables.insert(name, row.try_get_unchecked(1)?);
    }
    let version = raw_sql("SELECT VERSION()").fetch_one(connection).await?;
    Ok(DatabaseServer {
        version: version.try_get_unchecked(0)?,
        variables,
        ..DatabaseServer::default()
    })
}

async fn sqlite(connection: &mut sqlx::SqliteConnection) -> Result<DatabaseServer, Fault> {
    let row = raw_sql("SELECT sqlite_version()")
        .fetch_one(connection)
        .await?;
    Ok(DatabaseServer {
        version: row.try_get_unchecked(0)?,
        is_sqlite: true,
        ..DatabaseServer::default()
    })
}
