//! Number sources and their errors.

use async_trait::async_trait;
use edgelink_store::StoreError;
use edgelink_wire::Domain;
use edgelink_wire::target::TargetUrl;

/// A source of numbers, each of which is issued once.
#[async_trait]
pub trait NumberSource: Send + Sync + 'static {
    /// The next number.
    async fn next_number(&self) -> Result<u64, IssueError>;

    /// Returns the next number for this link. Only the digest depends on the link.
    async fn number_for(&self, _subject: &Subject<'_>) -> Result<u64, IssueError> {
        self.next_number().await
    }

    /// Stops issuing, and returns unused numbers to the source. Later calls fail with [`IssueError::Closed`].
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
    /// Numbers that were refused for this link before, because their codes were taken.
    pub attempt: u32,
}

/// The error of a number source.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// All numbers with codes of this many digits are used up: a longer code length has to be configured.
    #[error("all codes of {length} digits are used up")]
    Exhausted {
        /// The code length, in digits.
        length: u8,
    },
    /// A source failed.
    #[error("{name}: {reason}")]
    Source {
        /// The source's name in the configuration.
        name: &'static str,
        /// The cause.
        reason: String,
        /// True if a retry may succeed.
        transient: bool,
    },
    /// The clock went back too far to wait for it, and numbers derived from time would repeat.
    #[error("the clock went back by {by_millis} ms: no numbers are issued until it has caught up")]
    ClockWentBack {
        /// Milliseconds by which it went back.
        by_millis: u64,
    },
    /// This instance is shutting down.
    #[error("no more numbers are issued here: the instance is shutting down")]
    Closed,
}

impl IssueError {
    /// Creates a failure of the source `name` after which a retry may succeed.
    pub(super) fn transient(name: &'static str, reason: impl Into<String>) -> Self {
        Self::of_source(name, reason, true)
    }

    /// Creates a failure of the source `name` that needs an operator.
    #[cfg(feature = "zookeeper")]
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

    /// Copies the failure of the source `name` for another caller.
    pub(super) fn repeat(&self, name: &'static str) -> Self {
        match self {
            Self::Exhausted { length } => Self::Exhausted { length: *length },
            Self::Source { reason, .. } => Self::of_source(name, reason, self.is_transient()),
            error => Self::of_source(name, error.to_string(), error.is_transient()),
        }
    }

    /// True if a retry may succeed, here or on another instance.
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
