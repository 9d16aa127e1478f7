//! Visits of links that have a limit. The row of a link in `visits` is locked while they are leased: the rules are in
//! [`crate::visits`].

mod ledger;
mod moving;

pub(super) use self::ledger::{is_any, remove};
pub(super) use self::moving::carry;

use self::ledger::{Limited, begin, find, lock, write_leases};
use self::moving::follow;
use super::audit::{Actor, Entry, append};
use super::calls::{Store, run};
use super::classes::Class;
use super::error::{Fault, StoreError};
use super::events::{Events, LinkEvent};
use super::lines::RowLine;
use super::link_changes::subject;
use super::rows::links_by_id;
use super::session::Session;
use super::sql::sql;
use crate::config::VisitsConfig;
use crate::visits::{KEPT_MILLIS, Ledger, StaleRequest};
use edgelink_wire::{LinkKey, VisitsAnswer, VisitsRequest};
use serde_json::json;

impl Store {
    /// Leases visits of a link to a worker, and notes what it gives back. A link without a limit has more than any worker can
    /// spend; one that does not exist has none. What a link gets back that has moved is had where it is now.
    ///
    /// # Errors
    /// The inner error if the worker has sent a later request.
    pub async fn lease_visits(
        &self,
        key: &LinkKey,
        request: &VisitsRequest,
        config: &VisitsConfig,
    ) -> Result<Result<VisitsAnswer, StaleRequest>, StoreError> {
        let call = self.write("lease_visits", "leasing visits of a link");
        let call = call
            .of(Class::Visits)
            .locking([RowLine::Visits(key.clone())]);
        run!(call, |session| {
            for _ in 0..MAX_ROUNDS {
                let Some(asked) = find(session, key).await? else {
                    return Ok(Ledger::default().lease(0, request, config, 0));
                };
                let Some((limited, request)) = follow(session, &asked, request).await? else {
                    return Ok(Ledger::default().lease(0, request, config, 0));
                };
                // A link that has moved only gets visits back.
                let max = match limited.id == asked.id {
                    true => limited.max(),
                    false => 0,
                };
                let lease = |ledger: &mut Ledger, now| ledger.lease(max, &request, config, now);
                let events = self.events.as_deref();
                if let Some(answer) = change(session, &limited, events, lease).await? {
                    return Ok(answer);
                }
            }
            Err(Fault::Contended)
        })
    }

    /// Takes one visit of a link for a visitor of this process. Whether there was one.
    pub async fn take_visit(
        &self,
        key: &LinkKey,
        config: &VisitsConfig,
    ) -> Result<bool, StoreError> {
        let call = self.write("take_visit", "taking a visit of a link");
        let call = call
            .of(Class::Visits)
            .locking([RowLine::Visits(key.clone())]);
        run!(call, |session| {
            for _ in 0..MAX_ROUNDS {
                let limited = find(session, key).await?;
                let Some(limited) = limited.filter(|limited| !limited.is_used_up()) else {
                    return Ok(false);
                };
                let take = |ledger: &mut Ledger, now| ledger.take(limited.max(), config, now);
                let events = self.events.as_deref();
                if let Some(was_there) = change(session, &limited, events, take).await? {
                    return Ok(was_there);
                }
            }
            Err(Fault::Contended)
        })
    }

    /// Whether visits of a link are left that are not used, be they leased.
    pub async fn has_visits(&self, key: &LinkKey) -> Result<bool, StoreError> {
        let call = self
            .read("has_visits", "looking for visits of a link")
            .of(Class::Visits);
        run!(call, |session| {
            let limited = find(session, key).await?;
            Ok(limited.is_some_and(|limited| !limited.is_used_up()))
        })
    }

    /// How many visits of the link with that number were used, and how many are leased.
    pub async fn find_visits(&self, link_id: u64) -> Result<VisitCounts, StoreError> {
        let call = self.read("find_visits", "counting visits of a link");
        run!(call, |session| {
            let query = sql(
                "SELECT CAST(COALESCE((SELECT used FROM visits WHERE link_id = ?), 0) AS UNSIGNED) AS used, \
                 CAST(COALESCE(SUM(size), 0) AS UNSIGNED) AS leased FROM visit_leases WHERE link_id = ?",
            );
            session.fetch_one(query.bind(link_id).bind(link_id)).await
        })
    }

    /// Removes leases of which nothing more is expected, `limit` at most; how many they were.
    pub async fn purge_visit_leases(&self, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("purge_visit_leases", "removing old leases of visits")
            .of(Class::Background);
        run!(call, |session| {
            let dialect = session.dialect();
            let now = dialect.now_millis;
            let old = format!("lease_until < CAST({now} AS SIGNED) - ? ORDER BY lease_until");
            let purge = sql(dialect.delete_some("visit_leases", "link_id, worker", &old));
            let purge = purge.bind(KEPT_MILLIS).bind(limit);
            session.autocommit(purge).await
        })
    }
}

/// How often a link is looked up again that has moved, or was purged, before its visits were locked.
const MAX_ROUNDS: usize = 4;

/// The visits of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct VisitCounts {
    /// How many were used, as far as workers have said.
    pub used: u64,
    /// How many are leased to workers.
    pub leased: u64,
}

/// Changes the ledger of a link, in one transaction. `None`, and nothing is changed, if the link has moved meanwhile, or is not
/// there any more.
async fn change<T>(
    session: &mut Session,
    limited: &Limited,
    events: Option<&Events>,
    act: impl FnOnce(&mut Ledger, u64) -> T,
) -> Result<Option<T>, Fault> {
    if limited.used.is_none() {
        session.autocommit(begin(session, limited.id)).await?;
    }
    session.begin().await?;
    let locked = lock(session, limited.id).await?;
    let unmoved = locked.filter(|(locked, _)| locked.moved_to == limited.moved_to);
    let Some((locked, before)) = unmoved else {
        session.rollback().await?;
        return Ok(None);
    };
    let now = locked.now_millis;
    let mut after = before.clone();
    let outcome = act(&mut after, now);
    write_leases(session, limited.id, now, &before, &mut after).await?;
    let max = limited.max.filter(|_| limited.is_live);
    let reached = max.filter(|max| after.used >= *max);
    if after != before || reached != locked.reached {
        // The lock is that of one node: a transaction on another one conflicts with this one by the row that both write.
        let update =
            sql("UPDATE visits SET used = ?, reached = ?, changes = changes + 1 WHERE link_id = ?");
        let update = update.bind(after.used).bind(reached);
        session.execute(update.bind(limited.id)).await?;
    }
    if reached.is_some() && reached != locked.reached {
        on_limit_reached(session, limited, (after.used, now), events).await?;
    }
    session.commit(1).await?;
    Ok(Some(outcome))
}

/// The limit of a link is reached, for the first time since it was set: what the world is told of it is a part of the
/// transaction.
async fn on_limit_reached(
    session: &mut Session,
    limited: &Limited,
    (used, now): (u64, u64),
    events: Option<&Events>,
) -> Result<(), Fault> {
    let links = links_by_id(session, &[limited.id]).await?;
    for link in &links {
        let entry = Entry {
            actor: &Actor::command_line(limited.tenant_id),
            action: "link.limit-reached",
            subject: subject(&link.key()),
            detail: json!({ "maxVisits": limited.max, "used": used }),
        };
        append(session, &entry).await?;
    }
    if let Some(events) = events {
        let reached = links.iter().map(|link| (LinkEvent::LimitReached, link));
        events.append(session, now, reached).await?;
    }
    Ok(())
}
