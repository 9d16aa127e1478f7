//! How to reach a database.

use std::time::Duration;

/// How connections to the database are kept and how long a statement may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// The most connections open at once. SQLite uses one for writing and the rest for reading. Default 16.
    pub max_connections: u32,
    /// How long one statement may take; getting a connection counts as part of the first one. A call that is still
    /// waiting then fails with a transient error, and its connection is closed. Committing many links may take this long
    /// for every 1,000 of them. Default 1.5 s.
    pub statement_timeout: Duration,
    /// Connections older than this are replaced, so that a changed address of the database is noticed. Default 30 min.
    pub max_lifetime: Duration,
    /// Connections not used for this long are closed. Default 10 min.
    pub idle_timeout: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            max_connections: 16,
            statement_timeout: Duration::from_millis(1500),
            max_lifetime: Duration::from_mins(30),
            idle_timeout: Duration::from_mins(10),
        }
    }
}
