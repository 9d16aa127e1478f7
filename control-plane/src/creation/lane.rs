//! One lane: takes what waits, commits it, answers everybody, and looks again.

use super::MAX_BATCH;
use crate::model::Link;
use crate::store::{CreateError, NewLink, Store, StoreError};
use crate::telemetry::prometheus::CREATE_BATCHES;
use metrics::counter;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, oneshot};

/// What the store says about one link.
type Answer = Result<Result<Link, CreateError>, StoreError>;

/// A link that waits.
pub(super) struct Job {
    pub(super) link: NewLink,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Commits what waits in `queue` until nobody can add to it any more.
pub(super) async fn run(store: Arc<Store>, queue: Arc<Mutex<mpsc::Receiver<Job>>>) {
    loop {
        let mut jobs = Vec::new();
        // Held while waiting: the other lanes are next in turn.
        let count = queue.lock().await.recv_many(&mut jobs, MAX_BATCH).await;
        if count == 0 {
            return;
        }
        jobs.retain(|job| !job.answer.is_closed());
        if !jobs.is_empty() {
            commit(store.as_ref(), jobs).await;
        }
    }
}

async fn commit(store: &Store, jobs: Vec<Job>) {
    counter!(CREATE_BATCHES).increment(1);
    let (links, waiting): (Vec<_>, Vec<_>) =
        jobs.into_iter().map(|job| (job.link, job.answer)).unzip();
    match store.create_links(links.clone()).await {
        Ok(answers) => answer_all(waiting, answers.into_iter().map(Ok)),
        Err(error) if error.is_transient() || links.len() == 1 => {
            let shared = Arc::new(error);
            answer_all(
                waiting,
                std::iter::repeat_with(|| Err(shared_error(&shared))),
            );
        }
        // One of them is something that the database can never take. The others are not to suffer for it.
        Err(_) => commit_each(store, links, waiting).await,
    }
}

async fn commit_each(store: &Store, links: Vec<NewLink>, waiting: Vec<oneshot::Sender<Answer>>) {
    for (link, waiting) in links.into_iter().zip(waiting) {
        let answer = store.create_links(vec![link]).await;
        let answer = answer.map(|mut answers| answers.pop());
        let answer = answer.and_then(|answer| answer.ok_or_else(no_answer));
        let _ = waiting.send(answer); // who has left does not want it
    }
}

fn answer_all(waiting: Vec<oneshot::Sender<Answer>>, mut answers: impl Iterator<Item = Answer>) {
    for waiting in waiting {
        let answer = answers.next().unwrap_or_else(|| Err(no_answer()));
        let _ = waiting.send(answer); // who has left does not want it
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

fn no_answer() -> StoreError {
    StoreError {
        context: "creating links",
        transient: false,
        source: "the store left one of them unanswered".into(),
    }
}
