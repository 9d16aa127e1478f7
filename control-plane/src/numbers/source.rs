//! Number sources, and why they may have no number.

use crate::store::StoreError;
use async_trait::async_trait;
use edgelink_wire::Domain;
use edgelink_wire::target::TargetUrl;

/// A source of numbers, each of which is issued once.
#[async_trait]
pub trait NumberSource: Send + Sync + 'static {
    /// The next number.
    async fn next_number(&self) -> Result<u64, IssueError>;

    /// The next number for this link. Only the digest depends on the link.
    async fn number_for(&self, _subject: &Subject<'_>) -> Result<u64, IssueError> {
        self.next_number().await
    }

    /// Stops issuing, and gives back what was not issued. Calls from then on answer [`IssueError::Closed`].
    async fn shutdown(&self);
}

/// The link that a number is for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The domain of the link.
    pub domain: &'a Domain,
    /// The target of the link.
    pub target: &'a TargetUrl,
    /// The creator: the id of an API key, or empty.
    pub owner: &'a str,
    /// How many numbers were refused for this link before, because their codes were taken.
    pub attempt: u32,
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
    /// A source failed.
    #[error("{name}: {reason}")]
    Source {
        /// The source, as it is configured.
        name: &'static str,
        /// What went wrong.
        reason: String,
        /// Whether the same call may succeed later.
        transient: bool,
    },
    /// The clock went back further than is waited for, and numbers made of time would repeat.
    #[error("the clock went back by {by_millis} ms: no numbers are issued until it has caught up")]
    ClockWentBack {
        /// How far.
        by_millis: u64,
    },
    /// This instance is shutting down.
    #[error("no more numbers are issued here: the instance is shutting down")]
    Closed,
}

impl IssueError {
    /// A failure of the source `name` after which the same call may succeed.
    pub(super) fn transient(name: &'static str, reason: impl Into<String>) -> Self {
        Self::of_source(name, reason, true)
    }

    /// A failure of the source `name` that needs an operator.
    pub(super) fn permanent(name: &'static str, reason: impl Into<String>) -> Self {
        Self::of_source(name, reason, false)
    }

    fn of_source(name: &'static str, reason: impl Into<String>, transient: bool) -> Self {
        Self::Source {
            name,
            reason: reason.into(),
            transient,
        }
    }

    /// The same failure of the source `name` for another caller.
    pub(super) fn repeat(&self, name: &'static str) -> Self {
        match self {
            Self::Exhausted { length } => Self::Exhausted { length: *length },
            Self::Source { reason, .. } => Self::of_source(name, reason, self.is_transient()),
            error => Self::of_source(name, error.to_string(), error.is_transient()),
        }
    }

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

/// Takes numbers in eight tasks at once, so many in each, and asserts that none comes twice.
#[cfg(test)]
pub(super) async fn assert_unique<S: NumberSource>(source: &std::sync::Arc<S>, each: usize) {
    let take = |_| {
        let source = std::sync::Arc::clone(source);
        tokio::spawn(async move {
            let mut numbers = Vec::new();
            for _ in 0..each {
                numbers.push(source.next_number().await.unwrap());
            }
            numbers
        })
    };
    let tasks: Vec<_> = (0..8).map(take).collect();
    let mut seen = std::collections::HashSet::new();
    for task in tasks {
        for number in task.await.unwrap() {
            assert!(seen.insert(number), "{number} was issued twice");
        }
    }
    assert_eq!(seen.len(), 8 * each);
}
