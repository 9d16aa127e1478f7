//! Lanes: a few transactions at a time, each of which takes along what waits.
//!
//! A commit costs the same for one link as for a hundred, so concurrent requests share it. What arrives when nothing runs is committed
//! at once.
//!
//! A lane has its turn until its transaction is on its way to the database. The next one gathers meanwhile, and is carried out while the
//! one before it is written to disk: as soon as it is as large, or that one has ended. Smaller transactions would cost the database and
//! this process more than the wait does.

use edgelink_settings::telemetry::traces::Trace;
use edgelink_store::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Limit on the number of links in one transaction.
pub(super) const MAX_BATCH: usize = 500;

/// Number of concurrent transactions of a kind.
pub(super) const LANES: usize = 2;

/// Time for which work waits, gathering, for a transaction before it. One that takes longer (no connection is free, equal links are
/// locked, a slow disk) does not hold up the others.
pub(super) const LINGER: Duration = Duration::from_millis(5);

/// The work of one request.
pub(super) trait LaneWork: Sized + Send + 'static {
    /// Its outcome.
    type Answer: Send + 'static;

    /// The number of links that it is about.
    fn count(&self) -> usize;

    /// Does the work of jobs in one transaction, and answers them. `turn` is dropped as soon as that is on its way.
    fn commit(
        store: &Arc<Store>,
        jobs: Vec<Job<Self>>,
        turn: Turn,
    ) -> impl Future<Output = ()> + Send;
}

/// Work that waits.
pub(super) struct Job<W: LaneWork> {
    pub(super) work: W,
    pub(super) answer: oneshot::Sender<Result<W::Answer, StoreError>>,
    /// The trace of the request, if it is sampled. A transaction that several share is in the trace of the first.
    pub(super) trace: Option<Trace>,
}

/// A lane's turn, until its transaction is sent. `None` if it runs beside the other lane.
pub(super) type Turn = Option<OwnedMutexGuard<()>>;

/// Starts lanes for work in `store`, of which up to `length` jobs may wait. They end after their last commit when the sender is dropped.
pub(super) fn start_lanes<W: LaneWork>(
    store: &Arc<Store>,
    length: usize,
    linger: Duration,
) -> mpsc::Sender<Job<W>> {
    let (sender, jobs) = mpsc::channel(length);
    let queue = Arc::new(Mutex::new(JobQueue::new(jobs, linger)));
    for _ in 0..LANES {
        tokio::spawn(run(Arc::clone(store), Arc::clone(&queue)));
    }
    sender
}

/// A lane: commits the jobs that wait and answers them, until the queue is closed.
async fn run<W: LaneWork>(store: Arc<Store>, queue: Arc<Mutex<JobQueue<W>>>) {
    loop {
        // The lock is held while waiting: the other lane comes next.
        let Some(batch) = queue.lock().await.batch().await else {
            return;
        };
        let JobBatch {
            mut jobs,
            turn,
            _running,
        } = batch;
        jobs.retain(|job| !job.answer.is_closed());
        if jobs.is_empty() {
            continue;
        }
        let store = Arc::clone(&store);
        let committed = tokio::spawn(async move { W::commit(&store, jobs, turn).await });
        if let Err(error) = committed.await {
            tracing::error!(%error, "a transaction of several requests panicked; they are given up, and the lane goes on");
        }
    }
}

/// The jobs of a transaction.
pub(super) struct JobBatch<W: LaneWork> {
    pub(super) jobs: Vec<Job<W>>,
    pub(super) turn: Turn,
    _running: RunningWork,
}

/// Work that is being done, until this is dropped.
struct RunningWork {
    count: usize,
    all: Arc<watch::Sender<usize>>,
}

impl RunningWork {
    fn add(count: usize, all: &Arc<watch::Sender<usize>>) -> Self {
        all.send_modify(|all| *all += count);
        Self {
            count,
            all: Arc::clone(all),
        }
    }
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        self.all.send_modify(|all| *all -= self.count);
    }
}

pub(super) struct JobQueue<W: LaneWork> {
    jobs: mpsc::Receiver<Job<W>>,
    /// The job that did not fit into the last batch.
    next: Option<Job<W>>,
    /// Held by a lane until its transaction is sent.
    pub(super) turn: Arc<Mutex<()>>,
    /// Number of links in the transactions that run.
    running: Arc<watch::Sender<usize>>,
    /// Time limit for the turn and for gathering; after it a lane continues.
    linger: Duration,
}

impl<W: LaneWork> JobQueue<W> {
    pub(super) fn new(jobs: mpsc::Receiver<Job<W>>, linger: Duration) -> Self {
        Self {
            jobs,
            next: None,
            turn: Arc::default(),
            running: Arc::new(watch::Sender::new(0)),
            linger,
        }
    }

    /// The next transaction. `None` if the queue is closed.
    pub(super) async fn batch(&mut self) -> Option<JobBatch<W>> {
        let first = match self.next.take() {
            Some(job) => job,
            None => self.jobs.recv().await?,
        };
        let end = Instant::now() + self.linger;
        let turn = timeout_at(end, Arc::clone(&self.turn).lock_owned());
        let turn = turn.await.ok();
        let mut running = self.running.subscribe();
        let mut count = first.work.count();
        let mut jobs = vec![first];
        while count < MAX_BATCH {
            let job = match self.jobs.try_recv() {
                Ok(job) => job,
                Err(_) if count >= *running.borrow_and_update() || Instant::now() >= end => break,
                Err(_) => tokio::select! {
                    Some(job) = self.jobs.recv() => job,
                    _ = running.changed() => continue,
                    () = sleep_until(end) => break,
                },
            };
            if count + job.work.count() > MAX_BATCH {
                self.next = Some(job);
                break;
            }
            count += job.work.count();
            jobs.push(job);
        }
        Some(JobBatch {
            jobs,
            turn,
            _running: RunningWork::add(count, &self.running),
        })
    }
}

/// A copy of a failure that several callers share.
pub(super) fn shared_error(error: &Arc<StoreError>) -> StoreError {
    StoreError {
        context: error.context,
        transient: error.transient,
        source: Box::new(Arc::clone(error)),
    }
}
