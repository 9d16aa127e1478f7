//! Diagnosis of the database: version, settings, clock, and applied migrations.

use super::migrate;
use crate::Store;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::PooledConnection;
use edgelink_database::sql::sql;
use edgelink_model::clock;
use sqlx::{Row, raw_sql};
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// The relevant variables of MySQL and MariaDB, as far as the server has them.
const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN \
    ('innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'innodb_doublewrite', 'read_only', \
     'max_connections', 'max_allowed_packet', 'time_zone', 'tx_isolation', 'transaction_isolation', 'sql_mode')";

/// A database server, or the SQLite library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseServer {
    /// Its version, as reported.
    pub version: String,
    /// True for SQLite.
    pub is_sqlite: bool,
    /// Settings by name, as seen on a connection of this process; empty for SQLite.
    pub variables: HashMap<String, String>,
    /// Milliseconds by which its clock is ahead of ours.
    pub ahead_millis: i64,
}

impl DatabaseServer {
    /// A setting; "unknown" if the server has none with this name.
    #[must_use]
    pub fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("unknown", String::as_str)
    }
}

/// Migrations of the schema, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaState {
    /// Migrations of this version that the database lacks.
    pub missing: Vec<i64>,
    /// Migrations that began, but have not finished.
    pub unfinished: Vec<i64>,
    /// Migrations of later versions.
    pub later: Vec<i64>,
}

impl SchemaState {
    /// Fails unless this version can work with the schema.
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
    /// Fails unless the database has the schema of this version, or a later one.
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

    /// Reads version, settings and clock of the server.
    pub async fn server(&self) -> Result<DatabaseServer, StoreError> {
        run!(self.read("server", "reading settings"), |session| {
            let (now, binds) = session.dialect().clock();
            let asked = (Instant::now(), clock::unix_micros());
            let query = sql(format!("SELECT {now} AS now")).bind_all(binds);
            let (now,): (u64,) = session.fetch_one(query).await?;
            // Its clock was read somewhere between query and answer: the middle is assumed.
            let here = asked.1 + u64::try_from(asked.0.elapsed().as_micros() / 2).unwrap_or(0);
            let mut server = match session.unbounded()? {
                PooledConnection::MySql(connection) => mysql(connection).await?,
                PooledConnection::Sqlite(connection) => sqlite(connection).await?,
            };
            server.ahead_millis = now.cast_signed().wrapping_sub(here.cast_signed()) / 1000;
            Ok(server)
        })
    }

    /// Compares the migrations of the database with those of this version.
    pub async fn schema(&self) -> Result<SchemaState, StoreError> {
        run!(self.read("schema", "reading the migrations"), |session| {
            let known = match session.unbounded()? {
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
