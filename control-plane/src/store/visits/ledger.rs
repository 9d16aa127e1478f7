//! The rows of visits: how many a link has, how many of them are used, and who has leased some.

use crate::store::error::Fault;
use crate::store::rows::max_visits;
use crate::store::session::Session;
use crate::store::sql::{Sql, Value, pieces, sql};
use crate::visits::{Ledger, VisitLease};
use edgelink_wire::LinkKey;

/// A link as far as its visits are concerned.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    pub(super) id: u64,
    pub(super) tenant_id: u32,
    /// `None` without a limit.
    pub(super) max: Option<u64>,
    pub(super) is_live: bool,
    /// Those used; `None` if none ever was.
    pub(super) used: Option<u64>,
    /// The link that it has become, if it has moved.
    pub(super) moved_to: Option<u64>,
}

#[derive(Debug, sqlx_macros::FromRow)]
struct LimitedRow {
    id: u64,
    tenant_id: u32,
    details: Option<String>,
    deleted_at: Option<u64>,
    used: Option<u64>,
    moved_to: Option<u64>,
}

impl Limited {
    /// How many visits it has.
    pub(super) fn max(&self) -> u64 {
        match self.max {
            _ if !self.is_live => 0,
            None => u64::MAX,
            Some(max) => max,
        }
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.used.unwrap_or_default() >= self.max()
    }
}

/// The link of that key, deleted ones among them.
pub(super) async fn find(session: &mut Session, key: &LinkKey) -> Result<Option<Limited>, Fault> {
    let query = select(
        "JOIN domains d ON d.id = l.domain_id",
        "d.name = ? AND l.code = ?",
    );
    let query = query.bind(&key.domain).bind(&key.code);
    read(session, query).await
}

/// The link with that number, deleted ones among them.
pub(super) async fn find_by_id(session: &mut Session, id: u64) -> Result<Option<Limited>, Fault> {
    read(session, select("", "l.id = ?").bind(id)).await
}

fn select<'v>(joined: &str, condition: &str) -> Sql<'v> {
    sql(format!(
        "SELECT l.id, l.tenant_id, l.details, l.deleted_at, v.used, v.moved_to FROM links l {joined} \
         LEFT JOIN visits v ON v.link_id = l.id WHERE {condition}"
    ))
}

async fn read(session: &mut Session, query: Sql<'_>) -> Result<Option<Limited>, Fault> {
    let row: Option<LimitedRow> = session.fetch_optional(query).await?;
    row.map(|row| {
        Ok(Limited {
            id: row.id,
            tenant_id: row.tenant_id,
            max: max_visits(row.details.as_deref())?,
            is_live: row.deleted_at.is_none(),
            used: row.used,
            moved_to: row.moved_to,
        })
    })
    .transpose()
}

/// The statement that makes the row of a link that has none; not that of a link that was purged.
pub(super) fn begin<'v>(session: &Session, link_id: u64) -> Sql<'v> {
    let insert_ignore = session.dialect().insert_ignore;
    let begin =
        format!("{insert_ignore} visits (link_id, used) SELECT id, 0 FROM links WHERE id = ?");
    sql(begin).bind(link_id)
}

#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct LockedRow {
    pub(super) used: u64,
    pub(super) reached: Option<u64>,
    pub(super) moved_to: Option<u64>,
    pub(super) now_millis: u64,
}

#[derive(Debug, sqlx_macros::FromRow)]
struct LeaseRow {
    worker: Vec<u8>,
    number: u64,
    size: u64,
    settled: bool,
    lease_until: u64,
}

/// Locks the visits of a link, and reads them. `None` if there is no row of them.
pub(super) async fn lock(
    session: &mut Session,
    link_id: u64,
) -> Result<Option<(LockedRow, Ledger)>, Fault> {
    let dialect = session.dialect();
    let (now, for_update) = (dialect.now_millis, dialect.for_update);
    let query = sql(format!(
        "SELECT used, reached, moved_to, {now} AS now_millis FROM visits WHERE link_id = ?{for_update}"
    ));
    let locked: Option<LockedRow> = session.fetch_optional(query.bind(link_id)).await?;
    let Some(locked) = locked else {
        return Ok(None);
    };
    let query = sql(
        "SELECT worker, number, size, settled, lease_until FROM visit_leases WHERE link_id = ?",
    );
    let rows: Vec<LeaseRow> = session.fetch_all(query.bind(link_id)).await?;
    let leases: Result<_, Fault> = rows.into_iter().map(LeaseRow::into_lease).collect();
    let used = locked.used;
    let leases = leases?;
    Ok(Some((locked, Ledger { used, leases })))
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
pub(super) async fn write_leases(
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

/// Whether anything is noted of visits of links. Part of a transaction.
pub(in crate::store) async fn is_any(
    session: &mut Session,
    link_ids: &[u64],
) -> Result<bool, Fault> {
    let query = sql("SELECT link_id FROM visits WHERE link_id IN ").list(link_ids);
    let found: Option<(u64,)> = session.fetch_optional(query.push(" LIMIT 1")).await?;
    Ok(found.is_some())
}

/// Removes the visits of links. Part of a transaction.
pub(in crate::store) async fn remove(session: &mut Session, link_ids: &[u64]) -> Result<(), Fault> {
    for table in ["visits", "visit_leases"] {
        let remove = sql(format!("DELETE FROM {table} WHERE link_id IN "));
        session.execute(remove.list(link_ids)).await?;
    }
    Ok(())
}
