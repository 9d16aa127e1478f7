//! A borrowed connection that is given back only when it is known to be in order.

use super::fault::Fault;
use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// One connection for the length of one call.
///
/// Dropped without [`Session::keep`] (an error, a timeout, a caller that went away), the connection is closed: what
/// state it is in, or whether an answer is still under way on it, is unknown.
pub(in crate::store) struct Session<DB: Database> {
    connection: PoolConnection<DB>,
    timeout: Duration,
    deadline: Instant,
    effect: Effect,
    in_order: bool,
}

/// For how many rows a commit gets the configured time once more.
const ROWS_PER_TIMEOUT: usize = 1000;

/// Whether the call can have changed the database for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Nothing was sent that lasts.
    None,
    /// A commit, or a write outside of a transaction, was sent.
    Possible,
}

impl<DB: Database> Session<DB> {
    /// Takes a connection from `pool`. The wait and the first statement together may take `timeout`.
    pub(in crate::store) async fn open(pool: &Pool<DB>, timeout: Duration) -> Result<Self, Fault> {
        let deadline = Instant::now() + timeout;
        let connection = timeout_at(deadline, pool.acquire())
            .await
            .map_err(|_| Fault::TimedOut(timeout.as_millis()))??;
        Ok(Self {
            connection,
            timeout,
            deadline,
            effect: Effect::None,
            in_order: false,
        })
    }

    /// Runs one statement within the time that is left for it.
    pub(in crate::store) async fn run<'s, T, F>(
        &'s mut self,
        statement: impl FnOnce(&'s mut DB::Connection) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let Self {
            connection,
            deadline,
            timeout,
            ..
        } = self;
        let answer = timeout_at(*deadline, statement(connection))
            .await
            .map_err(|_| Fault::TimedOut(timeout.as_millis()))??;
        *deadline = Instant::now() + *timeout;
        Ok(answer)
    }

    /// Gives the next statement more time, in proportion to the `rows` that it deals with.
    pub(in crate::store) fn allow_for(&mut self, rows: usize) {
        let shares = u32::try_from(rows / ROWS_PER_TIMEOUT).unwrap_or(u32::MAX);
        self.deadline = Instant::now() + self.timeout * shares.saturating_add(1);
    }

    /// Says that the next statement lasts: from here on a lost connection leaves the outcome unknown.
    pub(in crate::store) fn about_to_last(&mut self) {
        self.effect = Effect::Possible;
    }

    /// Whether nothing can have lasted so far.
    pub(in crate::store) fn may_repeat(&self) -> bool {
        self.effect == Effect::None
    }

    /// Gives the connection back to the pool.
    pub(in crate::store) fn keep(mut self) {
        self.in_order = true;
    }

    /// The connection without a bound on time, for migrations.
    pub(in crate::store) fn unbounded(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

impl<DB: Database> Drop for Session<DB> {
    fn drop(&mut self) {
        if !self.in_order {
            self.connection.close_on_drop();
        }
    }
}
