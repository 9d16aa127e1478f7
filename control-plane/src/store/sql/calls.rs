//! Making calls on connections: when a failed one is made again, and what becomes of its connection.

use super::fault::{Fault, Remedy};
use super::session::Session;
use super::statements::Statements;
use crate::backoff::Backoff;
use crate::store::StoreError;
use sqlx::{Database, Pool};
use std::time::Duration;
use tokio::time::Instant;

/// How often a call is made at most when the database undoes it. That it was made on a dead connection does not count:
/// after a restart of the server every idle one is dead, and there are only so many.
const MAX_TRIES: u32 = 5;

/// Those who were in each other's way should not be so again.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(4),
    most: Duration::from_millis(50),
};

/// The connections to a database.
pub(in crate::store) struct Connections<DB: Database> {
    /// For reading.
    pub(in crate::store) readers: Pool<DB>,
    /// For writing; may be the same pool.
    pub(in crate::store) writers: Pool<DB>,
    /// How long one statement may take.
    pub(in crate::store) statement_timeout: Duration,
}

/// A call under way on a connection, which it owns meanwhile and gives back with the answer.
pub(in crate::store) trait Call<DB: Database, T>:
    Future<Output = (Result<T, Fault>, Session<DB>)> + Send
{
}

impl<DB, T, F> Call<DB, T> for F
where
    DB: Database,
    F: Future<Output = (Result<T, Fault>, Session<DB>)> + Send,
{
}

impl<DB: Database> Connections<DB>
where
    Session<DB>: Statements,
{
    /// Makes a call that only reads.
    pub(in crate::store) async fn read<T, F: Call<DB, T>>(
        &self,
        context: &'static str,
        call: impl Fn(Session<DB>) -> F,
    ) -> Result<T, StoreError> {
        self.make(context, &self.readers, call).await
    }

    /// Makes a call that may write.
    pub(in crate::store) async fn write<T, F: Call<DB, T>>(
        &self,
        context: &'static str,
        call: impl Fn(Session<DB>) -> F,
    ) -> Result<T, StoreError> {
        self.make(context, &self.writers, call).await
    }

    async fn make<T, F: Call<DB, T>>(
        &self,
        context: &'static str,
        pool: &Pool<DB>,
        call: impl Fn(Session<DB>) -> F,
    ) -> Result<T, StoreError> {
        let start = Instant::now();
        let (mut tries, mut dead) = (1, 0);
        loop {
            let (fault, next) = match self.attempt(pool, &call).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let in_time = start.elapsed() < self.statement_timeout;
            match next {
                Next::Repeat if in_time && tries < MAX_TRIES => {
                    tokio::time::sleep(BACKOFF.delay(tries)).await;
                    tries += 1;
                }
                Next::Reconnect if in_time && dead < pool.options().get_max_connections() => {
                    dead += 1;
                }
                _ => {
                    let remedy = Session::<DB>::remedy(&fault);
                    return Err(fault.into_error(context, remedy));
                }
            }
        }
    }

    async fn attempt<T, F: Call<DB, T>>(
        &self,
        pool: &Pool<DB>,
        call: &impl Fn(Session<DB>) -> F,
    ) -> Result<T, (Fault, Next)> {
        let session = Session::open(pool, self.statement_timeout)
            .await
            .map_err(|fault| (fault, Next::Fail))?;
        match call(session).await {
            (Ok(answer), session) => {
                session.keep();
                Ok(answer)
            }
            (Err(fault), session) => {
                let next = after(&fault, session).await;
                Err((fault, next))
            }
        }
    }
}

/// What follows a failed call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Repeat,
    Reconnect,
    Fail,
}

/// Decides what follows, and saves the connection where the database has only refused the transaction.
async fn after<DB: Database>(fault: &Fault, mut session: Session<DB>) -> Next
where
    Session<DB>: Statements,
{
    match Session::<DB>::remedy(fault) {
        Remedy::Repeat if session.rollback().await.is_ok() => {
            session.keep();
            Next::Repeat
        }
        Remedy::Reconnect if session.may_repeat() => Next::Reconnect,
        _ => Next::Fail,
    }
}
