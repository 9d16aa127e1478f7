//! Group commit: links that arrive while a commit runs go into the next one.
//!
//! A commit costs the same for one link as for a hundred, so concurrent requests share it. A link that arrives when none runs is
//! committed at once.
//!
//! Chunks of requests for many links have lanes of their own, so that a single link does not wait behind 500. So do links that
//! must have no twin, because they wait for each other's locks on targets.

use super::create_link::CreateFailure;
use edgelink_model::links::model::Link;
use edgelink_settings::telemetry::prometheus::CREATE_BATCHES;
use edgelink_settings::telemetry::traces::{self, Trace};
use edgelink_store::{CreateError, NewLink, Store, StoreError};
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

/// Limit on the number of links one transaction creates.
pub(super) const MAX_BATCH: usize = 500;

/// Number of concurrent transactions of a kind. The second one runs only if the first takes longer than [`LINGER`].
const LANES: usize = 2;

/// Time links wait for the running transaction, gathering meanwhile: two transactions of half the size cost the database and
/// this process more than one. A transaction that takes longer (a far database, a lock) does not hold up the others.
const LINGER: Duration = Duration::from_millis(5);

/// Limit on the number of waiting chunks, of up to 32 MiB each; a further chunk waits for room.
const MAX_CHUNKS: usize = 4;

/// Commits links in batches.
pub(super) struct GroupCommit {
    links: mpsc::Sender<Job>,
    without_twin: mpsc::Sender<Job>,
    chunks: mpsc::Sender<Job>,
}

/// The store's answer for each link.
type Answers = Vec<Result<Link, CreateError>>;

/// Links of one request that wait.
struct Job {
    links: Vec<NewLink>,
    answer: oneshot::Sender<Result<Answers, StoreError>>,
    /// The trace of the request, if it is sampled. A transaction that several share is in the trace of the first.
    trace: Option<Trace>,
}

impl GroupCommit {
    /// Starts to commit into `store`. Up to `queue` single links may wait; one more is refused at once. The lanes end after their
    /// last commit when this is dropped.
    pub(super) fn start(store: &Arc<Store>, queue: usize) -> Self {
        Self {
            links: start_lanes(store, queue, LINGER),
            without_twin: start_lanes(store, queue, LINGER),
            // A chunk fills its transaction: there is nothing to wait for.
            chunks: start_lanes(store, MAX_CHUNKS, Duration::ZERO),
        }
    }

    /// Creates links together with others, whose outcomes do not matter. They are committed when this returns, after
    /// `wait_limit` at most. If this is dropped before the commit begins, its links are not created.
    pub(super) async fn create(
        &self,
        links: Vec<NewLink>,
        wait_limit: Duration,
    ) -> Result<Answers, CreateFailure> {
        let end = Instant::now() + wait_limit;
        let is_late = |_| late(format!("no commit within {} ms", wait_limit.as_millis()));
        let is_given_up = || late("the commit was given up".to_owned());
        let (answer, answered) = oneshot::channel();
        let queue = match links.as_slice() {
            [link] if link.twin.takes_locks() => Some(&self.without_twin),
            [_] => Some(&self.links),
            _ => None,
        };
        let job = Job {
            links,
            answer,
            trace: Trace::current(),
        };
        if let Some(queue) = queue {
            queue.try_send(job).map_err(|_| CreateFailure::Overloaded)?;
        } else {
            let sent = timeout_at(end, self.chunks.send(job)).await;
            sent.map_err(is_late)?.map_err(|_| is_given_up())?;
        }
        let answers = timeout_at(end, answered).await.map_err(is_late)?;
        Ok(answers.map_err(|_| is_given_up())??)
    }
}

fn late(reason: String) -> StoreError {
    StoreError {
        context: "creating a link",
        transient: true,
        source: reason.into(),
    }
}

fn start_lanes(store: &Arc<Store>, length: usize, linger: Duration) -> mpsc::Sender<Job> {
    let (sender, jobs) = mpsc::channel(length);
    let queue = Arc::new(Mutex::new(JobQueue::new(jobs, linger)));
    for _ in 0..LANES {
        tokio::spawn(run(Arc::clone(store), Arc::clone(&queue)));
    }
    sender
}

/// A lane: commits the jobs that wait and answers them, until the queue is closed.
async fn run(store: Arc<Store>, queue: Arc<Mutex<JobQueue>>) {
    loop {
        // The lock is held while waiting: the other lane comes next.
        let Some((mut jobs, _turn)) = queue.lock().await.batch().await else {
            return;
        };
        jobs.retain(|job| !job.answer.is_closed());
        if !jobs.is_empty() {
            commit(store.as_ref(), jobs).await;
        }
    }
}

struct JobQueue {
    jobs: mpsc::Receiver<Job>,
    /// The job that did not fit into the last batch.
    next: Option<Job>,
    /// Held by a lane until its transaction ends.
    turn: Arc<Mutex<()>>,
    /// Time limit for the turn; after it a lane continues without the turn.
    linger: Duration,
}

/// A lane's turn, until its transaction ends. `None` if it runs beside the other lane.
type Turn = Option<OwnedMutexGuard<()>>;

impl JobQueue {
    fn new(jobs: mpsc::Receiver<Job>, linger: Duration) -> Self {
        Self {
            jobs,
            next: None,
            turn: Arc::default(),
            linger,
        }
    }

    /// The jobs of the next transaction. `None` if the queue is closed.
    async fn batch(&mut self) -> Option<(Vec<Job>, Turn)> {
        let first = match self.next.take() {
            Some(job) => job,
            None => self.jobs.recv().await?,
        };
        let turn = timeout(self.linger, Arc::clone(&self.turn).lock_owned());
        let turn = turn.await.ok();
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
        Some((batch, turn))
    }
}

async fn commit(store: &Store, jobs: Vec<Job>) {
    counter!(CREATE_BATCHES).increment(1);
    let links = jobs.iter().flat_map(|job| job.links.clone()).collect();
    // Sending fails if the caller has left.
    let trace = jobs.iter().find_map(|job| job.trace.clone());
    match traces::within(trace, store.create_links(links)).await {
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
        // The database refuses one of them permanently: each is committed alone, so that the others succeed.
        Err(_) => {
            for job in jobs {
                let created = traces::within(job.trace, store.create_links(job.links)).await;
                drop(job.answer.send(created));
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
