//! The failures of Redis.

use fred::error::{Error, ErrorKind};

/// A failure of Redis. None of them says anything about a link.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The URL cannot be used.
    #[error("redis.url cannot be used: {0}")]
    Url(String),
    /// The file of authorities cannot be used.
    #[error("redis.ca_file {0}")]
    Authorities(String),
    /// No connection, or no answer in time.
    #[error("Redis does not answer: {0}")]
    Away(Error),
    /// Redis answered with an error.
    #[error("Redis refuses: {0}")]
    Refused(Error),
    /// Redis answered in a form unknown for the command.
    #[error("Redis answered {0} in a form that is not known")]
    Malformed(&'static str),
    /// Not sent: the circuit breaker is open.
    #[error("Redis did not answer a moment ago")]
    Skipped,
}

impl RedisError {
    /// True if Redis has no memory left, by its own error or a script's.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Refused(error) if error.details().contains("OOM "))
    }

    /// The name of the kind in metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Url(_) | Self::Authorities(_) => "url",
            Self::Away(_) => "away",
            Self::Refused(_) => "refused",
            Self::Malformed(_) => "malformed",
            Self::Skipped => "skipped",
        }
    }
}

impl From<Error> for RedisError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::IO
            | ErrorKind::Timeout
            | ErrorKind::Canceled
            | ErrorKind::Routing
            | ErrorKind::Cluster
            | ErrorKind::Sentinel
            | ErrorKind::Backpressure
            | ErrorKind::Tls
            | ErrorKind::Auth => Self::Away(error),
            _ => Self::Refused(error),
        }
    }
}
