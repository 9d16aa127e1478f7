//! The database, and the execution of calls: measured, bounded in time, and retried where the database allows it.

use super::classes::{Bulkheads, Class, ConnectionShares};
use super::error::{Fault, Remedy, StoreError};
use super::lines::{RowLine, RowLines, RowTurns};
use super::nodes::Nodes;
use super::revisions::{LastRevisions, RevisionBasis};
use super::session::{Pool, Session};
use edgelink_model::{clock, deadline};
use edgelink_settings::config::StoreConfig;
use edgelink_settings::telemetry::prometheus::{STORE_ERRORS, STORE_SECONDS};
use edgelink_wire::backoff::Bounds;
use metrics::{counter, histogram};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A database: its connections, and the calls that run on them.
///
/// A call is one transaction: it is committed when it returns `Ok`, and possibly committed after an error that
/// [`StoreError::is_transient`]. It runs its statements on a [`Session`] lent by [`run`](crate::run); differences between
/// databases are in [`super::dialect::Dialect`].
#[derive(Clone)]
pub struct Database {
    connections: Connections,
    lines: Arc<RowLines>,
    statement_timeout: Duration,
    max_bytes: Arc<AtomicUsize>,
    revisions: Arc<LastRevisions>,
    place: Place,
}

/// Location of a database.
#[derive(Clone)]
pub enum Place {
    /// One of several servers.
    Servers(Arc<Nodes>),
    /// A file.
    File(PathBuf),
}

/// The connections of a store.
#[derive(Clone)]
pub(super) struct Connections {
    /// Connections shared by classes of calls.
    pub(super) shared: Pools,
    /// Connections of [`Class::Control`].
    pub(super) control: Pools,
    /// The permits for the shared ones.
    pub(super) bulkheads: Arc<Bulkheads>,
}

/// Connections by access.
#[derive(Clone)]
pub(super) struct Pools {
    /// For calls that only read.
    pub(super) readers: Pool,
    /// For calls that may write.
    pub(super) writers: Pool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// The most attempts of a call that the database rolls back. Attempts on dead connections do not count: after a restart of
/// the server every idle connection is dead, and their number is bounded.
const MAX_ATTEMPTS: u32 = 5;

/// The pauses before retries of transactions that deadlocked.
const PAUSES: Bounds = Bounds {
    first_millis: 4,
    cap_millis: 50,
};

/// Executes a call: runs its body on a session, and retries on another one where that helps. Boxed, as the futures of
/// drivers are large.
#[macro_export]
macro_rules! run {
    ($call:expr, |$session:ident| $body:expr) => {
        Box::pin(async {
            let mut call = $call;
            loop {
                let mut opened = call.open().await?;
                let answer: Result<_, $crate::error::Fault> = async {
                    let $session = &mut opened;
                    $body
                }
                .await;
                if let Some(outcome) = call.close(opened, answer).await {
                    break outcome;
                }
            }
        })
        .await
    };
}

impl Connections {
    /// Creates the permits for this many shared connections.
    pub(super) fn bulkheads(config: &StoreConfig, connections: u32) -> Arc<Bulkheads> {
        let count = |count| usize::try_from(count).unwrap_or(usize::MAX);
        Arc::new(Bulkheads::new(ConnectionShares {
            connections: count(connections),
            reserved: count(config.reserved_connections),
            waiting: config.max_waiting,
            lookups: usize::MAX,
        }))
    }
}

impl Database {
    /// A database at `place` over these connections. An INSERT has at most `max_bytes`.
    pub(crate) fn new(
        connections: Connections,
        config: &StoreConfig,
        max_bytes: Arc<AtomicUsize>,
        place: Place,
    ) -> Self {
        Self {
            connections,
            lines: Arc::new(RowLines::new(config.max_waiting_for_row)),
            statement_timeout: config.timeout_ms,
            max_bytes,
            revisions: Arc::default(),
            place,
        }
    }

    /// Returns a handle to this database that runs at most `most` lookups at once.
    #[must_use]
    pub fn with_max_lookups(&self, most: usize) -> Self {
        let bulkheads = self.connections.bulkheads.with_lookups(most);
        Self {
            connections: Connections {
                bulkheads: Arc::new(bulkheads),
                ..self.connections.clone()
            },
            ..self.clone()
        }
    }

    /// A call that only reads, with its name in metrics and its description in errors.
    #[must_use]
    pub fn read(&self, operation: &'static str, context: &'static str) -> Call<'_> {
        self.call((Class::Reads, Access::Read), operation, context)
    }

    /// A call that may write.
    #[must_use]
    pub fn write(&self, operation: &'static str, context: &'static str) -> Call<'_> {
        self.call((Class::Changes, Access::Write), operation, context)
    }

    /// The most time that a statement may take.
    #[must_use]
    pub fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    /// The most bytes of one INSERT, derived from the server's settings. A single row may be larger.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.max_bytes.load(Ordering::Relaxed)
    }

    /// The location of the database.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The turn in those of these lines in which no call is, without waiting.
    #[must_use]
    pub fn free_turns(&self, lines: impl IntoIterator<Item = RowLine>) -> RowTurns {
        self.lines.take_free(lines)
    }

    /// The revisions read last.
    #[must_use]
    pub fn revisions(&self) -> &Arc<LastRevisions> {
        &self.revisions
    }

    /// The database's clock, in unix milliseconds.
    ///
    /// # Errors
    /// The failure of the database.
    pub async fn now(&self) -> Result<u64, StoreError> {
        if let Some(guess) = self.revisions.guess() {
            return Ok(guess.now_millis());
        }
        let call = self.read("now", "reading the clock").of(Class::Creations);
        let revisions = run!(call, |session| RevisionBasis::read(session).await)?;
        self.revisions.note(revisions);
        Ok(revisions.now_millis())
    }

    fn call(
        &self,
        (class, access): (Class, Access),
        operation: &'static str,
        context: &'static str,
    ) -> Call<'_> {
        Call {
            database: self,
            class,
            access,
            rows: BTreeSet::new(),
            turns: None,
            operation,
            context,
            started: Instant::now(),
            attempts: 1,
            dead: 0,
        }
    }
}

/// A call in progress.
pub struct Call<'d> {
    database: &'d Database,
    class: Class,
    access: Access,
    /// The rows that it locks.
    rows: BTreeSet<RowLine>,
    /// Its turn among the calls of the process that lock the same rows.
    turns: Option<RowTurns>,
    operation: &'static str,
    context: &'static str,
    started: Instant,
    attempts: u32,
    dead: u32,
}

impl Call<'_> {
    /// Assigns the call to another class than reads or changes of the API.
    pub fn of(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Declares the rows that the call locks: it waits for its turn before it takes a connection.
    pub fn locking(mut self, rows: impl IntoIterator<Item = RowLine>) -> Self {
        self.rows.extend(rows);
        self
    }

    /// Declares rows that the call locks, whose turns it has.
    pub fn holding(mut self, turns: RowTurns) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Opens a session for the next attempt.
    pub async fn open(&mut self) -> Result<Session, StoreError> {
        match self.try_open().await {
            Ok(session) => Ok(session),
            Err(fault) => {
                self.note(&fault);
                self.finish(Err(fault))
            }
        }
    }

    async fn try_open(&mut self) -> Result<Session, Fault> {
        let deadline = self.deadline();
        let awaited = deadline::or_sooner(deadline);
        if self.turns.is_none() && !self.rows.is_empty() {
            self.turns = Some(self.database.lines.wait(&self.rows, awaited).await?);
        }
        let (pool, bulkheads) = (self.pool(), &self.database.connections.bulkheads);
        let permit = async {
            if self.needs_permit() {
                bulkheads.permit(self.class, awaited).await
            } else {
                Ok(None)
            }
        };
        let times = (deadline, self.database.statement_timeout);
        Session::open(pool, permit, times, self.operation).await
    }

    /// Deadline for the start of an attempt: the first one within the time of the call.
    fn deadline(&self) -> Instant {
        let begun = match self.attempts + self.dead {
            1 => self.started,
            _ => Instant::now(),
        };
        begun + self.database.statement_timeout
    }

    fn pool(&self) -> &Pool {
        let Connections {
            shared, control, ..
        } = &self.database.connections;
        let pools = match self.class {
            Class::Control => control,
            _ => shared,
        };
        match self.access {
            Access::Read => &pools.readers,
            Access::Write => &pools.writers,
        }
    }

    /// True if it needs a permit for a shared connection. Where only one connection writes, calls queue for it in order of
    /// arrival, and none of them waits for a lock.
    fn needs_permit(&self) -> bool {
        self.access == Access::Read || self.pool().dialect().has_row_locks()
    }

    /// Returns the outcome of the call after an attempt; `None` if it is to be retried. The connection is kept if the database
    /// only refused the transaction.
    pub async fn close<T>(
        &mut self,
        mut session: Session,
        answer: Result<T, Fault>,
    ) -> Option<Result<T, StoreError>> {
        let answer = match answer {
            Err(fault) if fault.is_missing_table() && !session.has_database().await => {
                Err(Fault::NoDatabase)
            }
            answer => answer,
        };
        let Err(fault) = &answer else {
            session.return_to_pool();
            return Some(self.finish(answer));
        };
        session.note_failure(fault);
        let remedy = fault.remedy();
        self.note(fault);
        match remedy {
            Remedy::Retry if session.rollback().await.is_ok() => {
                session.return_to_pool();
                if self.is_in_time() && self.attempts < MAX_ATTEMPTS {
                    tokio::time::sleep(clock::pause_after(self.attempts, PAUSES)).await;
                    self.attempts += 1;
                    return None;
                }
            }
            Remedy::Reconnect if session.may_retry() && self.may_reconnect() => {
                self.dead += 1;
                return None;
            }
            _ => {}
        }
        Some(self.finish(answer))
    }

    /// Makes the next call look for another server if this failure may mean that the one in use is lost.
    fn note(&self, fault: &Fault) {
        if fault.is_suspicious() {
            self.pool().suspect();
        }
    }

    fn is_in_time(&self) -> bool {
        self.started.elapsed() < self.database.statement_timeout
    }

    fn may_reconnect(&self) -> bool {
        self.is_in_time() && self.dead < self.pool().max_connections()
    }

    /// Records the duration of the call and any error in metrics.
    fn finish<T>(&self, answer: Result<T, Fault>) -> Result<T, StoreError> {
        let operation = self.operation;
        histogram!(STORE_SECONDS, "operation" => operation).record(self.started.elapsed());
        answer.map_err(|fault| {
            let remedy = fault.remedy();
            let transient = remedy.is_transient().to_string();
            counter!(STORE_ERRORS, "operation" => operation, "transient" => transient).increment(1);
            fault.into_error(self.context, remedy)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect;
    use crate::error::Limit;
    use crate::sql::sql;
    use tempfile::TempDir;

    async fn database(max_connections: u32) -> (TempDir, Database) {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite://{}/edgelink.db", folder.path().display());
        let config = StoreConfig {
            max_connections,
            timeout_ms: Duration::from_secs(20),
            ..StoreConfig::at(&url)
        };
        let database = connect(&config).await.unwrap();
        (folder, database)
    }

    async fn ping(database: &Database, class: Class) -> Result<u64, StoreError> {
        run!(database.read("ping", "pinging").of(class), |session| {
            session.execute(sql("SELECT 1")).await
        })
    }

    #[tokio::test]
    async fn call_when_connections_are_taken_waits_until_its_deadline() {
        let (_folder, database) = database(2).await;
        let bulkheads = &database.connections.bulkheads;
        let soon = Instant::now() + Duration::from_secs(20);
        let taken = bulkheads.permit(Class::Reads, soon).await.unwrap();
        let until = Instant::now() + Duration::from_millis(20);
        let pinged = deadline::within(Some(until), ping(&database, Class::Lookups)).await;
        let error = pinged.unwrap_err();
        assert_eq!(error.limit(), Some(Limit::Connections));
        assert!(error.is_given_up() && Instant::now() < soon, "{error}");
        // The publisher has connections of its own.
        ping(&database, Class::Control).await.unwrap();
        drop(taken);
        ping(&database, Class::Lookups).await.unwrap();
    }
}
