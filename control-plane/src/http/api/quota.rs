//! Creates links within the quota of the caller's key.
//!
//! The links of a request are taken from the quota before it is carried out, and those that were not created are given
//! back. So no key creates more than its quota; a request that is cut off in between may leave it with less.

use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::service::order::{Order, OrderOutcome};
use std::borrow::Borrow;
use tokio::time::Instant;

/// Carries one order out.
pub(super) async fn create(app: &App, caller: &Caller, order: Order) -> OrderOutcome {
    if !caller.has_quota() {
        return app.creator.create(order).await;
    }
    if app.store.take_quota(caller.id(), 1).await? == 0 {
        let mut refused = beyond(app, &[order]).await;
        return refused.pop().unwrap_or(Err(exhausted()));
    }
    let outcome = app.creator.create(order).await;
    give_back(app, caller, 1, std::slice::from_ref(&outcome)).await;
    outcome
}

/// Carries orders out like [`Creator::create_many`](crate::service::creating::Creator::create_many), which may leave out the last
/// ones. The first of them are within the quota, and the others answered only if they create nothing.
pub(super) async fn create_many<O: Borrow<Order>>(
    app: &App,
    caller: &Caller,
    orders: &[O],
    deadline: Instant,
    end: Instant,
) -> Vec<OrderOutcome> {
    if !caller.has_quota() || orders.is_empty() {
        return app.creator.create_many(orders, deadline, end).await;
    }
    let taken = match app.store.take_quota(caller.id(), orders.len() as u64).await {
        Ok(taken) => taken,
        Err(error) => {
            let problem = Problem::store(&error);
            return orders.iter().map(|_| Err(problem.clone())).collect();
        }
    };
    let within = usize::try_from(taken).unwrap_or(usize::MAX);
    let (within, rest) = orders.split_at(within.min(orders.len()));
    let mut outcomes = app.creator.create_many(within, deadline, end).await;
    give_back(app, caller, taken, &outcomes).await;
    if outcomes.len() == within.len() {
        outcomes.extend(beyond(app, rest).await);
    }
    outcomes
}

/// The outcomes of orders for which nothing is left of the quota.
async fn beyond<O: Borrow<Order>>(app: &App, orders: &[O]) -> Vec<OrderOutcome> {
    match app.creator.existing(orders).await {
        Ok(existing) => {
            let or_refused = |outcome: Option<OrderOutcome>| outcome.unwrap_or(Err(exhausted()));
            existing.into_iter().map(or_refused).collect()
        }
        Err(problem) => orders.iter().map(|_| Err(problem.clone())).collect(),
    }
}

fn exhausted() -> Problem {
    Problem::new(Kind::QuotaExhausted).with_detail("the quota of the key is used up")
}

/// Gives back what was taken for links that were not created. Links whose fate is unknown stay taken.
async fn give_back(app: &App, caller: &Caller, taken: u64, outcomes: &[OrderOutcome]) {
    let is_taken = |outcome: &&OrderOutcome| match outcome {
        Ok(made) => made.new_link().is_some(),
        Err(problem) => problem.is_possibly_done(),
    };
    let created = outcomes.iter().filter(is_taken).count() as u64;
    let count = taken.saturating_sub(created);
    if count == 0 {
        return;
    }
    if let Err(error) = app.store.return_quota(caller.id(), count).await {
        tracing::warn!(%error, key = caller.id(), count, "the quota of a key counts links that were not created");
    }
}
