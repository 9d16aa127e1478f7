//! Group commit: links that are created, or changed, while a transaction is on its way go into the next one ([`super::lanes`]).
//!
//! Chunks of requests for many links have lanes of their own, so that a single link does not wait behind 500. So do links that
//! must have no twin, because they wait for each other's locks on targets. A change of a link that another transaction has locked is
//! made alone, so that no other one waits with it.

use super::create_link::CreateFailure;
use super::lanes::{Job, LINGER, LaneWork, Turn, shared_error, start_lanes};
use edgelink_model::deadline;
use edgelink_model::links::model::Link;
use edgelink_settings::config::StoreConfig;
use edgelink_settings::telemetry::prometheus::CREATE_BATCHES;
use edgelink_settings::telemetry::traces::{self, Trace};
use edgelink_store::{
    Actor, ChangeOutcome, CreateError, LinkChange, NewLink, SingleChange, Store, StoreError,
};
use edgelink_wire::LinkKey;
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// Limit on the number of waiting chunks, of up to 32 MiB each; a further chunk waits for room.
const MAX_CHUNKS: usize = 4;

/// Time that a request waits for its commit beyond `store.timeout_ms`: the commit before its own may take that long.
pub(super) const GRACE: Duration = Duration::from_millis(300);

/// Commits new links in batches.
pub(super) struct GroupCommit {
    links: mpsc::Sender<Job<Vec<NewLink>>>,
    without_twin: mpsc::Sender<Job<Vec<NewLink>>>,
    chunks: mpsc::Sender<Job<Vec<NewLink>>>,
}

/// Commits changes of single links in batches.
pub(super) struct ChangeCommit {
    changes: mpsc::Sender<Job<OneChange>>,
    /// Time limit of a change, in the queue and for its commit.
    wait_limit: Duration,
}

/// The store's answer for each link.
type Answers = Vec<Result<Link, CreateError>>;

/// A change of one link.
struct OneChange {
    key: LinkKey,
    change: LinkChange,
    actor: Actor,
    /// The time until which the client waits.
    until: Option<Instant>,
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
        const CONTEXT: &str = "creating a link";
        let end = Instant::now() + wait_limit;
        let is_late = |_| late(CONTEXT, wait_limit);
        let (answer, answered) = oneshot::channel();
        let queue = match links.as_slice() {
            [link] if link.twin.takes_locks() => Some(&self.without_twin),
            [_] => Some(&self.links),
            _ => None,
        };
        let job = Job {
            work: links,
            answer,
            trace: Trace::current(),
        };
        if let Some(queue) = queue {
            queue.try_send(job).map_err(|_| CreateFailure::Overloaded)?;
        } else {
            let sent = timeout_at(end, self.chunks.send(job)).await;
            sent.map_err(is_late)?.map_err(|_| given_up(CONTEXT))?;
        }
        let answers = timeout_at(end, answered).await.map_err(is_late)?;
        Ok(answers.map_err(|_| given_up(CONTEXT))??)
    }
}

impl ChangeCommit {
    /// Starts to commit into `store`. The lanes end after their last commit when this is dropped.
    pub(super) fn start(store: &Arc<Store>, config: &StoreConfig) -> Self {
        Self {
            changes: start_lanes(store, config.max_waiting, LINGER),
            wait_limit: config.timeout_ms + GRACE,
        }
    }

    /// Changes a link together with others, whose outcomes do not matter. If this is dropped before the commit begins, the link is not
    /// changed.
    pub(super) async fn change(
        &self,
        key: LinkKey,
        change: LinkChange,
        actor: Actor,
    ) -> Result<ChangeOutcome, StoreError> {
        const CONTEXT: &str = "changing a link";
        let end = deadline::or_sooner(Instant::now() + self.wait_limit);
        let (answer, answered) = oneshot::channel();
        let job = Job {
            work: OneChange {
                key,
                change,
                actor,
                until: deadline::of_task(),
            },
            answer,
            trace: Trace::current(),
        };
        let sent = self.changes.try_send(job);
        sent.map_err(|_| StoreError::of_full_queue(CONTEXT))?;
        let answer = timeout_at(end, answered).await;
        let answer = answer.map_err(|_| late(CONTEXT, self.wait_limit))?;
        answer.map_err(|_| given_up(CONTEXT))?
    }
}

fn late(context: &'static str, wait_limit: Duration) -> StoreError {
    failure(
        context,
        format!("no commit within {} ms", wait_limit.as_millis()),
    )
}

fn given_up(context: &'static str) -> StoreError {
    failure(context, "the commit was given up".to_owned())
}

fn failure(context: &'static str, reason: String) -> StoreError {
    StoreError {
        context,
        transient: true,
        source: reason.into(),
    }
}

impl LaneWork for Vec<NewLink> {
    type Answer = Answers;

    fn count(&self) -> usize {
        self.len()
    }

    async fn commit(store: &Arc<Store>, jobs: Vec<Job<Self>>, turn: Turn) {
        counter!(CREATE_BATCHES).increment(1);
        let links = jobs.iter().flat_map(|job| job.work.clone()).collect();
        // Sending fails if the caller has left.
        let trace = jobs.iter().find_map(|job| job.trace.clone());
        match traces::within(trace, store.create_links_in_turn(links, turn)).await {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                for job in jobs {
                    let own = answers.by_ref().take(job.work.len()).collect();
                    drop(job.answer.send(Ok(own)));
                }
            }
            Err(error) if jobs.len() == 1 || (error.is_transient() && !error.is_contended()) => {
                refuse(jobs, error);
            }
            // The database refuses one of them for good, or its rows keep being changed: each is committed alone, so that the others succeed.
            Err(_) => {
                for job in jobs {
                    let created = traces::within(job.trace, store.create_links(job.work)).await;
                    drop(job.answer.send(created));
                }
            }
        }
    }
}

impl LaneWork for OneChange {
    type Answer = ChangeOutcome;

    fn count(&self) -> usize {
        1
    }

    async fn commit(store: &Arc<Store>, jobs: Vec<Job<Self>>, turn: Turn) {
        let changes: Vec<SingleChange<'_>> = jobs.iter().map(|job| job.work.as_single()).collect();
        let trace = jobs.iter().find_map(|job| job.trace.clone());
        let made = traces::within(trace, store.change_free_links(&changes, turn)).await;
        let outcomes = match made {
            Ok(outcomes) => outcomes,
            Err(error) if error.is_transient() => return refuse(jobs, error),
            // As for creations. A single one has its own error when it is made alone.
            Err(_) => vec![None; jobs.len()],
        };
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            match outcome {
                Some(outcome) => drop(job.answer.send(Ok(outcome))),
                None => drop(tokio::spawn(change_alone(Arc::clone(store), job))),
            }
        }
    }
}

impl OneChange {
    fn as_single(&self) -> SingleChange<'_> {
        SingleChange {
            key: &self.key,
            change: &self.change,
            actor: &self.actor,
        }
    }
}

/// Makes a change by itself, which waits for the row as long as its caller waits.
async fn change_alone(store: Arc<Store>, job: Job<OneChange>) {
    let Job {
        work,
        mut answer,
        trace,
    } = job;
    let OneChange {
        key,
        change,
        actor,
        until,
    } = work;
    let changed = store.change_link(&key, change, &actor);
    let changed = traces::within(trace, deadline::within(until, changed));
    tokio::select! {
        changed = changed => drop(answer.send(changed)),
        () = answer.closed() => {}
    }
}

/// Answers all jobs with a failure.
fn refuse<W: LaneWork>(jobs: Vec<Job<W>>, error: StoreError) {
    let shared = Arc::new(error);
    for job in jobs {
        drop(job.answer.send(Err(shared_error(&shared))));
    }
}

#[cfg(test)]
mod tests;
