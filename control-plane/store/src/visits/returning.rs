//! Blocks of several links returned together by a worker: one transaction for all of them, which does not wait for rows locked by
//! other transactions, so that a contended link does not delay the others.

use super::Changer;
use super::ledger::{Limited, LockedVisits, find_all, leases_of, lock_free};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_model::clock;
use edgelink_settings::config::VisitsConfig;
use edgelink_settings::visits::VisitLease;
use edgelink_wire::backoff::Bounds;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::visits::ReturnOutcome;
use edgelink_wire::{LinkKey, VisitsRequest};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The most attempts at rows that others have locked.
const ATTEMPTS: u32 = 3;

/// The pauses in between.
const PAUSES: Bounds = Bounds {
    first_millis: 10,
    cap_millis: 40,
};

/// Time of a request for the blocks that are returned alone, one after the other.
const ALONE: Duration = Duration::from_millis(300);

/// The outcome for one link of a transaction for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    Settled,
    /// Another transaction has locked its uses.
    Locked,
    /// It has moved, or its sums are to be computed, which takes a separate transaction.
    Alone,
}

impl Store {
    /// Accepts uses of several links returned by a worker, each by a request for no new uses. Returns that are not stored in time are to
    /// be sent again.
    pub async fn return_visits(
        &self,
        worker: WorkerId,
        returns: &[(LinkKey, VisitsRequest)],
        config: &VisitsConfig,
    ) -> Result<Vec<ReturnOutcome>, StoreError> {
        let mut done = vec![Together::Locked; returns.len()];
        for attempt in 1..=ATTEMPTS {
            let locked = returns.iter().zip(&done);
            let locked = locked.filter(|(_, done)| **done == Together::Locked);
            let locked: Vec<_> = locked.map(|(returned, _)| returned).collect();
            if locked.is_empty() {
                break;
            }
            if attempt > 1 {
                tokio::time::sleep(clock::pause_after(attempt - 1, PAUSES)).await;
            }
            let call = self
                .write("return_visits", "returning uses of links")
                .of(Class::Visits);
            let changer = self.changer(config);
            let mut outcomes = run!(call, |session| {
                return_together(session, changer, worker, &locked).await
            })?
            .into_iter();
            for done in done.iter_mut().filter(|done| **done == Together::Locked) {
                *done = outcomes.next().unwrap_or(Together::Locked);
            }
        }
        let end = Instant::now() + ALONE;
        let mut outcomes = Vec::with_capacity(returns.len());
        for ((key, request), done) in returns.iter().zip(done) {
            outcomes.push(match done {
                Together::Settled => ReturnOutcome::Settled,
                Together::Locked => ReturnOutcome::Later,
                Together::Alone => {
                    let alone = timeout_at(end, self.lease_visits(key, request, config));
                    match alone.await {
                        Ok(Ok(_)) => ReturnOutcome::Settled,
                        Err(_) => ReturnOutcome::Later,
                        Ok(Err(error)) if error.is_transient() => ReturnOutcome::Later,
                        Ok(Err(error)) => return Err(error),
                    }
                }
            });
        }
        Ok(outcomes)
    }
}

/// Returns uses of links in one transaction, with an outcome for each.
async fn return_together(
    session: &mut Session,
    changer: Changer<'_>,
    worker: WorkerId,
    returns: &[&(LinkKey, VisitsRequest)],
) -> Result<Vec<Together>, Fault> {
    let links = find_all(session, returns.iter().map(|(key, _)| key)).await?;
    let has_visits = |limited: &&Limited| limited.used.is_some();
    let unmoved = |limited: &&Limited| limited.moved_to.is_none() || limited.is_live;
    let together = links.values().filter(has_visits).filter(unmoved);
    let mut ids: Vec<u64> = together.map(|limited| limited.id).collect();
    ids.sort_unstable();
    let mut visits = BTreeMap::new();
    if !ids.is_empty() {
        session.begin().await?;
        let rows = lock_free(session, &ids).await?;
        let leases = leases_of(session, &ids, &worker).await?;
        let mut leases: BTreeMap<u64, VisitLease> = leases.into_iter().collect();
        for row in rows {
            let mine = leases.remove(&row.link_id).into_iter().collect();
            visits.insert(row.link_id, LockedVisits::new(row, mine, Some(worker)));
        }
    }
    let mut done = Vec::with_capacity(returns.len());
    for (key, request) in returns {
        done.push(match links.get(key) {
            // Nothing was ever leased from it, or it was purged.
            None => Together::Settled,
            Some(limited) if !has_visits(&limited) => Together::Settled,
            Some(limited) if !unmoved(&limited) => Together::Alone,
            Some(limited) => match visits.get_mut(&limited.id) {
                None => Together::Locked,
                Some(visits) => settle(visits, limited, request, changer.config),
            },
        });
    }
    if !ids.is_empty() {
        let changed = links.values().filter_map(|limited| {
            let visits = visits.get(&limited.id);
            Some((
                limited,
                visits.filter(|visits| may_settle(visits, limited))?,
            ))
        });
        let changed: Vec<_> = changed.collect();
        changer.finish(session, &changed).await?;
    }
    Ok(done)
}

/// True if the locked rows suffice for a return.
fn may_settle(visits: &LockedVisits, limited: &Limited) -> bool {
    visits.row.is_summed() && visits.row.moved_to == limited.moved_to
}

/// Settles a block in locked uses.
fn settle(
    visits: &mut LockedVisits,
    limited: &Limited,
    request: &VisitsRequest,
    config: &VisitsConfig,
) -> Together {
    if !may_settle(visits, limited) {
        return Together::Alone;
    }
    let now = visits.row.now_millis;
    if let Some(mine) = &mut visits.mine {
        // A request that arrives after a later one adds nothing new.
        let _stale = visits.ledger.lease(mine, 0, request, config, now);
    }
    Together::Settled
}
