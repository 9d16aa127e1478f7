//! Visits of links that have a limit. The row of a link in `visits` is locked while they are leased: the rules are in
//! [`crate::visits`].

use super::audit::{Actor, Entry, append};
use super::calls::{Store, run};
use super::changing::subject;
use super::error::{Fault, StoreError};
use super::events::{Events, LinkEvent};
use super::rows::{links_by_id, max_visits};
use super::session::Session;
use super::sql::{Value, pieces, sql};
use crate::config::VisitsConfig;
use crate::visits::{Ledger, StaleRequest, VisitLease};
use edgelink_wire::{LinkKey, VisitsAnswer, VisitsRequest};
use serde_json::json;

impl Store {
    /// Leases visits of a link to a worker, and notes what it gives back. A link without a limit has more than any worker can
    /// spend; one that does not exist has none.
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
        run!(call, |session| {
            let limited = find(session, key).await?;
            let events = self.events.as_deref();
            change(
                session,
                key,
                limited.as_ref(),
                events,
                |ledger, max, now| ledger.lease(max, request, config, now),
            )
            .await
        })
    }

    /// Takes one visit of a link for a visitor of this process. Whether there was one.
    pub async fn take_visit(
        &self,
        key: &LinkKey,
        config: &VisitsConfig,
    ) -> Result<bool, StoreError> {
        let call = self.write("take_visit", "taking a visit of a link");
        run!(call, |session| {
            let limited = find(session, key).await?;
            if limited.as_ref().is_none_or(Limited::is_used_up) {
                return Ok(false);
            }
            let events = self.events.as_deref();
            change(
                session,
                key,
                limited.as_ref(),
                events,
                |ledger, max, now| ledger.take(max, config, now),
            )
            .await
        })
    }

    /// Whether visits of a link are left that are not used, be they leased.
    pub async fn has_visits(&self, key: &LinkKey) -> Result<bool, StoreError> {
        let call = self.read("has_visits", "looking for visits of a link");
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
}

/// The visits of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct VisitCounts {
    /// How many were used, as far as workers have said.
    pub used: u64,
    /// How many are leased to workers.
    pub leased: u64,
}

/// A link as far as its visits are concerned.
struct Limited {
    id: u64,
    tenant_id: u32,
    /// `None` without a limit.
    max: Option<u64>,
    is_live: bool,
    /// Those used; `None` if none ever was.
    used: Option<u64>,
}

#[derive(Debug, sqlx_macros::FromRow)]
struct LimitedRow {
    id: u64,
    tenant_id: u32,
    details: Option<String>,
    deleted_at: Option<u64>,
    used: Option<u64>,
}

impl Limited {
    /// How many visits it has.
    fn max(&self) -> u64 {
        match self.max {
            _ if !self.is_live => 0,
            None => u64::MAX,
            Some(max) => max,
        }
    }

    fn is_used_up(&self) -> bool {
        self.used.unwrap_or_default() >= self.max()
    }
}

async fn find(session: &mut Session, key: &LinkKey) -> Result<Option<Limited>, Fault> {
    let query = sql(
        "SELECT l.id, l.tenant_id, l.details, l.deleted_at, v.used FROM links l \
         JOIN domains d ON d.id = l.domain_id LEFT JOIN visits v ON v.link_id = l.id \
         WHERE d.name = ? AND l.code = ?",
    );
    let query = query.bind(&key.domain).bind(&key.code);
    let row: Option<LimitedRow> = session.fetch_optional(query).await?;
    row.map(|row| {
        Ok(Limited {
            id: row.id,
            tenant_id: row.tenant_id,
            max: max_visits(row.details.as_deref())?,
            is_live: row.deleted_at.is_none(),
            used: row.used,
        })
    })
    .transpose()
}

/// Changes the ledger of a link, in one transaction. That of no link is empty, and not kept.
async fn change<T>(
    session: &mut Session,
    key: &LinkKey,
    limited: Option<&Limited>,
    events: Option<&Events>,
    act: impl FnOnce(&mut Ledger, u64, u64) -> T,
) -> Result<T, Fault> {
    let Some(limited) = limited else {
        return Ok(act(&mut Ledger::default(), 0, 0));
    };
    if limited.used.is_none() {
        let insert_ignore = session.dialect().insert_ignore;
        let begin = sql(format!(
            "{insert_ignore} visits (link_id, used) VALUES (?, 0)"
        ));
        session.autocommit(begin.bind(limited.id)).await?;
    }
    session.begin().await?;
    let (locked, before) = lock(session, limited.id).await?;
    let mut after = before.clone();
    let outcome = act(&mut after, limited.max(), locked.now_millis);
    write_leases(session, limited.id, locked.now_millis, &before, &mut after).await?;
    let max = limited.max.filter(|_| limited.is_live);
    let reached = max.filter(|max| after.used >= *max);
    if (after.used, reached) != (before.used, locked.reached) {
        let update = sql("UPDATE visits SET used = ?, reached = ? WHERE link_id = ?");
        let update = update.bind(after.used).bind(reached);
        session.execute(update.bind(limited.id)).await?;
    }
    if reached.is_some() && reached != locked.reached {
        on_limit_reached(session, key, limited, after.used).await?;
        if let Some(events) = events {
            let links = links_by_id(session, &[limited.id]).await?;
            let reached = links.iter().map(|link| (LinkEvent::LimitReached, link));
            events.append(session, locked.now_millis, reached).await?;
        }
    }
    session.commit(1).await?;
    Ok(outcome)
}

/// The limit of a link is reached, for the first time since it was set: what the world is told of it is a part of the
/// transaction.
async fn on_limit_reached(
    session: &mut Session,
    key: &LinkKey,
    limited: &Limited,
    used: u64,
) -> Result<(), Fault> {
    let entry = Entry {
        actor: &Actor::command_line(limited.tenant_id),
        action: "link.limit-reached",
        subject: subject(key),
        detail: json!({ "maxVisits": limited.max, "used": used }),
    };
    append(session, &entry).await
}

#[derive(Debug, sqlx_macros::FromRow)]
struct LockedRow {
    used: u64,
    reached: Option<u64>,
    now_millis: u64,
}

#[derive(Debug, sqlx_macros::FromRow)]
struct LeaseRow {
    worker: Vec<u8>,
    number: u64,
    size: u64,
    settled: bool,
    lease_until: u64,
}

/// Locks the visits of a link, and reads them.
async fn lock(session: &mut Session, link_id: u64) -> Result<(LockedRow, Ledger), Fault> {
    let dialect = session.dialect();
    let (now, for_update) = (dialect.now_millis, dialect.for_update);
    let query = sql(format!(
        "SELECT used, reached, {now} AS now_millis FROM visits WHERE link_id = ?{for_update}"
    ));
    let locked: LockedRow = session.fetch_one(query.bind(link_id)).await?;
    let query = sql(
        "SELECT worker, number, size, settled, lease_until FROM visit_leases WHERE link_id = ?",
    );
    let rows: Vec<LeaseRow> = session.fetch_all(query.bind(link_id)).await?;
    let leases: Result<_, Fault> = rows.into_iter().map(LeaseRow::into_lease).collect();
    let used = locked.used;
    Ok((
        locked,
        Ledger {
            used,
            leases: leases?,
        },
    ))
}

impl LeaseRow {
    fn into_lease(self) -> Result<VisitLease, Fault> {
        let worker = self.worker.as_slice().try_into();
        Ok(VisitLease {
            worker: worker.map_err(|error| Fault::corrupt("worker", &error))?,
            number: self.number,
            size: self.size,
            is_settled: self.settled,
            until: self.lease_until,
        })
    }
}

/// Writes the leases that have changed, and forgets the old ones.
async fn write_leases(
    session: &mut Session,
    link_id: u64,
    now: u64,
    before: &Ledger,
    after: &mut Ledger,
) -> Result<(), Fault> {
    for worker in after.forget_old(now) {
        let forget = sql("DELETE FROM visit_leases WHERE link_id = ? AND worker = ?");
        let forget = forget.bind(link_id).bind(worker.as_slice());
        session.execute(forget).await?;
    }
    let has_changed = |lease: &&VisitLease| !before.leases.contains(lease);
    let changed: Vec<&VisitLease> = after.leases.iter().filter(has_changed).collect();
    let dialect = session.dialect();
    let columns = ["number", "size", "settled", "lease_until"];
    let columns = columns.map(|column| format!(" {column} = {}", dialect.inserted(column)));
    let update = dialect.on_duplicate("link_id, worker") + &columns.join(",");
    for leases in pieces(&changed) {
        let rows = leases.iter().map(|lease| {
            [
                Value::from(link_id),
                lease.worker.as_slice().into(),
                lease.number.into(),
                lease.size.into(),
                lease.is_settled.into(),
                lease.until.into(),
            ]
        });
        let insert =
            "INSERT INTO visit_leases (link_id, worker, number, size, settled, lease_until) ";
        session
            .execute(sql(insert).rows(rows).push(&update))
            .await?;
    }
    Ok(())
}

/// Removes the visits of links. Part of a transaction.
pub(super) async fn remove(session: &mut Session, link_ids: &[u64]) -> Result<(), Fault> {
    for table in ["visits", "visit_leases"] {
        let remove = sql(format!("DELETE FROM {table} WHERE link_id IN "));
        session.execute(remove.list(link_ids)).await?;
    }
    Ok(())
}

/// Copies what a link has used of its visits to the link that it becomes by a move. Part of a transaction.
pub(super) async fn copy(session: &mut Session, from: u64, to: u64) -> Result<(), Fault> {
    remove(session, &[to]).await?;
    let copy = sql("INSERT INTO visits (link_id, used, reached) \
         SELECT ?, used, reached FROM visits WHERE link_id = ?");
    session.execute(copy.bind(to).bind(from)).await.map(drop)
}
