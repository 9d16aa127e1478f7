//! Creates links within the quota of the caller's key.
//!
//! The links of a request are taken from the quota before it is carried out, and links that were not created are given
//! back. So no key creates more than its quota; a request that is cut off in between may leave it with less.

use super::caller::Caller;
use super::create_link::{CreateLink, CreateOutcome};
use super::links::Links;
use crate::problem::{Kind, Problem};
use std::borrow::Borrow;
use tokio::time::Instant;

impl Links {
    /// Carries out one request.
    pub(super) async fn create_within_quota(
        &self,
        caller: &Caller,
        request: CreateLink,
    ) -> CreateOutcome {
        if !caller.has_quota() {
            return self.creator.create(request).await;
        }
        if self.store.take_quota(caller.id(), 1).await? == 0 {
            let mut refused = self.beyond(&[request]).await;
            return refused.pop().unwrap_or(Err(exhausted()));
        }
        let outcome = self.creator.create(request).await;
        self.give_back(caller, 1, std::slice::from_ref(&outcome))
            .await;
        outcome
    }

    /// Carries out requests like [`Creator::create_many`](crate::creating::Creator::create_many), which may leave out the
    /// last ones. Requests beyond the quota are fulfilled only if they create nothing.
    pub(super) async fn create_many_within_quota<O: Borrow<CreateLink>>(
        &self,
        caller: &Caller,
        requests: &[O],
        deadline: Instant,
        end: Instant,
    ) -> Vec<CreateOutcome> {
        if !caller.has_quota() || requests.is_empty() {
            return self.creator.create_many(requests, deadline, end).await;
        }
        let taken = match self
            .store
            .take_quota(caller.id(), requests.len() as u64)
            .await
        {
            Ok(taken) => taken,
            Err(error) => {
                let problem = Problem::store(&error);
                return requests.iter().map(|_| Err(problem.clone())).collect();
            }
        };
        let within = usize::try_from(taken).unwrap_or(usize::MAX);
        let (within, rest) = requests.split_at(within.min(requests.len()));
        let mut outcomes = self.creator.create_many(within, deadline, end).await;
        self.give_back(caller, taken, &outcomes).await;
        if outcomes.len() == within.len() {
            outcomes.extend(self.beyond(rest).await);
        }
        outcomes
    }

    /// The outcomes of requests beyond the quota.
    async fn beyond<O: Borrow<CreateLink>>(&self, requests: &[O]) -> Vec<CreateOutcome> {
        match self.creator.existing(requests).await {
            Ok(existing) => {
                let or_refused =
                    |outcome: Option<CreateOutcome>| outcome.unwrap_or(Err(exhausted()));
                existing.into_iter().map(or_refused).collect()
            }
            Err(problem) => requests.iter().map(|_| Err(problem.clone())).collect(),
        }
    }

    /// Gives back the quota of links that were not created. Links whose fate is unknown count as created.
    async fn give_back(&self, caller: &Caller, taken: u64, outcomes: &[CreateOutcome]) {
        let is_taken = |outcome: &&CreateOutcome| match outcome {
            Ok(made) => made.new_link().is_some(),
            Err(problem) => problem.is_possibly_done(),
        };
        let created = outcomes.iter().filter(is_taken).count() as u64;
        let count = taken.saturating_sub(created);
        if count == 0 {
            return;
        }
        if let Err(error) = self.store.return_quota(caller.id(), count).await {
            tracing::warn!(%error, key = caller.id(), count, "failed to return unused quota; the key's quota counts links that were not created");
        }
    }
}

fn exhausted() -> Problem {
    Problem::new(Kind::QuotaExhausted).with_detail("the quota of the key is used up")
}
