//! Group commit: links that arrive while a commit runs go into the next one.
//!
//! A commit costs the same for one link as for a hundred, so concurrent requests share it. A link that arrives when none runs is
//! committed at once.
//!
//! Requests for many links have lanes of their own, so that a single link does not wait behind chunks of 500.

use super::model::Link;
use super::order::CreateFailure;
use crate::store::{CreateError, NewLink, Store, StoreError};
use crate::telemetry::prometheus::CREATE_BATCHES;
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

/// How many links one transaction creates at most.
pub(super) const MAX_BATCH: usize = 500;

/// How many transactions of links, and of chunks, run at once: while one waits for the disk, the next is sent.
const LANES: usize = 2;

/// How long a chunk may wait for its commit. Its request has a shorter bound.
const CHUNK_TIMEOUT: Duration = Duration::from_mins(1);

/// Commits links in batches.
pub(super) struct GroupCommit {
    links: mpsc::Sender<Job>,
    chunks: mpsc::Sender<Job>,
    wait_limit: Duration,
}

/// The store's answer for each link.
type Answers = Vec<Result<Link, CreateError>>;

/// Links of one request that wait.
struct Job {
    links: Vec<NewLink>,
    answer: oneshot::Sender<Result<Answers, StoreError>>,
}

impl GroupCommit {
    /// Starts to commit into `store`. Of links and of chunks, `queue` may wait; one more is refused at once. A link waits in the
    /// queue and for its commit for `wait_limit`. The lanes end after their last commit when this is dropped.
    pub(super) fn start(store: &Arc<Store>, queue: usize, wait_limit: Duration) -> Self {
        Self {
            links: start_lanes(store, queue),
            chunks: start_lanes(store, queue),
            wait_limit,
        }
    }

    /// Creates links together with others, whose outcomes do not matter. They are committed when this returns. A caller that is
    /// dropped before the commit begins takes its links back.
    pub(super) async fn create(&self, links: Vec<NewLink>) -> Result<Answers, CreateFailure> {
        let (queue, wait_limit) = match links.len() {
            1 => (&self.links, self.wait_limit),
            _ => (&self.chunks, CHUNK_TIMEOUT),
        };
        let (answer, answered) = oneshot::channel();
        queue
            .try_send(Job { links, answer })
            .map_err(|_| CreateFailure::Overloaded)?;
        let waited = timeout(wait_limit, answered).await;
        let answers = waited
            .map_err(|_| late(format!("no commit within {} ms", wait_limit.as_millis())))?
            .map_err(|_| late("the commit was given up".to_owned()))?;
        Ok(answers?)
    }
}

fn late(reason: String) -> StoreError {
    StoreError {
        context: "creating a link",
        transient: true,
        source: reason.into(),
    }
}

fn start_lanes(store: &Arc<Store>, length: usize) -> mpsc::Sender<Job> {
    let (sender, jobs) = mpsc::channel(length);
    let queue = Arc::new(Mutex::new(Queue { jobs, next: None }));
    for _ in 0..LANES {
        tokio::spawn(run(Arc::clone(store), Arc::clone(&queue)));
    }
    sender
}

/// A lane: commits the jobs that wait and answers them, until the queue is closed.
async fn run(store: Arc<Store>, queue: Arc<Mutex<Queue>>) {
    loop {
        // The lock is held while waiting: the other lanes come next.
        let Some(mut jobs) = queue.lock().await.batch().await else {
            return;
        };
        jobs.retain(|job| !job.answer.is_closed());
        if !jobs.is_empty() {
            commit(store.as_ref(), jobs).await;
        }
    }
}

struct Queue {
    jobs: mpsc::Receiver<Job>,
    /// The job that had no room in the last batch.
    next: Option<Job>,
}

impl Queue {
    /// The jobs of the next transaction. `None` if the queue is closed.
    async fn batch(&mut self) -> Option<Vec<Job>> {
        let first = match self.next.take() {
            Some(job) => job,
            None => self.jobs.recv().await?,
        };
        let mut count = first.links.len();
        let mut batch = vec![first];
        while count < MAX_BATCH
            && let Ok(job) = self.jobs.try_recv()
        {
            count += job.links.len();
            if count > MAX_BATCH {
                self.next = Some(job);
                break;
            }
            batch.push(job);
        }
        Some(batch)
    }
}

async fn commit(store: &Store, jobs: Vec<Job>) {
    counter!(CREATE_BATCHES).increment(1);
    let links = jobs.iter().flat_map(|job| job.links.clone()).collect();
    // Sending fails if the caller has left.
    match store.create_links(links).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for job in jobs {
                let own = answers.by_ref().take(job.links.len()).collect();
                drop(job.answer.send(Ok(own)));
            }
        }
        Err(error) if error.is_transient() || jobs.len() == 1 => {
            let shared = Arc::new(error);
            for job in jobs {
                drop(job.answer.send(Err(shared_error(&shared))));
            }
        }
        // The database refuses one of them for good: each is committed alone, so that the others succeed.
        Err(_) => {
            for job in jobs {
                drop(job.answer.send(store.create_links(job.links).await));
            }
        }
    }
}

/// A copy of the failure that several callers share.
fn shared_error(error: &Arc<StoreError>) -> StoreError {
    StoreError {
        context: error.context,
        transient: error.transient,
        source: Box::new(Arc::clone(error)),
    }
}

#[cfg(test)]
mod tests;
