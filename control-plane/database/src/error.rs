//! The failures of a database, and their remedies.

use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use std::io;
use std::sync::Arc;

/// A failure of the database.
#[derive(Debug, thiserror::Error)]
#[error("{context}: {source}")]
pub struct StoreError {
    /// The operation that failed.
    pub context: &'static str,
    /// True if the same call may succeed later.
    pub transient: bool,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl StoreError {
    /// The error of a call that a full queue refuses.
    #[must_use]
    pub fn of_full_queue(context: &'static str) -> Self {
        Fault::Crowded(Limit::Waiting).into_error(context, Remedy::Later)
    }

    /// True if the same call may succeed later: the database is unreachable, busy or restarting.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// The limit of this process that the call has reached; `None` if the database failed.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        if let Some(shared) = self.source.downcast_ref::<Arc<Self>>() {
            return shared.limit();
        }
        self.source.downcast_ref::<Fault>().and_then(Fault::limit)
    }

    /// True if the call was given up because of its client, or of a queue: a call of another client may still succeed.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.limit().is_some() || matches!(self.source.downcast_ref(), Some(Fault::Late))
    }

    /// True if other transactions kept changing rows of the call: a call for fewer rows may still succeed at once.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        matches!(self.source.downcast_ref(), Some(Fault::Contended))
    }

    /// True if the database refuses these values, but would take others.
    #[must_use]
    pub fn refuses_values(&self) -> bool {
        match self.source.downcast_ref() {
            Some(Fault::Sql(error)) => error.as_database_error().is_some_and(refuses_values),
            _ => false,
        }
    }
}

fn refuses_values(error: &dyn DatabaseError) -> bool {
    let code = error.code();
    let code = code.as_deref().unwrap_or_default();
    match error.try_downcast_ref::<MySqlDatabaseError>() {
        // SQLSTATE: "data exception" and "integrity constraint violation".
        Some(_) => code.starts_with("22") || code.starts_with("23"),
        // SQLITE_TOOBIG, SQLITE_CONSTRAINT and SQLITE_MISMATCH.
        None => code
            .parse::<i32>()
            .is_ok_and(|code| matches!(code & 0xff, 18..=20)),
    }
}

/// A limit on waiting calls of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// Calls waiting for the same row.
    #[error("too many calls wait for the same row, or it stays locked (store.max_waiting_for_row)")]
    WaitingForRow,
    /// Calls of a class waiting for a connection.
    #[error("too many calls wait for a connection (store.max_waiting)")]
    Waiting,
    /// Connections, none of which is free in time.
    #[error("no connection is free in time (store.max_connections)")]
    Connections,
}

/// A failed statement.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The driver or the database reports an error.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// No answer within the configured time. The statement may or may not have taken effect.
    #[error("no answer within {0} ms")]
    TimedOut(u128),
    /// A table is missing because the whole database is: it was dropped, or is being restored.
    #[error("the database that store.url names does not exist")]
    NoDatabase,
    /// Too many calls of this process wait; this one has not reached the database.
    #[error(transparent)]
    Crowded(Limit),
    /// The client's deadline has passed.
    #[error("the client no longer waits")]
    Late,
    /// Other transactions kept changing the same rows.
    #[error("other transactions keep changing the same rows")]
    Contended,
    /// The database has lost changes that this process has read, and is not repaired yet.
    #[error("the database went back, and the publisher has not repaired it yet")]
    WentBack,
    /// A row that this version cannot have written, or cannot read.
    #[error("the stored {0}")]
    Corrupt(String),
    /// A call with values that the database cannot store.
    #[error("{0}")]
    Refused(String),
}

impl Fault {
    /// A column that this version cannot have written.
    pub fn corrupt(what: &str, error: &dyn std::error::Error) -> Self {
        Self::Corrupt(format!("{what}: {error}"))
    }

    /// Its kind, as a short label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TimedOut(_) => "timeout",
            Self::Corrupt(_) => "corrupt",
            Self::Refused(_) => "refused",
            Self::NoDatabase => "no database",
            Self::WentBack => "went back",
            Self::Crowded(_) => "crowded",
            Self::Late => "late",
            Self::Sql(_) | Self::Contended => match self.remedy() {
                Remedy::Retry | Remedy::Later => "busy",
                Remedy::Reconnect => "connection",
                Remedy::Duplicate => "duplicate",
                Remedy::GiveUp => "error",
            },
        }
    }

    /// The remedy for it.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Sql(error) => Remedy::of_driver(error).unwrap_or_else(|| of_database(error)),
            Self::TimedOut(_) | Self::NoDatabase | Self::Contended => Remedy::Later,
            Self::WentBack | Self::Crowded(_) | Self::Late => Remedy::Later,
            Self::Corrupt(_) | Self::Refused(_) => Remedy::GiveUp,
        }
    }

    /// The limit of this process that the call has reached.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            Self::Crowded(limit) => Some(*limit),
            _ => None,
        }
    }

    /// True if the server may have failed. A server with contended rows works, and so does one that is to be repaired, or that the
    /// call has not reached.
    pub fn is_suspicious(&self) -> bool {
        let may_have_failed = matches!(self.remedy(), Remedy::Reconnect | Remedy::Later);
        let is_other = matches!(
            self,
            Self::Contended | Self::WentBack | Self::Crowded(_) | Self::Late
        );
        may_have_failed && !is_other
    }

    /// True if a unique key is taken.
    pub fn is_duplicate(&self) -> bool {
        self.remedy() == Remedy::Duplicate
    }

    /// True if a row refers to a missing one.
    pub fn is_missing_parent(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        error
            .as_database_error()
            .is_some_and(|error| error.is_foreign_key_violation())
    }

    /// True if the server has no such table, or the connection no database.
    pub fn is_missing_table(&self) -> bool {
        matches!(self.mysql_number(), Some(1046 | 1146))
    }

    /// True if a guard of a script has refused to go on: see [`crate::dialect::GUARD`].
    pub fn is_refused_by_guard(&self) -> bool {
        self.mysql_number() == Some(1242)
    }

    /// True if the server reports it for a statement before the COMMIT of a script, which it has not run then.
    pub fn is_before_commit(&self) -> bool {
        self.is_duplicate() || self.is_missing_parent() || self.is_refused_by_guard()
    }

    fn mysql_number(&self) -> Option<u16> {
        let Self::Sql(error) = self else { return None };
        let error = error.as_database_error()?;
        let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
        Some(error.number())
    }

    /// True if a query that requires a row returned none.
    pub fn is_missing_row(&self) -> bool {
        matches!(self, Self::Sql(sqlx::Error::RowNotFound))
    }

    /// Converts the fault into the public error of the store.
    pub fn into_error(self, context: &'static str, remedy: Remedy) -> StoreError {
        StoreError {
            context,
            transient: remedy.is_transient(),
            source: Box::new(self),
        }
    }
}

/// Remedy for a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The database undid the transaction in favour of another: retry.
    Retry,
    /// The connection is gone: retry on another one if nothing can have been committed.
    Reconnect,
    /// Retry later, or on another server.
    Later,
    /// A unique key is taken.
    Duplicate,
    /// Permanent: a retry fails as well.
    GiveUp,
}

impl Remedy {
    /// Remedy for an error of the driver itself; `None` if the database reported it.
    fn of_driver(error: &sqlx::Error) -> Option<Self> {
        match error {
            sqlx::Error::Database(_) => None,
            sqlx::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Some(Self::GiveUp)
            }
            // A malformed answer is as good as none: the call is possibly committed.
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => Some(Self::Reconnect),
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => Some(Self::Later),
            _ => Some(Self::GiveUp),
        }
    }

    /// True if the same call may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Retry | Self::Reconnect | Self::Later)
    }
}

fn of_database(error: &sqlx::Error) -> Remedy {
    let Some(error) = error.as_database_error() else {
        return Remedy::GiveUp;
    };
    if error.is_unique_violation() {
        return Remedy::Duplicate;
    }
    match error.try_downcast_ref::<MySqlDatabaseError>() {
        Some(error) => of_mysql(error.number()),
        None => of_sqlite(error.code().and_then(|code| code.parse().ok())),
    }
}

fn of_mysql(number: u16) -> Remedy {
    match number {
        // An error during COMMIT, which is possibly committed.
        1180 => Remedy::Later,
        // Lock wait timeout, deadlock, MariaDB's "record has changed since last read", and a transaction that Group Replication has rolled
        // back during its commit, because another member has changed the same rows.
        1205 | 1213 | 1020 | 3101 => Remedy::Retry,
        // Too many connections (of the server, of the user), host blocked, shutdown, connection killed (also MariaDB's
        // 1927), network errors, and a statement that was interrupted (by hand, by MariaDB's or MySQL's own bound).
        1040 | 1203 | 1226 | 1129 | 1053 | 1927 | 1158..=1161 | 1317 | 1969 | 3024 => Remedy::Later,
        // A primary that has become a replica (--read-only, read-only transaction, read-only mode), a cluster node that
        // is not ready, a member of Group Replication that is cut off from the others, a server that is in offline mode or restarting.
        1290 | 1792 | 1836 | 1047 | 3100 | 3032 | 3168 => Remedy::Later,
        // There is no such database (yet, or while it is restored).
        1049 => Remedy::Later,
        _ => Remedy::GiveUp,
    }
}

fn of_sqlite(extended: Option<i32>) -> Remedy {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    match extended.map(|code| code & 0xff) {
        Some(BUSY | LOCKED) => Remedy::Later,
        _ => Remedy::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_when_rows_are_contended_is_not_suspected() {
        assert!(Fault::TimedOut(1_500).is_suspicious());
        assert!(Fault::from(sqlx::Error::PoolTimedOut).is_suspicious());
        for fault in [
            Fault::Contended,
            Fault::Late,
            Fault::Crowded(Limit::Connections),
        ] {
            assert!(
                !fault.is_suspicious() && fault.remedy().is_transient(),
                "{fault}"
            );
        }
    }

    #[test]
    fn transaction_when_group_replication_refuses_is_retried() {
        assert_eq!(of_mysql(3101), Remedy::Retry);
        assert_eq!(of_mysql(3100), Remedy::Later);
        assert!(of_mysql(3100).is_transient());
        assert_eq!(of_mysql(3102), Remedy::GiveUp);
    }

    /// An answer of 500 would say that nothing was committed, and links of a batch would be created one by one after a
    /// commit that may have created them.
    #[test]
    fn connection_when_broken_leaves_the_outcome_open() {
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
