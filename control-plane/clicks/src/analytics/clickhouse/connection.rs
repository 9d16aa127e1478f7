//! The connection to ClickHouse: queries have a time limit, and a circuit breaker spares a server that does not answer.

use super::super::engine::EngineError;
use super::schema::{OLDEST_VERSION, TABLES, Table, parse_version};
use super::sql::Sql;
use clickhouse::error::Error;
use clickhouse::query::Query;
use clickhouse::{Client, RowOwned, RowRead};
use edgelink_settings::config::AnalyticsConfig;
use edgelink_wire::breaker::CircuitBreaker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

/// Milliseconds for which the circuit breaker is open after a server did not answer.
const OPEN_MILLIS: u64 = 1_000;

/// The longest statement in bytes: that of 10,000 links takes 210 kB, twice.
const MAX_STATEMENT: &str = "1048576";

/// Time for which [`Built`] is cached: the sources of rollups are kept longer.
const KNOWN: Duration = Duration::from_secs(30);

/// Interval between polls of the server's processes.
const PAUSE: Duration = Duration::from_millis(20);

/// A client that creates the tables on first use, and again if they are gone.
pub(super) struct Connection {
    client: Client,
    settings: AnalyticsConfig,
    /// True once the tables exist.
    is_prepared: Mutex<bool>,
    /// Set when the server reports that a table or the database is missing.
    is_empty: AtomicBool,
    start: Instant,
    breaker: StdMutex<CircuitBreaker>,
    /// Rolled-up days and months, and the time of reading them.
    built: StdMutex<Option<(Built, Instant)>>,
}

/// Rolled-up days and months, in days (unix time / 86400).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Built {
    /// The first day that is not rolled up; 0 if none is.
    pub(super) until: u64,
    /// First days of months that have rows: a month is rolled up if all its days are.
    pub(super) months: Arc<[u64]>,
}

impl Connection {
    /// Creates a connection that connects on first use.
    pub(super) fn new(settings: &AnalyticsConfig) -> Self {
        let url = settings.clickhouse_url.as_ref();
        let mut client = Client::default()
            .with_url(url.map_or("", |url| url.expose()))
            .with_user(&settings.clickhouse_user)
            .with_setting("max_query_size", MAX_STATEMENT)
            .with_validation(false);
        if let Some(file) = &settings.clickhouse_password_file {
            client = client.with_password(file.text().trim_end_matches(['\r', '\n']));
        }
        Self {
            client,
            settings: settings.clone(),
            is_prepared: Mutex::default(),
            is_empty: AtomicBool::new(false),
            start: Instant::now(),
            breaker: StdMutex::new(CircuitBreaker::new(1)),
            built: StdMutex::default(),
        }
    }

    /// Returns the client, once the tables exist.
    ///
    /// # Errors
    /// The server does not answer, is too old, refuses the user, or has other tables of these names.
    pub(super) async fn ready(&self) -> Result<Client, EngineError> {
        let mut is_prepared = self.is_prepared.lock().await;
        if self.is_empty.swap(false, Ordering::Relaxed) {
            *is_prepared = false;
            self.forget_built();
        }
        if !*is_prepared {
            self.prepare().await?;
            *is_prepared = true;
        }
        Ok(self.in_database())
    }

    fn in_database(&self) -> Client {
        let database = &self.settings.clickhouse_database;
        self.client.clone().with_database(database)
    }

    /// Returns the version that the server reports, without creating anything.
    ///
    /// # Errors
    /// The server does not answer, refuses the user, or is older than [`OLDEST_VERSION`].
    pub(super) async fn version(&self) -> Result<String, EngineError> {
        let version = self.client.query("SELECT version()").fetch_one();
        let version: String = self.call(version).await?;
        let (major, minor) = OLDEST_VERSION;
        if parse_version(&version).is_none_or(|version| version < OLDEST_VERSION) {
            let reason =
                format!("the server is of version {version}, must be of {major}.{minor} or later");
            return Err(EngineError::ClickHouse(reason));
        }
        Ok(version)
    }

    /// Creates missing database, tables and views.
    async fn prepare(&self) -> Result<(), EngineError> {
        let version = self.version().await?;
        let database = clickhouse::sql::Identifier(&self.settings.clickhouse_database);
        let make = self.client.query("CREATE DATABASE IF NOT EXISTS ?");
        self.call(make.bind(database).execute()).await?;
        let client = self.in_database();
        for table in TABLES {
            let (made, view) = table.creation(&self.settings);
            self.call(client.query_raw(&made).execute()).await?;
            self.check(&client, &table).await?;
            if let Some(view) = view {
                self.call(client.query_raw(&view).execute()).await?;
            }
            self.bring_up_to_date(&client, &table).await?;
        }
        tracing::info!(version, "ClickHouse tables are up to date");
        Ok(())
    }

    /// Refuses a foreign table of that name.
    async fn check(&self, client: &Client, table: &Table) -> Result<(), EngineError> {
        let columns: Vec<&str> = table.columns().into_iter().map(|(name, _)| name).collect();
        let probe = format!(
            "SELECT {} FROM {} WHERE 0 FORMAT Null",
            columns.join(", "),
            table.name
        );
        let probed = self.call(client.query_raw(&probe).execute()).await;
        probed.map_err(|error| {
            EngineError::ClickHouse(format!(
                "the table {} is not as it must be: {error}",
                table.name
            ))
        })
    }

    /// Updates TTL and deduplication of a table that was created with other settings or by an earlier version.
    async fn bring_up_to_date(&self, client: &Client, table: &Table) -> Result<(), EngineError> {
        let made = client
            .query("SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = ?")
            .bind(table.name);
        let made: String = self.call(made.fetch_one()).await?;
        if let Some(change) = table.set_deduplication(&made) {
            self.call(client.query_raw(&change).execute()).await?;
        }
        match table.ttl(&self.settings) {
            Some(ttl) if !made.contains(&ttl) => {
                let change = format!(
                    "ALTER TABLE {} MODIFY TTL {ttl} SETTINGS materialize_ttl_after_modify = 0",
                    table.name
                );
                self.call(client.query_raw(&change).execute()).await
            }
            _ => Ok(()),
        }
    }

    /// Returns all rows of a query.
    pub(super) async fn all<T: RowOwned + RowRead>(&self, sql: Sql) -> Result<Vec<T>, EngineError> {
        let client = self.ready().await?;
        self.call(sql.query(&client).fetch_all()).await
    }

    /// Returns the one row of a query.
    pub(super) async fn one<T: RowOwned + RowRead>(&self, sql: Sql) -> Result<T, EngineError> {
        let client = self.ready().await?;
        self.call(sql.query(&client).fetch_one()).await
    }

    /// Executes a statement that returns no rows.
    pub(super) async fn execute(&self, query: Query) -> Result<(), EngineError> {
        self.call(query.execute()).await
    }

    /// Awaits an answer within the time limit of queries.
    pub(super) async fn call<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, EngineError> {
        self.call_within(self.settings.clickhouse_timeout_ms, answer)
            .await
    }

    /// Awaits an answer within a time limit.
    pub(super) async fn call_within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, EngineError> {
        if !self.breaker(|breaker, now| breaker.permits(now, OPEN_MILLIS)) {
            let skipped = "it did not answer a moment ago";
            return Err(EngineError::ClickHouse(skipped.to_owned()));
        }
        let answer = timeout(limit, answer).await.unwrap_or(Err(Error::TimedOut));
        let is_away = matches!(&answer, Err(Error::Network(_) | Error::TimedOut));
        if is_away {
            self.breaker(|breaker, now| breaker.fail(now))
        } else {
            self.breaker(|breaker, _| breaker.succeed())
        };
        answer.map_err(|error| {
            if is_missing(&error) {
                self.is_empty.store(true, Ordering::Relaxed);
            }
            EngineError::ClickHouse(describe(&error))
        })
    }

    fn breaker<T>(&self, ask: impl FnOnce(&mut CircuitBreaker, u64) -> T) -> T {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&mut breaker, now)
    }

    /// Returns the rolled-up days and months, cached for [`KNOWN`].
    pub(super) async fn built(&self) -> Result<Built, EngineError> {
        let built = self.built.lock();
        let built = built.unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((built, at)) = built
            && at.elapsed() < KNOWN
        {
            return Ok(built);
        }
        let last = "SELECT toUInt64(toUInt32(max(day))), count() FROM built_days";
        let (last, days): (u64, u64) = self.one(Sql::new(last)).await?;
        let months = "SELECT DISTINCT toUInt64(toUInt32(month)) FROM link_months";
        let months: Vec<u64> = self.all(Sql::new(months)).await?;
        let built = Built {
            until: if days > 0 { last + 1 } else { 0 },
            months: months.into(),
        };
        let mut known = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((built.clone(), Instant::now()));
        Ok(built)
    }

    /// Drops the cached [`Built`].
    pub(super) fn forget_built(&self) {
        *self.built.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The query id of rollup statements: one of them runs at a time.
    pub(super) fn fill_name(&self) -> String {
        format!("{}-fill", self.settings.clickhouse_database)
    }

    /// Waits until the server has ended the statement of that name, which may have been abandoned.
    pub(super) async fn await_end(&self, name: &str) -> Result<(), EngineError> {
        let client = self.ready().await?;
        let running = || {
            let query = client.query("SELECT count() FROM system.processes WHERE query_id = ?");
            query.bind(name)
        };
        let start = Instant::now();
        while self.call(running().fetch_one::<u64>()).await? > 0 {
            if start.elapsed() > self.settings.clickhouse_timeout_ms {
                let still = "an earlier statement is still worked on";
                return Err(EngineError::ClickHouse(still.to_owned()));
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    pub(super) fn settings(&self) -> &AnalyticsConfig {
        &self.settings
    }
}

/// True if the server reports a missing table or database, as a replaced server does.
fn is_missing(error: &Error) -> bool {
    const UNKNOWN: [&str; 4] = ["Code: 60.", "Code: 60,", "Code: 81.", "Code: 81,"];
    let text = error.to_string();
    UNKNOWN.iter().any(|code| text.contains(code))
}

/// Most bytes of the server's message that an error quotes.
const MAX_REASON_LENGTH: usize = 500;

/// Describes an error with its root cause.
fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let root = cause.to_string();
    if !text.contains(&root) {
        text = format!("{text}: {root}");
    }
    text.truncate(text.floor_char_boundary(MAX_REASON_LENGTH));
    text
}
