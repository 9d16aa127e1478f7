//! Where the numbers of new links come from. A number is never issued twice.

mod minter;
mod segment;

pub use minter::{Minted, Minter};
pub use segment::{SegmentIssuer, SegmentOptions};

use crate::store::StoreError;
use async_trait::async_trait;

/// Something that issues numbers, each of them once.
#[async_trait]
pub trait NumberSource: Send + Sync + 'static {
    /// The next number.
    async fn next_number(&self) -> Result<u64, IssueError>;

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
            Self::Exhausted { .. } => false,
            Self::Closed => true,
        }
    }
}
