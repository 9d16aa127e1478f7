//! Accounts of clicks (sent, counted, dropped), by hour, edge and worker.
//!
//! Workers report how many clicks they have sent and dropped since they started. The increase since their previous report is
//! computed under the lock of the worker's row, in the transaction that records the batches. The sums over all hours thus equal
//! the latest reports of the workers, even if reports are repeated, out of order, or sent through several control planes.

use super::batch::{BatchHead, ClickAccounts, Placed};
use super::older;
use super::taken::TakenBatches;
use crate::ClickStore;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Value, pieces, sql};
use edgelink_wire::clicks::WorkerId;
use std::collections::BTreeMap;

const HOUR_MILLIS: u64 = 60 * 60 * 1000;

/// The greatest number that all databases can store.
const GREATEST: u64 = i64::MAX.cast_unsigned();

/// Granularity of accounts. They become coarser with time: see [`ClickStore::fold_click_accounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grain {
    /// By worker and hour.
    WorkerHours,
    /// By edge and hour.
    EdgeHours,
    /// By edge and day, stored at the first hour of the day.
    EdgeDays,
    /// Everything older, stored at the first hour of 1970.
    Rest,
}

/// Key of an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccountKey {
    pub(super) grain: Grain,
    pub(super) hour: u64,
    pub(super) edge: Box<str>,
    /// Empty for all.
    pub(super) worker: Box<[u8]>,
}

/// Grouping of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountGroup {
    /// By edge.
    Edge,
    /// By edge and worker.
    Worker,
    /// By hour.
    Hour,
    /// By day.
    Day,
}

impl AccountGroup {
    /// All groupings with their words in the API.
    pub const WORDS: [(Self, &'static str); 4] = [
        (Self::Edge, "edge"),
        (Self::Worker, "worker"),
        (Self::Hour, "hour"),
        (Self::Day, "day"),
    ];

    /// Returns its word in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        let mut all = Self::WORDS.into_iter();
        all.find(|(group, _)| *group == self)
            .map_or("", |(_, word)| word)
    }

    /// True if its groups are intervals of time.
    #[must_use]
    pub fn is_of_time(self) -> bool {
        matches!(self, Self::Hour | Self::Day)
    }
}

/// The accounts of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupAccounts {
    /// The first hour of the group (unix time / 3600).
    pub hour: u64,
    /// The name of the edge; empty if it has none. In groups by hour and day, one of several.
    pub edge: String,
    /// The worker; empty once workers are no longer kept apart. In groups without workers, one of several.
    pub worker: Vec<u8>,
    /// Accounts of the clicks.
    pub accounts: ClickAccounts,
}

/// Accounts by group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupedAccounts {
    /// Accounts of all groups.
    pub all: ClickAccounts,
    /// The groups.
    pub groups: Vec<GroupAccounts>,
}

type GroupRow = (
    u64,
    Vec<u8>,
    Vec<u8>,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
);

/// The columns of the numbers of accounts.
const NUMBERS: [&str; 4] = ["sent", "counted", "dropped", "undescribed"];

impl Grain {
    pub(super) fn number(self) -> u64 {
        self as u64
    }
}

impl ClickAccounts {
    /// Adds other accounts.
    pub fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.counted = self.counted.saturating_add(other.counted);
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.undescribed = self.undescribed.saturating_add(other.undescribed);
    }

    /// Subtracts other accounts.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(other.sent),
            counted: self.counted.saturating_sub(other.counted),
            dropped: self.dropped.saturating_sub(other.dropped),
            undescribed: self.undescribed.saturating_sub(other.undescribed),
        }
    }
}

impl ClickStore {
    /// Accounts of all clicks.
    pub async fn click_accounts(&self) -> Result<ClickAccounts, StoreError> {
        self.click_accounts_between(0, u32::MAX.into()).await
    }

    /// Accounts of the clicks whose reports were taken from the hour `from` on and before the hour `to` (unix time / 3600).
    pub async fn click_accounts_between(
        &self,
        from: u64,
        to: u64,
    ) -> Result<ClickAccounts, StoreError> {
        let call = self.read("click_accounts", "summing click accounts");
        run!(call, |session| {
            let sums = NUMBERS
                .map(|column| format!("CAST(COALESCE(SUM({column}), 0) AS UNSIGNED) AS {column}"));
            let query = format!("SELECT {} {}", sums.join(", "), between(session));
            session.fetch_one(sql(query).bind(from).bind(to)).await
        })
    }

    /// Accounts by group: the `limit` groups with the most clicks sent, or the latest ones in groups of time.
    pub async fn grouped_click_accounts(
        &self,
        (from, to): (u64, u64),
        by: AccountGroup,
        limit: u32,
    ) -> Result<GroupedAccounts, StoreError> {
        let call = self.read("grouped_click_accounts", "summing click accounts");
        let (group, order) = match by {
            AccountGroup::Edge => ("edge", "SUM(sent) DESC, edge"),
            AccountGroup::Worker => ("edge, worker", "SUM(sent) DESC, edge, worker"),
            AccountGroup::Hour => ("hour", "hour DESC"),
            AccountGroup::Day => ("hour - hour % 24", "MIN(hour) DESC"),
        };
        run!(call, |session| {
            let sums = NUMBERS.map(|column| format!("CAST(SUM({column}) AS UNSIGNED)"));
            let of_all =
                NUMBERS.map(|column| format!("CAST(SUM(SUM({column})) OVER () AS UNSIGNED)"));
            let query = format!(
                "SELECT MIN(hour), MIN(edge), MIN(worker), {}, {} {} GROUP BY {group} ORDER BY {order} LIMIT ?",
                sums.join(", "),
                of_all.join(", "),
                between(session)
            );
            let query = sql(query).bind(from).bind(to).bind(limit);
            let rows: Vec<GroupRow> = session.fetch_all(query).await?;
            let mut grouped = GroupedAccounts::default();
            for row in rows {
                let (group, all) = read(row)?;
                grouped.groups.push(group);
                grouped.all = all;
            }
            Ok(grouped)
        })
    }
}

/// The FROM clause for the rows of an interval.
fn between(session: &Session) -> String {
    let index = session.dialect().force_index("PRIMARY");
    format!("FROM click_accounts{index} WHERE grain IN (0, 1, 2, 3) AND hour >= ? AND hour < ?")
}

/// A group, and the accounts of all groups.
fn read(row: GroupRow) -> Result<(GroupAccounts, ClickAccounts), Fault> {
    let (hour, edge, worker, sent, counted, dropped, undescribed, ..) = row;
    let (.., all_sent, all_counted, all_dropped, all_undescribed) = row;
    let group = GroupAccounts {
        hour,
        edge: name(&edge)?,
        worker,
        accounts: ClickAccounts {
            sent,
            counted,
            dropped,
            undescribed,
        },
    };
    let all = ClickAccounts {
        sent: all_sent,
        counted: all_counted,
        dropped: all_dropped,
        undescribed: all_undescribed,
    };
    Ok((group, all))
}

/// Adds new batches to the accounts of workers whose rows are locked. Returns their contribution. Part of a transaction. The batches are
/// ordered by worker and number. `now`: unix milliseconds by the database's clock.
pub(super) async fn add(
    session: &mut Session,
    mut workers: LockedWorkers,
    batches: &[Placed<'_>],
    now: u64,
) -> Result<ClickAccounts, Fault> {
    let mut sums = BTreeMap::new();
    let mut all = ClickAccounts::default();
    for batch in batches {
        let Some(worker) = workers.get_mut(&batch.head.worker) else {
            continue;
        };
        let added = worker.add(batch.head);
        all.add(&added);
        sums.entry(batch.account_key())
            .or_insert_with(ClickAccounts::default)
            .add(&added);
    }
    // Rows without news stay unchanged.
    workers.retain(|_, worker| worker.has_new);
    note_workers(session, &workers, now).await?;
    add_sums(session, &sums).await?;
    Ok(all)
}

impl Placed<'_> {
    fn account_key(&self) -> AccountKey {
        AccountKey {
            grain: Grain::WorkerHours,
            hour: self.received_at / HOUR_MILLIS,
            edge: self.edge.into(),
            worker: self.head.worker.as_slice().into(),
        }
    }
}

/// Workers whose rows are locked.
pub(super) type LockedWorkers = BTreeMap<WorkerId, Worker>;

/// The last report of a worker, and the changes to it.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Clicks sent and dropped, by its last report.
    said: (u64, u64),
    /// The batches taken so far.
    pub(super) taken: TakenBatches,
    added: ClickAccounts,
    has_new: bool,
}

impl Worker {
    /// Adds a new batch. Returns its contribution to the accounts.
    fn add(&mut self, head: &BatchHead) -> ClickAccounts {
        let (sent, dropped) = self.said;
        self.said = (sent.max(head.sent), dropped.max(head.dropped));
        self.has_new = true;
        let added = ClickAccounts {
            sent: self.said.0 - sent,
            counted: head.clicks,
            dropped: self.said.1 - dropped,
            undescribed: head.undescribed,
        };
        self.added.add(&added);
        added
    }
}

/// Locks the rows of the workers of batches, which are ordered by worker. Missing rows are inserted, so that another process that
/// meets the same worker waits.
pub(super) async fn lock(
    session: &mut Session,
    batches: &[Placed<'_>],
) -> Result<LockedWorkers, Fault> {
    let mut ids: Vec<&[u8]> = batches
        .iter()
        .map(|batch| batch.head.worker.as_slice())
        .collect();
    ids.dedup();
    let mut workers = LockedWorkers::new();
    for ids in ids.chunks(LONGEST) {
        lock_some(session, ids, &mut workers).await?;
    }
    Ok(workers)
}

async fn lock_some(
    session: &mut Session,
    ids: &[&[u8]],
    workers: &mut LockedWorkers,
) -> Result<(), Fault> {
    locked(session, ids, workers).await?;
    let is_missing = |id: &&&[u8]| workers.keys().all(|known| known.as_slice() != **id);
    let missing: Vec<&[u8]> = ids.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let insert_ignore = session.dialect().insert_ignore;
    for missing in pieces(&missing) {
        let insert = sql(format!(
            "{insert_ignore} click_workers (worker, sent, dropped, undescribed, counted, seen_at) "
        ));
        let zero = || Value::from(0_u64);
        let rows = missing
            .iter()
            .map(|id| [(*id).into(), zero(), zero(), zero(), zero(), zero()]);
        session.execute(insert.rows(rows)).await?;
    }
    locked(session, &missing, workers).await
}

type WorkerRow = (Vec<u8>, u64, u64, Option<Vec<u8>>);

async fn locked(
    session: &mut Session,
    ids: &[&[u8]],
    workers: &mut LockedWorkers,
) -> Result<(), Fault> {
    let dialect = session.dialect();
    let (index, for_update) = (dialect.force_index("PRIMARY"), dialect.for_update);
    let query =
        format!("SELECT worker, sent, dropped, taken FROM click_workers{index} WHERE worker IN ");
    let query = sql(query).list(ids).push(for_update);
    let rows: Vec<WorkerRow> = session.fetch_all(query).await?;
    for (id, sent, dropped, taken) in rows {
        let id = WorkerId::try_from(id.as_slice());
        let id = id.map_err(|error| Fault::corrupt("worker", &error))?;
        let taken = match taken {
            Some(taken) => TakenBatches::decode(&taken)?,
            None => older::taken(session, &id).await?,
        };
        let worker = Worker {
            said: (sent, dropped),
            taken,
            ..Worker::default()
        };
        workers.insert(id, worker);
    }
    Ok(())
}

/// Stores the reports of workers and the batches taken, and adds the counts.
async fn note_workers(
    session: &mut Session,
    workers: &LockedWorkers,
    now: u64,
) -> Result<(), Fault> {
    let dialect = session.dialect();
    let columns = [
        "sent",
        "dropped",
        "undescribed",
        "counted",
        "seen_at",
        "taken",
    ];
    let [sent, dropped, undescribed, counted, seen_at, taken] =
        columns.map(|column| dialect.inserted(column));
    let update = format!(
        "{} sent = {sent}, dropped = {dropped}, undescribed = undescribed + {undescribed}, \
         counted = counted + {counted}, seen_at = {seen_at}, taken = {taken}",
        dialect.on_duplicate("worker")
    );
    let encoded = workers.values().map(|worker| worker.taken.encode());
    let encoded: Vec<Vec<u8>> = encoded.collect();
    let workers: Vec<_> = workers.iter().zip(&encoded).collect();
    for workers in pieces(&workers) {
        let rows = workers.iter().map(|((id, worker), taken)| {
            [
                id.as_slice().into(),
                worker.said.0.into(),
                worker.said.1.into(),
                worker.added.undescribed.into(),
                worker.added.counted.into(),
                now.into(),
                taken.as_slice().into(),
            ]
        });
        let add = sql(
            "INSERT INTO click_workers (worker, sent, dropped, undescribed, counted, seen_at, taken) ",
        );
        session.execute(add.rows(rows).push(&update)).await?;
    }
    Ok(())
}

/// Adds clicks of workers that are missing in the accounts, because control planes older than accounts took them. Part of a
/// transaction.
pub(crate) async fn settle_accounts(session: &mut Session) -> Result<(), Fault> {
    let sums =
        NUMBERS.map(|column| format!("CAST(COALESCE(SUM({column}), 0) AS UNSIGNED) AS {column}"));
    let sums = sums.join(", ");
    let all = |of: &str| NUMBERS.map(|column| format!("{of}.{column}")).join(", ");
    // One statement, so that both are read at the same moment.
    let query = format!(
        "SELECT {}, {} FROM (SELECT {sums} FROM click_workers) w, (SELECT {sums} FROM click_accounts) a",
        all("w"),
        all("a")
    );
    type Row = (u64, u64, u64, u64, u64, u64, u64, u64);
    let row: Row = session.fetch_one(sql(query)).await?;
    let accounts = |sent, counted, dropped, undescribed| ClickAccounts {
        sent,
        counted,
        dropped,
        undescribed,
    };
    let said = accounts(row.0, row.1, row.2, row.3);
    let missing = said.without(&accounts(row.4, row.5, row.6, row.7));
    let rest = AccountKey {
        grain: Grain::Rest,
        hour: 0,
        edge: "".into(),
        worker: Box::default(),
    };
    add_sums(session, &BTreeMap::from([(rest, missing)])).await
}

/// Adds to accounts: one statement for up to [`LONGEST`] of them, padded to a power of two. Part of a transaction.
pub(super) async fn add_sums(
    session: &mut Session,
    sums: &BTreeMap<AccountKey, ClickAccounts>,
) -> Result<(), Fault> {
    let dialect = session.dialect();
    let least = dialect.least;
    let update = NUMBERS.map(|column| {
        let inserted = dialect.inserted(column);
        format!("{column} = {least}({GREATEST}, click_accounts.{column} + {inserted})")
    });
    let update = format!(
        "{} {}",
        dialect.on_duplicate("grain, hour, edge, worker"),
        update.join(", ")
    );
    let sums: Vec<_> = sums.iter().collect();
    for sums in sums.chunks(LONGEST) {
        let none = ClickAccounts::default();
        // Adding zero to the last one does no harm.
        let last = sums.last().map(|(key, _)| (*key, &none));
        let padding = std::iter::repeat(last).flatten();
        let rows = sums.iter().copied().chain(padding);
        let rows = rows.take(sums.len().next_power_of_two());
        let rows = rows.map(|(key, sum)| {
            [
                key.grain.number().into(),
                key.hour.into(),
                Value::Name(&key.edge),
                Value::Bytes(&key.worker),
                sum.sent.min(GREATEST).into(),
                sum.counted.min(GREATEST).into(),
                sum.dropped.min(GREATEST).into(),
                sum.undescribed.min(GREATEST).into(),
            ]
        });
        let add = sql(
            "INSERT INTO click_accounts (grain, hour, edge, worker, sent, counted, dropped, undescribed) ",
        );
        session.execute(add.rows(rows).push(&update)).await?;
    }
    Ok(())
}
