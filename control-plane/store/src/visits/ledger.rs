//! The rows of uses: the limit of a link, the uses spent, and the leases of workers.
//!
//! The row of a link has the sums of its leases, so that the cost of a lease does not depend on the number of workers. `changes` grows
//! with each change, and `summed` is the value of it for which the sums are right: a control plane older than the sums leaves `summed`
//! behind, and the next newer one computes them again.

use crate::rows::max_visits;
use edgelink_database::columns::name;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, Value, pieces, sql};
use edgelink_settings::config::VisitsConfig;
use edgelink_settings::visits::{Demand, Ledger, VisitLease, millis};
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::{Code, Domain, LinkKey};
use std::collections::BTreeMap;

/// The part of a link that concerns its uses.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    pub(super) id: u64,
    pub(super) tenant_id: u32,
    /// `None` without a limit.
    pub(super) max: Option<u64>,
    pub(super) is_live: bool,
    /// Uses spent; `None` if its row does not exist yet.
    pub(super) used: Option<u64>,
    /// The number of the link that it has become by a move.
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

/// [`LimitedRow`] with the code.
#[derive(Debug, sqlx_macros::FromRow)]
struct CodedRow {
    code: Vec<u8>,
    #[sqlx(flatten)]
    limited: LimitedRow,
}

impl LimitedRow {
    fn into_limited(self) -> Result<Limited, Fault> {
        Ok(Limited {
            id: self.id,
            tenant_id: self.tenant_id,
            max: max_visits(self.details.as_deref())?,
            is_live: self.deleted_at.is_none(),
            used: self.used,
            moved_to: self.moved_to,
        })
    }
}

impl Limited {
    /// Number of uses that it has in all.
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

/// The link with this key, even if deleted.
pub(super) async fn find(session: &mut Session, key: &LinkKey) -> Result<Option<Limited>, Fault> {
    let query = select(
        "JOIN domains d ON d.id = l.domain_id",
        "d.name = ? AND l.code = ?",
    );
    let query = query.bind(&key.domain).bind(&key.code);
    read(session, query).await
}

/// The link with this number, even if deleted.
pub(super) async fn find_by_id(session: &mut Session, id: u64) -> Result<Option<Limited>, Fault> {
    read(session, select("", "l.id = ?").bind(id)).await
}

/// The links with these keys, including deleted ones, by key.
pub(super) async fn find_all(
    session: &mut Session,
    keys: impl IntoIterator<Item = &LinkKey>,
) -> Result<BTreeMap<LinkKey, Limited>, Fault> {
    let mut by_domain: BTreeMap<&Domain, Vec<&Code>> = BTreeMap::new();
    for key in keys {
        by_domain.entry(&key.domain).or_default().push(&key.code);
    }
    let index = session.dialect().force_index("links_domain_code");
    let mut found = BTreeMap::new();
    for (domain, codes) in by_domain {
        for codes in codes.chunks(LONGEST) {
            let query = sql(format!(
                "SELECT l.id, l.tenant_id, l.details, l.deleted_at, v.used, v.moved_to, l.code FROM links l{index} \
                 LEFT JOIN visits v ON v.link_id = l.id \
                 WHERE l.domain_id = (SELECT id FROM domains WHERE name = ?) AND l.code IN "
            ));
            let rows: Vec<CodedRow> = session.fetch_all(query.bind(domain).list(codes)).await?;
            for row in rows {
                let code = Code::stored(&name(&row.code)?);
                let code = code.map_err(|error| Fault::corrupt("code", &error))?;
                let key = LinkKey::new(domain.clone(), code);
                found.insert(key, row.limited.into_limited()?);
            }
        }
    }
    Ok(found)
}

fn select<'v>(joined: &str, condition: &str) -> Sql<'v> {
    sql(format!(
        "SELECT l.id, l.tenant_id, l.details, l.deleted_at, v.used, v.moved_to FROM links l {joined} \
         LEFT JOIN visits v ON v.link_id = l.id WHERE {condition}"
    ))
}

async fn read(session: &mut Session, query: Sql<'_>) -> Result<Option<Limited>, Fault> {
    let row: Option<LimitedRow> = session.fetch_optional(query).await?;
    row.map(LimitedRow::into_limited).transpose()
}

/// The statement that creates the row of a link, if missing, unless the link was purged. It locks the link: a concurrent removal of
/// the link either removes the row as well, or is waited for.
pub(super) fn begin<'v>(session: &Session, link_id: u64) -> Sql<'v> {
    let dialect = session.dialect();
    let (insert_ignore, for_share) = (dialect.insert_ignore, dialect.for_share);
    let begin = format!(
        "{insert_ignore} visits (link_id, used, summed) SELECT id, 0, 0 FROM links WHERE id = ?{for_share}"
    );
    sql(begin).bind(link_id)
}

/// The stored sums of a link.
#[derive(Clone, Copy, Debug, sqlx_macros::FromRow)]
pub(super) struct SumsRow {
    pub(super) link_id: u64,
    pub(super) used: u64,
    leased: u64,
    demand_since: u64,
    demand_workers: u64,
    demand_before: u64,
    pub(super) reached: Option<u64>,
    pub(super) moved_to: Option<u64>,
    changes: u64,
    summed: Option<u64>,
    pub(super) now_millis: u64,
}

/// The columns of [`SumsRow`] except the clock.
const SUMS: &str = "link_id, used, leased, demand_since, demand_workers, demand_before, reached, moved_to, changes, summed";

#[derive(Debug, sqlx_macros::FromRow)]
struct LeaseRow {
    link_id: u64,
    worker: Vec<u8>,
    holder: Option<Vec<u8>>,
    number: u64,
    size: u64,
    settled: bool,
    lease_until: u64,
    asked_at: u64,
    back_at: Option<u64>,
}

/// The columns of a [`LeaseRow`].
const LEASE: &str =
    "link_id, worker, holder, number, size, settled, lease_until, asked_at, back_at";

/// The most leases of others examined together with the lease of a worker: the first ones due back.
const OTHERS: u32 = 8;

/// The locked uses of a link: its sums, and the leases examined by a change.
#[derive(Debug)]
pub(super) struct LockedVisits {
    pub(super) row: SumsRow,
    pub(super) ledger: Ledger,
    /// The lease of the requesting worker; `None` if it has none.
    pub(super) mine: Option<VisitLease>,
    others: Vec<VisitLease>,
    before: (Ledger, Vec<VisitLease>),
}

impl SumsRow {
    /// True if no control plane older than the sums has changed uses since they were computed.
    pub(super) fn is_summed(&self) -> bool {
        self.summed == Some(self.changes)
    }

    fn ledger(&self) -> Ledger {
        Ledger {
            used: self.used,
            leased: self.leased,
            demand: Demand {
                since: self.demand_since,
                workers: self.demand_workers,
                before: self.demand_before,
            },
        }
    }
}

impl LockedVisits {
    /// Creates it from the sums and the examined leases; `worker` is the requesting one.
    pub(super) fn new(row: SumsRow, leases: Vec<VisitLease>, worker: Option<WorkerId>) -> Self {
        let ledger = row.ledger();
        let is_mine = |lease: &VisitLease| Some(lease.worker) == worker;
        let (mut mine, others): (Vec<_>, Vec<_>) = leases.into_iter().partition(is_mine);
        let mine = mine.pop();
        let all = others.iter().chain(&mine).cloned().collect();
        Self {
            row,
            ledger,
            mine,
            others,
            before: (ledger, all),
        }
    }

    /// Takes back due blocks of other workers.
    async fn take_back(
        &mut self,
        session: &mut Session,
        config: &VisitsConfig,
    ) -> Result<(), Fault> {
        let now = self.row.now_millis;
        let is_due = |lease: &&VisitLease| lease.back_at.is_some_and(|back_at| back_at < now);
        let holders = self.others.iter().filter(is_due);
        let holders: Vec<&[u8]> = holders.map(|lease| lease.holder.as_slice()).collect();
        if !holders.is_empty() {
            let query = sql("SELECT worker, heard_at FROM visit_workers WHERE worker IN ");
            let heard: Vec<(Vec<u8>, u64)> = session.fetch_all(query.list(&holders)).await?;
            for lease in &mut self.others {
                let of_holder = |(worker, _): &&(Vec<u8>, u64)| **worker == lease.holder;
                let heard_at = heard.iter().find(of_holder).map(|(_, heard_at)| *heard_at);
                self.ledger.take_back(lease, heard_at, config, now);
            }
        }
        let out = self.before.1.iter().filter(|lease| lease.back_at.is_some());
        if out.count() < OTHERS as usize {
            // All outstanding leases were examined. A purge by a control plane older than the sums leaves them too large.
            let leases = self.others.iter().chain(&self.mine);
            self.ledger.leased = leases.map(|lease| lease.size).sum();
        }
        Ok(())
    }

    /// True if there is something to write.
    fn has_changed(&self) -> bool {
        self.ledger != self.before.0 || !self.row.is_summed() || self.changed().next().is_some()
    }

    fn changed(&self) -> impl Iterator<Item = &VisitLease> {
        let leases = self.others.iter().chain(&self.mine);
        leases.filter(|lease| !self.before.1.contains(lease))
    }
}

/// Locks the uses of a link, recomputes the sums if needed, and takes back due blocks. `None` if there is no row.
pub(super) async fn lock(
    session: &mut Session,
    link_id: u64,
    worker: Option<WorkerId>,
    config: &VisitsConfig,
) -> Result<Option<LockedVisits>, Fault> {
    let Some(mut row) = lock_sums(session, link_id).await? else {
        return Ok(None);
    };
    if !row.is_summed() {
        add_up(session, &mut row, config).await?;
    }
    let leases = leases(session, link_id, worker).await?;
    let mut locked = LockedVisits::new(row, leases, worker);
    locked.take_back(session, config).await?;
    Ok(Some(locked))
}

/// Locks the uses of a link. `None` if there is no row.
pub(super) async fn lock_sums(
    session: &mut Session,
    link_id: u64,
) -> Result<Option<SumsRow>, Fault> {
    let dialect = session.dialect();
    let (now, for_update) = (dialect.now_millis, dialect.for_update);
    let query = sql(format!(
        "SELECT {SUMS}, {now} AS now_millis FROM visits WHERE link_id = ?{for_update}"
    ));
    session.fetch_optional(query.bind(link_id)).await
}

/// Locks the uses of links, ordered by number, except for links that another transaction has locked.
pub(super) async fn lock_free(
    session: &mut Session,
    link_ids: &[u64],
) -> Result<Vec<SumsRow>, Fault> {
    let dialect = session.dialect();
    let (now, skip_locked) = (dialect.now_millis, dialect.skip_locked);
    let query = sql(format!(
        "SELECT {SUMS}, {now} AS now_millis FROM visits WHERE link_id IN "
    ));
    let query = query.list(link_ids).push(" ORDER BY link_id");
    session.fetch_all(query.push(skip_locked)).await
}

/// Computes the sums of the leases of a link.
async fn add_up(
    session: &mut Session,
    row: &mut SumsRow,
    config: &VisitsConfig,
) -> Result<(), Fault> {
    let query = sql(
        "SELECT CAST(COALESCE(SUM(size), 0) AS UNSIGNED) AS leased, \
         CAST(COALESCE(SUM(CASE WHEN lease_until + ? >= ? THEN 1 ELSE 0 END), 0) AS UNSIGNED) AS workers \
         FROM visit_leases WHERE link_id = ?",
    );
    let query = query.bind(millis(config.lease_ms)).bind(row.now_millis);
    let (leased, workers): (u64, u64) = session.fetch_one(query.bind(row.link_id)).await?;
    row.leased = leased;
    (row.demand_since, row.demand_workers, row.demand_before) = (row.now_millis, workers, 0);
    let update = sql(
        "UPDATE visit_leases SET back_at = CASE WHEN size > 0 THEN lease_until + ? ELSE NULL END WHERE link_id = ?",
    );
    let update = update.bind(millis(config.grace_ms)).bind(row.link_id);
    session.execute(update).await.map(drop)
}

/// The lease of the worker, and the outstanding leases that are due back first.
async fn leases(
    session: &mut Session,
    link_id: u64,
    worker: Option<WorkerId>,
) -> Result<Vec<VisitLease>, Fault> {
    let dialect = session.dialect();
    let (part, index) = (dialect.part, dialect.force_index("visit_leases_by_return"));
    let query = sql(format!(
        "{part}SELECT {LEASE} FROM visit_leases{index} WHERE link_id = ? AND back_at IS NOT NULL \
         ORDER BY back_at LIMIT {OTHERS})"
    ));
    let mut query = query.bind(link_id);
    let worker = worker.as_ref().map(|worker| worker.as_slice());
    if let Some(worker) = worker {
        query = query.push(" UNION ").push(part);
        query = query.push(&format!(
            "SELECT {LEASE} FROM visit_leases WHERE link_id = ? AND worker = ?)"
        ));
        query = query.bind(link_id).bind(worker);
    }
    let rows: Vec<LeaseRow> = session.fetch_all(query).await?;
    rows.into_iter().map(LeaseRow::into_lease).collect()
}

/// The leases of a worker for links, with the numbers of the links.
pub(super) async fn leases_of(
    session: &mut Session,
    link_ids: &[u64],
    worker: &WorkerId,
) -> Result<Vec<(u64, VisitLease)>, Fault> {
    let query = sql(format!(
        "SELECT {LEASE} FROM visit_leases WHERE worker = ? AND link_id IN "
    ));
    let query = query.bind(worker.as_slice()).list(link_ids);
    let rows: Vec<LeaseRow> = session.fetch_all(query).await?;
    let leases = rows
        .into_iter()
        .map(|row| Ok((row.link_id, row.into_lease()?)));
    leases.collect()
}

/// The outstanding leases of a link.
pub(super) async fn leases_out(
    session: &mut Session,
    link_id: u64,
) -> Result<Vec<VisitLease>, Fault> {
    let query = sql(format!(
        "SELECT {LEASE} FROM visit_leases WHERE link_id = ? AND size > 0"
    ));
    let rows: Vec<LeaseRow> = session.fetch_all(query.bind(link_id)).await?;
    rows.into_iter().map(LeaseRow::into_lease).collect()
}

impl LeaseRow {
    fn into_lease(self) -> Result<VisitLease, Fault> {
        let name = |bytes: &[u8]| -> Result<WorkerId, Fault> {
            let worker: Result<WorkerId, _> = bytes.try_into();
            worker.map_err(|error| Fault::corrupt("worker", &error))
        };
        Ok(VisitLease {
            worker: name(&self.worker)?,
            holder: name(self.holder.as_deref().unwrap_or(&self.worker))?,
            number: self.number,
            size: self.size,
            is_settled: self.settled,
            until: self.lease_until,
            asked_at: self.asked_at,
            back_at: self.back_at,
        })
    }
}

/// Writes changed uses, each with the limit recorded as reached. Returns the number of rows.
pub(super) async fn write(
    session: &mut Session,
    changed: &[(&LockedVisits, Option<u64>)],
) -> Result<usize, Fault> {
    let is_other = |(visits, reached): &&(&LockedVisits, Option<u64>)| {
        visits.has_changed() || *reached != visits.row.reached
    };
    let changed: Vec<_> = changed.iter().filter(is_other).collect();
    let leases = changed.iter().flat_map(|(visits, _)| {
        let link_id = visits.row.link_id;
        visits.changed().map(move |lease| (link_id, lease))
    });
    let leases: Vec<_> = leases.collect();
    write_leases(session, &leases).await?;
    let columns = [
        "used",
        "leased",
        "demand_since",
        "demand_workers",
        "demand_before",
        "reached",
        "changes",
        "summed",
    ];
    let update = session.dialect().overwrite("link_id", columns);
    for changed in pieces(&changed) {
        let rows = changed.iter().map(|(visits, reached)| {
            let (row, ledger) = (&visits.row, &visits.ledger);
            // Locks are local to a node: a transaction on another node conflicts with this one by the row that both write.
            let changes = row.changes + 1;
            [
                Value::from(row.link_id),
                ledger.used.into(),
                ledger.leased.into(),
                ledger.demand.since.into(),
                ledger.demand.workers.into(),
                ledger.demand.before.into(),
                (*reached).into(),
                changes.into(),
                changes.into(),
            ]
        });
        let insert = sql(format!(
            "INSERT INTO visits (link_id, {}) ",
            columns.join(", ")
        ));
        session.execute(insert.rows(rows).push(&update)).await?;
    }
    Ok(leases.len() + changed.len())
}

/// Writes leases of links with these numbers.
pub(super) async fn write_leases(
    session: &mut Session,
    leases: &[(u64, &VisitLease)],
) -> Result<(), Fault> {
    let columns = [
        "holder",
        "number",
        "size",
        "settled",
        "lease_until",
        "asked_at",
        "back_at",
    ];
    let update = session.dialect().overwrite("link_id, worker", columns);
    for leases in pieces(leases) {
        let rows = leases.iter().map(|(link_id, lease)| {
            let holder = Some(lease.holder.as_slice()).filter(|_| lease.holder != lease.worker);
            [
                Value::from(*link_id),
                lease.worker.as_slice().into(),
                holder.into(),
                lease.number.into(),
                lease.size.into(),
                lease.is_settled.into(),
                lease.until.into(),
                lease.asked_at.into(),
                lease.back_at.into(),
            ]
        });
        let insert = sql(format!(
            "INSERT INTO visit_leases (link_id, worker, {}) ",
            columns.join(", ")
        ));
        session.execute(insert.rows(rows).push(&update)).await?;
    }
    Ok(())
}

/// True if any of the links has a row of uses. Part of a transaction.
pub(crate) async fn is_any(session: &mut Session, link_ids: &[u64]) -> Result<bool, Fault> {
    let query = sql("SELECT link_id FROM visits WHERE link_id IN ").list(link_ids);
    let found: Option<(u64,)> = session.fetch_optional(query.push(" LIMIT 1")).await?;
    Ok(found.is_some())
}

/// Removes the uses of links. Part of a transaction.
pub(crate) async fn remove(session: &mut Session, link_ids: &[u64]) -> Result<(), Fault> {
    for table in ["visits", "visit_leases"] {
        let remove = sql(format!("DELETE FROM {table} WHERE link_id IN "));
        session.execute(remove.list(link_ids)).await?;
    }
    Ok(())
}
