//! Creating links together: what arrives while a commit runs goes into the next one.
//!
//! A commit costs the same for one link as for a hundred, so concurrent requests share them. None of them waits for company:
//! a link that arrives when nothing is being committed is committed at once.
//!
//! Requests for many links have lanes of their own, so that a link alone never stands behind some chunks of 500. The
//! database shares its time between the lanes.

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

/// How many transactions of a kind run at once: while one waits for the disk, the next is sent.
const LANES: usize = 2;

/// How long a chunk may wait for the answer. Its request has a shorter bound.
const PATIENCE_OF_CHUNKS: Duration = Duration::from_mins(1);

/// Commits links in batches.
pub(super) struct GroupCommit {
    links: mpsc::Sender<Job>,
    chunks: mpsc::Sender<Job>,
    patience: Duration,
}

/// What the store says about each link.
type Answers = Vec<Result<Link, CreateError>>;

/// Links of one request that wait.
struct Job {
    links: Vec<NewLink>,
    answer: oneshot::Sender<Result<Answers, StoreError>>,
}

impl GroupCommit {
    /// Starts to commit into `store`. Of links and of chunks, `queue` may wait; one more is refused at once. A link waits for its
    /// answer for `patience`, in the queue and in its commit. The lanes end with this, when their last commit is done.
    pub(super) fn start(store: &Arc<Store>, queue: usize, patience: Duration) -> Self {
        Self {
            links: start_lanes(store, queue),
            chunks: start_lanes(store, queue),
            patience,
        }
    }

    /// Creates links together with others. They are in the database when this answers; what comes of the others does not
    /// matter. A caller that leaves before the commit begins takes its links back.
    pub(super) async fn create(&self, links: Vec<NewLink>) -> Result<Answers, CreateFailure> {
        let (queue, patience) = match links.len() {
            1 => (&self.links, self.patience),
            _ => (&self.chunks, PATIENCE_OF_CHUNKS),
        };
        let (answer, answered) = oneshot::channel();
        queue
            .try_send(Job { links, answer })
            .map_err(|_| CreateFailure::Overloaded)?;
        let waited = timeout(patience, answered).await;
        let answers = waited
            .map_err(|_| late(format!("no commit within {} ms", patience.as_millis())))?
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

/// One lane: takes what waits, commits it, answers, and looks again until nothing can come any more.
async fn run(store: Arc<Store>, queue: Arc<Mutex<Queue>>) {
    loop {
        // Held while waiting: the other lanes are next in turn.
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
    /// What had no room in the last batch.
    next: Option<Job>,
}

impl Queue {
    /// What goes into one transaction. `None` if nothing comes any more.
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
    // Whoever has left does not want the answer, so that sending it may fail.
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
        // One of them is something that the database can never take. The others are not to suffer for it.
        Err(_) => {
            for job in jobs {
                drop(job.answer.send(store.create_links(job.links).await));
            }
        }
    }
}

/// The same failure, for each of those who share it.
fn shared_error(error: &Arc<StoreError>) -> StoreError {
    StoreError {
        context: error.context,
        transient: error.transient,
        source: Box::new(Arc::clone(error)),
    }
}

#[cfg(test)]
mod tests;
