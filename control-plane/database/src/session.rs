//! A borrowed connection that is returned only if it is known to be usable.

use super::classes::ConnectionPermit;
use super::dialect::{self, Dialect};
use super::error::Fault;
use super::lending::{LentConnection, ReturnedConnections};
use super::nodes::Nodes;
use super::sql::{Sql, StatementForm};
use edgelink_model::deadline;
use edgelink_settings::telemetry::traces::{self, Span};
use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlArguments, MySqlPool, MySqlRow};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{
    AssertSqlSafe, Either, FromRow, Sqlite, query_as_with, query_scalar_with, query_with, raw_sql,
};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};

/// Idle time after which connections are closed.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(10);

/// Age after which connections are replaced, so that a changed address of the database is noticed.
pub(super) const MAX_LIFETIME: Duration = Duration::from_mins(30);

/// Connections to a database.
#[derive(Clone, Debug)]
pub(super) enum Pool {
    MySql(MySqlConnections),
    Sqlite(SqlitePool),
}

/// Connections to one of the servers of a URL.
#[derive(Clone, Debug)]
pub(super) struct MySqlConnections {
    pub(super) pool: MySqlPool,
    /// Connections that came back from calls just now.
    pub(super) returned: Arc<ReturnedConnections>,
    /// All pools of the store, which move to another server together.
    pub(super) pools: Arc<[MySqlPool]>,
    pub(super) nodes: Arc<Nodes>,
    /// Longest time for which the server lets a statement wait for a lock.
    pub(super) lock_wait: Duration,
}

/// A connection of a pool.
pub enum PooledConnection {
    /// One of MySQL or MariaDB.
    MySql(LentConnection),
    /// One of SQLite.
    Sqlite(PoolConnection<Sqlite>),
}

/// A type that can be read from a row of either database.
pub trait Row:
    for<'r> FromRow<'r, MySqlRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

impl<T> Row for T where
    T: for<'r> FromRow<'r, MySqlRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

/// One connection for the duration of one call.
///
/// If it is dropped without [`Session::return_to_pool`] (an error, a timeout, a cancelled caller), the connection is closed: its
/// state is unknown, and an answer may still arrive on it. The server does not notice at once, and may still wait for a lock:
/// the permit of the connection is held for as long.
pub struct Session {
    /// `None` once it was given back.
    connection: Option<PooledConnection>,
    dialect: &'static Dialect,
    watch: Watch,
    effect: Effect,
    is_reusable: bool,
    /// Time for which the server may continue an abandoned statement.
    lock_wait: Duration,
    permit: Option<ConnectionPermit>,
    /// The span of the call, if the request is sampled.
    span: Option<Span>,
}

/// Time limits of statements.
struct Watch {
    timeout: Duration,
    deadline: Instant,
    /// The client's deadline, if known.
    client_waits_until: Option<Instant>,
    /// True while a sent statement has no answer.
    is_unanswered: bool,
}

const COMMIT: &str = "COMMIT";

/// Number of rows for which a commit gets the configured time once more.
const ROWS_PER_TIMEOUT: usize = 1000;

/// Possible effect of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// No commit was sent.
    None,
    /// A commit, or a write outside of a transaction, was sent.
    Possible,
}

/// Runs a statement on the connection of a session, with either driver, within its remaining time.
macro_rules! on_connection {
    ($session:expr, |$connection:ident| $statement:expr) => {
        match &mut $session.connection {
            Some(PooledConnection::MySql(connection)) => {
                let $connection = &mut **connection;
                $session.watch.run($statement).await
            }
            Some(PooledConnection::Sqlite(connection)) => {
                let $connection = &mut **connection;
                $session.watch.run($statement).await
            }
            None => Err(given_back()),
        }
    };
}

impl Session {
    /// Takes a connection from `pool` for a named call, with a permit if the call needs one. The wait and the first
    /// statement together may take until `deadline`, and each further statement `timeout`.
    pub(super) async fn open(
        pool: &Pool,
        permit: impl Future<Output = Result<Option<ConnectionPermit>, Fault>>,
        (deadline, timeout): (Instant, Duration),
        operation: &'static str,
    ) -> Result<Self, Fault> {
        let mut span = traces::database_span(pool.dialect().name(), operation);
        let watch = Watch {
            timeout,
            deadline,
            client_waits_until: deadline::of_task(),
            is_unanswered: false,
        };
        let acquired = async {
            let permit = permit.await?;
            let (deadline, given_up) = watch.end();
            let connection = timeout_at(deadline, pool.acquire()).await;
            Ok((permit, connection.map_err(|_| given_up)??))
        };
        let acquired = acquired.await;
        let (permit, connection) = acquired.inspect_err(|fault| note_failure(&mut span, fault))?;
        Ok(Self {
            connection: Some(connection),
            dialect: pool.dialect(),
            watch,
            effect: Effect::None,
            is_reusable: false,
            lock_wait: pool.lock_wait(),
            permit,
            span,
        })
    }

    /// Records the failure in the span of the call.
    pub fn note_failure(&mut self, fault: &Fault) {
        note_failure(&mut self.span, fault);
    }

    /// The dialect of the database.
    pub fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    /// The form of statements for [`Self::commit_with`].
    pub fn form(&self) -> StatementForm {
        if self.dialect.takes_scripts() {
            StatementForm::Script
        } else {
            StatementForm::Prepared
        }
    }

    /// Runs a statement of a transaction. Returns the number of changed rows.
    pub async fn execute(&mut self, sql: Sql<'_>) -> Result<u64, Fault> {
        let (text, values) = (AssertSqlSafe(sql.text), sql.values);
        on_connection!(self, |connection| async {
            let done = query_with(text, values).execute(connection).await?;
            Ok(done.rows_affected())
        })
    }

    /// Runs a statement as its own transaction. Returns the number of changed rows.
    pub async fn autocommit(&mut self, sql: Sql<'_>) -> Result<u64, Fault> {
        self.effect = Effect::Possible;
        self.execute(sql).await
    }

    /// Deletes up to `limit` rows of `table`, which has this primary key, by a condition, as a transaction of its own. Returns their
    /// number.
    pub async fn purge(
        &mut self,
        table: &str,
        key: &str,
        condition: Sql<'_>,
        limit: u32,
    ) -> Result<u64, Fault> {
        let delete = self.dialect.delete_some(table, key, condition);
        self.autocommit(delete.bind(limit)).await
    }

    /// Runs an UPDATE of one row as its own transaction, which returns a number by LAST_INSERT_ID or
    /// RETURNING. `None` if there is no such row.
    pub async fn autocommit_answering(&mut self, sql: Sql<'_>) -> Result<Option<u64>, Fault> {
        self.effect = Effect::Possible;
        let (text, values) = (AssertSqlSafe(sql.text), sql.values);
        let Self { watch, .. } = self;
        match &mut self.connection {
            Some(PooledConnection::MySql(connection)) => {
                let statement = query_with(text, values).execute(&mut **connection);
                let done = watch.run(statement).await?;
                Ok((done.rows_affected() > 0).then(|| done.last_insert_id()))
            }
            Some(PooledConnection::Sqlite(connection)) => {
                let statement = query_scalar_with(text, values).fetch_optional(&mut **connection);
                let answer: Option<i64> = watch.run(statement).await?;
                Ok(answer.map(i64::cast_unsigned))
            }
            None => Err(given_back()),
        }
    }

    /// All rows of a query.
    pub async fn fetch_all<T: Row>(&mut self, sql: Sql<'_>) -> Result<Vec<T>, Fault> {
        let (text, values) = (AssertSqlSafe(sql.text), sql.values);
        on_connection!(self, |connection| query_as_with(text, values)
            .fetch_all(connection))
    }

    /// The first row of a query, if there is any.
    pub async fn fetch_optional<T: Row>(&mut self, sql: Sql<'_>) -> Result<Option<T>, Fault> {
        let (text, values) = (AssertSqlSafe(sql.text), sql.values);
        on_connection!(self, |connection| query_as_with(text, values)
            .fetch_optional(connection))
    }

    /// The only row of a query.
    pub async fn fetch_one<T: Row>(&mut self, sql: Sql<'_>) -> Result<T, Fault> {
        let row = self.fetch_optional(sql).await?;
        row.ok_or(Fault::Sql(sqlx::Error::RowNotFound))
    }

    /// Runs a script of several statements without values in one round trip. The rows of its last `reads` queries are the second
    /// ones, and the rows of queries before them the first ones. The server stops at the first error.
    pub async fn script<A: Row, B: Row>(
        &mut self,
        script: String,
        reads: usize,
    ) -> Result<(Vec<A>, Vec<B>), Fault> {
        on_connection!(self, |connection| async {
            let mut results = raw_sql(AssertSqlSafe(script)).fetch_many(connection);
            let mut sets = vec![Vec::new()];
            while let Some(part) = results.try_next().await? {
                match (part, sets.last_mut()) {
                    (Either::Right(row), Some(set)) => set.push(row),
                    _ => sets.push(Vec::new()),
                }
            }
            // Behind the end of the last statement there is nothing.
            sets.pop();
            let last = sets.split_off(sets.len().saturating_sub(reads));
            let first = sets.iter().flatten().map(A::from_row);
            let last = last.iter().flatten().map(B::from_row);
            Ok((
                first.collect::<Result<_, _>>()?,
                last.collect::<Result<_, _>>()?,
            ))
        })
    }

    /// Runs a script that ends with the COMMIT of a transaction that writes `rows` rows. Returns the row of its only query, if it has
    /// one. `sent` is called when the script is on its way.
    ///
    /// The server stops at the first error, so a transaction is not committed if one is reported for a statement before the COMMIT.
    /// If none is reported and no answer comes, it is possibly committed.
    pub async fn commit_script<T: Row>(
        &mut self,
        mut script: String,
        rows: usize,
        sent: impl FnOnce(),
    ) -> Result<Option<T>, Fault> {
        script.push_str(COMMIT);
        let before = self.effect;
        self.expect_commit(rows);
        let answer = {
            let mut answer = pin!(self.script::<(i64,), T>(script, 2));
            let first = poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => Poll::Ready(None),
            });
            let first = first.await;
            sent();
            match first {
                Some(answer) => answer,
                None => answer.await,
            }
        };
        if answer.as_ref().is_err_and(Fault::is_before_commit) {
            self.effect = before;
        }
        let (_, mut rows) = answer?;
        Ok(rows.pop())
    }

    /// Runs the last statements of a transaction that writes `rows` rows, and commits it. Where the server takes scripts, they are one
    /// message, or several of up to `max_bytes` bytes of values.
    pub async fn commit_with(
        &mut self,
        statements: Vec<Sql<'_>>,
        rows: usize,
        max_bytes: usize,
        sent: impl FnOnce(),
    ) -> Result<(), Fault> {
        if !self.dialect.takes_scripts() {
            for statement in statements {
                self.execute(statement).await?;
            }
            return self.commit(rows).await;
        }
        let mut script = String::new();
        for statement in statements {
            let mut text = String::new();
            statement.write_literally(&mut text);
            // As text, each byte of a value takes two.
            if !script.is_empty() && script.len() + text.len() > max_bytes + max_bytes / 2 {
                let script = std::mem::take(&mut script);
                self.script::<(i64,), (i64,)>(script, 0).await?;
            }
            script.push_str(&text);
            script.push_str("; ");
        }
        let committed = self.commit_script::<(i64,)>(script, rows, sent).await;
        committed.map(drop)
    }

    /// Begins a transaction that will write by a script: see [`Self::script`]. Like the statement behind a BEGIN, it gets the full time:
    /// given up earlier, it would go on waiting for a lock.
    pub async fn begin_script<A: Row, B: Row>(
        &mut self,
        script: &str,
        reads: usize,
    ) -> Result<(Vec<A>, Vec<B>), Fault> {
        self.watch.deadline = Instant::now() + self.watch.timeout;
        let script = format!("{}; {script}", self.dialect.begin);
        self.script(script, reads).await
    }

    /// Begins a transaction that will write.
    pub async fn begin(&mut self) -> Result<(), Fault> {
        self.control(self.dialect.begin).await
    }

    /// Commits the transaction, after `rows` were written: from here on it is possibly committed, even if the client's deadline passes.
    pub async fn commit(&mut self, rows: usize) -> Result<(), Fault> {
        self.expect_commit(rows);
        self.control(COMMIT).await
    }

    fn expect_commit(&mut self, rows: usize) {
        let shares = u32::try_from(rows / ROWS_PER_TIMEOUT).unwrap_or(u32::MAX);
        self.watch.client_waits_until = None;
        self.watch.deadline = Instant::now() + self.watch.timeout * shares.saturating_add(1);
        self.effect = Effect::Possible;
    }

    /// Rolls back the transaction; harmless if the database has done so already.
    pub async fn rollback(&mut self) -> Result<(), Fault> {
        self.control("ROLLBACK").await
    }

    /// Commits the transaction, which has written a row, or rolls it back if its outcome is a refusal.
    pub async fn end<T, E>(&mut self, outcome: Result<T, E>) -> Result<Result<T, E>, Fault> {
        match outcome {
            Ok(_) => self.commit(1).await?,
            Err(_) => self.rollback().await?,
        }
        Ok(outcome)
    }

    async fn control(&mut self, statement: &'static str) -> Result<(), Fault> {
        on_connection!(self, |connection| async {
            raw_sql(statement).execute(connection).await.map(drop)
        })
    }

    /// False if the connection's database is known not to exist.
    pub async fn has_database(&mut self) -> bool {
        const SQL: &str =
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = DATABASE()";
        let Some(PooledConnection::MySql(connection)) = &mut self.connection else {
            return true;
        };
        let count = query_scalar_with(SQL, MySqlArguments::default()).fetch_one(&mut **connection);
        let count: Result<i64, Fault> = self.watch.run(count).await;
        !matches!(count, Ok(0))
    }

    /// True if nothing can be committed yet.
    pub fn may_retry(&self) -> bool {
        self.effect == Effect::None
    }

    /// Returns the connection to the pool.
    pub fn return_to_pool(mut self) {
        self.is_reusable = true;
    }

    /// The connection without a time limit, for migrations.
    pub fn unbounded(&mut self) -> Result<&mut PooledConnection, Fault> {
        self.connection.as_mut().ok_or_else(given_back)
    }
}

/// The fault of a statement on a session whose connection was given back. None is run then.
fn given_back() -> Fault {
    Fault::Sql(sqlx::Error::PoolClosed)
}

fn note_failure(span: &mut Option<Span>, fault: &Fault) {
    if let Some(span) = span {
        span.fail(fault.kind());
    }
}

impl Watch {
    /// The deadline of a statement, and the fault when it passes.
    fn end(&self) -> (Instant, Fault) {
        match self.client_waits_until {
            Some(until) if until < self.deadline => (until, Fault::Late),
            _ => (self.deadline, Fault::TimedOut(self.timeout.as_millis())),
        }
    }

    /// Runs a statement; the next one gets the full time again.
    async fn run<T>(
        &mut self,
        statement: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, Fault> {
        self.is_unanswered = true;
        let (deadline, given_up) = self.end();
        let answer = timeout_at(deadline, statement).await;
        let answer = answer.map_err(|_| given_up)?;
        self.is_unanswered = false;
        let answer = answer?;
        self.deadline = Instant::now() + self.timeout;
        Ok(answer)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        match self.connection.take() {
            Some(PooledConnection::MySql(connection)) if self.is_reusable => connection.give_back(),
            Some(PooledConnection::MySql(connection)) => connection.close(),
            Some(PooledConnection::Sqlite(mut connection)) if !self.is_reusable => {
                connection.close_on_drop();
            }
            _ => {}
        }
        if self.is_reusable {
            return;
        }
        if self.watch.is_unanswered
            && let Some(permit) = self.permit.take()
            && let Ok(runtime) = Handle::try_current()
        {
            let lock_wait = self.lock_wait;
            runtime.spawn(async move {
                sleep(lock_wait).await;
                drop(permit);
            });
        }
    }
}

impl MySqlConnections {
    async fn lend(&self) -> Result<LentConnection, sqlx::Error> {
        let is_current = |age| self.nodes.is_current(age);
        self.returned.lend(&self.pool, is_current).await
    }
}

impl Pool {
    async fn acquire(&self) -> Result<PooledConnection, sqlx::Error> {
        Ok(match self {
            Self::MySql(mysql) => {
                mysql.nodes.settle(&mysql.pools).await;
                PooledConnection::MySql(mysql.lend().await?)
            }
            Self::Sqlite(pool) => PooledConnection::Sqlite(pool.acquire().await?),
        })
    }

    /// Time for which the server may continue an abandoned statement. SQLite runs in this process.
    fn lock_wait(&self) -> Duration {
        match self {
            Self::MySql(mysql) => mysql.lock_wait,
            Self::Sqlite(_) => Duration::ZERO,
        }
    }

    /// The dialect of the database.
    pub(super) fn dialect(&self) -> &'static Dialect {
        match self {
            Self::MySql(_) => &dialect::MYSQL,
            Self::Sqlite(_) => &dialect::SQLITE,
        }
    }

    /// Marks the server as possibly failed: if there are others, the next call finds out which of them takes writes.
    pub(super) fn suspect(&self) {
        if let Self::MySql(mysql) = self {
            mysql.returned.clear();
            mysql.nodes.suspect();
        }
    }

    /// The most connections.
    pub(super) fn max_connections(&self) -> u32 {
        match self {
            Self::MySql(mysql) => mysql.pool.options().get_max_connections(),
            Self::Sqlite(pool) => pool.options().get_max_connections(),
        }
    }
}
