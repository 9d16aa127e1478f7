//! Creating links together: what arrives while a commit runs goes into the next one.
//!
//! A commit costs the same for one link as for a hundred, so concurrent requests share them. Nobody waits for company: a
//! link that arrives when nothing is being committed is committed at once.

mod lane;

use crate::model::Link;
use crate::store::{CreateError, NewLink, Store, StoreError};
use lane::Job;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};

/// How many links one transaction creates at most.
const MAX_BATCH: usize = 500;

/// How many transactions run at once: while one waits for the disk, the next is sent.
const LANES: usize = 2;

/// How links wait for their commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchOptions {
    /// How many links may wait. One more is refused at once.
    pub(crate) queue: usize,
    /// How long a link may wait for the answer, in the queue and in its commit.
    pub(crate) patience: Duration,
}

/// Commits links in batches.
pub(crate) struct Batcher {
    jobs: mpsc::Sender<Job>,
    patience: Duration,
}

/// Why there is no answer of the store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    #[error("too many links wait for their commit")]
    Overloaded,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Batcher {
    /// Starts to commit into `store`. The lanes end with the batcher, when their last commit is done.
    pub(crate) fn start(store: &Arc<Store>, options: BatchOptions) -> Self {
        let (jobs, queue) = mpsc::channel(options.queue);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..LANES {
            tokio::spawn(lane::run(Arc::clone(store), Arc::clone(&queue)));
        }
        Self {
            jobs,
            patience: options.patience,
        }
    }

    /// Creates a link together with others. It is in the database when this answers `Ok(Ok(_))`; what comes of the others
    /// does not matter. A caller that leaves before the commit begins takes its link back.
    pub(crate) async fn create(
        &self,
        link: NewLink,
    ) -> Result<Result<Link, CreateError>, BatchError> {
        let (answer, answered) = oneshot::channel();
        self.jobs
            .try_send(Job { link, answer })
            .map_err(|_| BatchError::Overloaded)?;
        let waited = tokio::time::timeout(self.patience, answered).await;
        let answer = waited
            .map_err(|_| late(format!("no commit within {} ms", self.patience.as_millis())))?
            .map_err(|_| late("the commit was given up".to_owned()))?;
        Ok(answer?)
    }
}

fn late(reason: String) -> StoreError {
    StoreError {
        context: "creating a link",
        transient: true,
        source: reason.into(),
    }
}

#[cfg(test)]
mod tests;
