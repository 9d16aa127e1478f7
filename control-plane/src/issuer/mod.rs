//! Where the numbers of new links come from. A number is never issued twice.

mod counter;
mod digest;
mod minter;
mod ranges;
mod segment;
pub mod snowflake;
mod subject;
mod zookeeper;

pub use counter::counter;
pub use digest::{Digest, Membership};
pub use minter::{Minted, Minter};
pub use segment::{SegmentIssuer, SegmentOptions};
pub use subject::Subject;
pub use zookeeper::{ZookeeperAuth, ZookeeperOptions, zookeeper};

use crate::store::StoreError;
use async_trait::async_trait;

/// Something that issues numbers, each of them once.
#[async_trait]
pub trait NumberSource: Send + Sync + 'static {
    /// The next number.
    async fn next_number(&self) -> Result<u64, IssueError>;

    /// The next number for this link. Only sources that derive numbers from links look at it.
    async fn number_for(&self, _subject: &Subject<'_>) -> Result<u64, IssueError> {
        self.next_number().await
    }

    /// Stops issuing, and keeps what was not issued for others. Calls from then on answer [`IssueError::Closed`].
    async fn shutdown(&self);
}

/// Why there is no number.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Every number whose code has this many digits is used up: a longer code length has to be configured.
    #[error("all codes of {length} digits are used up")]
    Exhausted {
        /// The code length, in digits.
        length: u8,
    },
    /// A source outside of the store failed.
    #[error("{name}: {reason}")]
    Source {
        /// The source, as it is configured.
        name: &'static str,
        /// What went wrong.
        reason: String,
        /// Whether the same call may succeed later.
        transient: bool,
    },
    /// The clock of this machine went back further than is waited for, and numbers that are made of time would repeat.
    #[error("the clock went back by {by_ms} ms: no numbers are issued until it has caught up")]
    ClockWentBack {
        /// How far, in milliseconds.
        by_ms: u64,
    },
    /// This instance is shutting down.
    #[error("no more numbers are issued here: the instance is shutting down")]
    Closed,
}

impl IssueError {
    /// Whether the same call may succeed later, here or on another instance.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Source { transient, .. } => *transient,
            Self::Exhausted { .. } => false,
            Self::ClockWentBack { .. } | Self::Closed => true,
        }
    }
}
