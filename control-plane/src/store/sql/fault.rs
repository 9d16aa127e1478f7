//! What can go wrong with a statement, and what follows from it.

use crate::store::StoreError;
use std::io;

/// A failed statement.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Fault {
    /// The driver or the database reports an error.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// No answer within the configured time. Whether the statement took effect is unknown.
    #[error("no answer within {0} ms")]
    TimedOut(u128),
    /// Others kept changing the same rows.
    #[error("others keep changing the same rows")]
    Contended,
    /// A row that this version cannot have written.
    #[error("the stored {0}")]
    Corrupt(String),
}

/// What to do about a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Remedy {
    /// The database undid the transaction in favour of another: the same again.
    Repeat,
    /// The connection is gone: on another one, the same again if nothing can have been committed.
    Reconnect,
    /// Later, or on another server.
    Later,
    /// A unique key is taken.
    Duplicate,
    /// Nothing: it is wrong and stays wrong.
    GiveUp,
}

impl Remedy {
    /// What to do about an error of the driver itself; nothing where only the dialect knows the database's code.
    pub(in crate::store) fn of_driver(error: &sqlx::Error) -> Option<Self> {
        match error {
            sqlx::Error::Database(_) => None,
            sqlx::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Some(Self::GiveUp)
            }
            // What is no message of the database is as good as none: the call may have happened.
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => Some(Self::Reconnect),
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => Some(Self::Later),
            _ => Some(Self::GiveUp),
        }
    }

    /// Whether the same call may succeed later.
    pub(in crate::store) fn is_transient(self) -> bool {
        matches!(self, Self::Repeat | Self::Reconnect | Self::Later)
    }
}

impl Fault {
    /// Turns the fault into what callers of the store see.
    pub(in crate::store) fn into_error(self, context: &'static str, remedy: Remedy) -> StoreError {
        StoreError {
            context,
            transient: remedy.is_transient(),
            source: Box::new(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of 500 would say that nothing has happened, and links of a batch would be created one by one after a commit
    /// that may have created them.
    #[test]
    fn a_connection_that_makes_no_sense_any_more_leaves_the_outcome_open() {
        for error in [
            sqlx::Error::Protocol("0 bytes where a packet should be".to_owned()),
            sqlx::Error::Tls("bad record".into()),
            sqlx::Error::Io(io::ErrorKind::ConnectionReset.into()),
        ] {
            let remedy = Remedy::of_driver(&error);
            assert_eq!(remedy, Some(Remedy::Reconnect), "{error}");
            assert!(remedy.is_some_and(Remedy::is_transient));
        }
    }
}
