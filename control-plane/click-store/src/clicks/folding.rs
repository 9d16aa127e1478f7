//! Folds old accounts into coarser ones: hours of workers into hours of edges, these into days, and these into one row. No sum
//! changes.

use super::accounts::{AccountKey, Grain, add_sums};
use super::batch::ClickAccounts;
use super::retention::ClickRetention;
use crate::ClickStore;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, sql};
use edgelink_wire::clicks::WorkerId;
use std::collections::BTreeMap;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

const DAY_HOURS: u64 = 24;

/// Days for which workers are kept apart.
const WORKER_DAYS: u64 = 7;

/// The most rows of each grain except the last one. With more, the oldest are folded early.
pub(crate) const MAX_ROWS: u64 = 200_000;

/// The most rows that are folded in a transaction.
const FOLDED: u32 = 1024;

/// The most rows that one statement deletes.
const DELETED: usize = 64;

type AccountRow = (u64, Vec<u8>, Vec<u8>, u64, u64, u64, u64);

impl Grain {
    const FOLDED: [Self; 3] = [Self::WorkerHours, Self::EdgeHours, Self::EdgeDays];

    /// The first hour that is kept in this grain.
    fn kept_from(self, now: u64, kept: ClickRetention) -> u64 {
        let days = match self {
            Self::WorkerHours => WORKER_DAYS.min(kept.hours),
            Self::EdgeHours => kept.hours,
            Self::EdgeDays => kept.days,
            Self::Rest => return 0,
        };
        (now / DAY_MILLIS).saturating_sub(days) * DAY_HOURS
    }
}

impl AccountKey {
    /// Key of the coarser account into which an account of this hour and edge is folded.
    fn coarser(grain: Grain, hour: u64, edge: &str) -> Self {
        let (grain, hour, edge) = match grain {
            Grain::WorkerHours => (Grain::EdgeHours, hour, edge),
            Grain::EdgeHours => (Grain::EdgeDays, hour - hour % DAY_HOURS, edge),
            Grain::EdgeDays | Grain::Rest => (Grain::Rest, 0, ""),
        };
        Self {
            grain,
            hour,
            edge: edge.into(),
            worker: Box::default(),
        }
    }
}

impl ClickStore {
    /// Folds accounts that are past the retention of their grain at `now` (unix milliseconds), or exceed `most` rows of it. Folds
    /// at most about `limit`. Returns their number.
    pub async fn fold_click_accounts(
        &self,
        now: u64,
        kept: ClickRetention,
        (most, limit): (u64, u32),
    ) -> Result<u64, StoreError> {
        let mut folded = 0;
        for grain in Grain::FOLDED {
            let until = self.fold_until(grain, most).await?;
            let until = until.max(grain.kept_from(now, kept));
            loop {
                let call = self
                    .write("fold_click_accounts", "folding accounts of clicks")
                    .of(Class::Background);
                let count = run!(call, |session| fold(session, grain, until).await)?;
                folded += count;
                if count < FOLDED.into() || folded >= limit.into() {
                    break;
                }
            }
        }
        Ok(folded)
    }

    /// The first hour kept if a grain has at most `most` rows.
    async fn fold_until(&self, grain: Grain, most: u64) -> Result<u64, StoreError> {
        let call = self
            .read("fold_click_accounts", "counting accounts of clicks")
            .of(Class::Background);
        run!(call, |session| {
            let index = session.dialect().force_index("PRIMARY");
            let query = sql(format!(
                "SELECT hour FROM click_accounts{index} WHERE grain = ? ORDER BY hour DESC LIMIT 1 OFFSET ?"
            ));
            let query = query.bind(grain.number()).bind(most);
            let row: Option<(u64,)> = session.fetch_optional(query).await?;
            Ok(row.map_or(0, |(hour,)| hour + 1))
        })
    }

    /// Removes workers last seen before `before` (unix milliseconds), among `limit` that follow a random one. Returns their number.
    /// Accounts keep the sums.
    pub(crate) async fn forget_click_workers(
        &self,
        before: u64,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let mut first = WorkerId::default();
        // Without randomness it begins with the first one.
        let _ = getrandom::fill(&mut first);
        let call = self
            .write("forget_click_workers", "removing click workers")
            .of(Class::Background);
        run!(call, |session| {
            let index = session.dialect().force_index("PRIMARY");
            let query = sql(format!(
                "SELECT worker, seen_at FROM click_workers{index} WHERE worker >= ? ORDER BY worker LIMIT ?"
            ));
            let query = query.bind(first.as_slice()).bind(limit);
            let rows: Vec<(Vec<u8>, u64)> = session.fetch_all(query).await?;
            let old = rows.iter().filter(|(_, seen_at)| *seen_at < before);
            let old: Vec<&[u8]> = old.map(|(worker, _)| worker.as_slice()).collect();
            let mut forgotten = 0;
            for old in old.chunks(LONGEST) {
                let delete = sql("DELETE FROM click_workers WHERE worker IN ").list(old);
                let delete = delete.push(" AND seen_at < ?").bind(before);
                forgotten += session.autocommit(delete).await?;
            }
            Ok(forgotten)
        })
    }
}

/// Folds some accounts of a grain from hours before `until`. Returns their number.
async fn fold(session: &mut Session, grain: Grain, until: u64) -> Result<u64, Fault> {
    session.begin().await?;
    let dialect = session.dialect();
    let (index, for_update) = (dialect.force_index("PRIMARY"), dialect.for_update);
    let query = sql(format!(
        "SELECT hour, edge, worker, sent, counted, dropped, undescribed FROM click_accounts{index} \
         WHERE grain = ? AND hour < ? ORDER BY hour, edge, worker LIMIT ?{for_update}"
    ));
    let query = query.bind(grain.number()).bind(until).bind(FOLDED);
    let rows: Vec<AccountRow> = session.fetch_all(query).await?;
    if rows.is_empty() {
        session.rollback().await?;
        return Ok(0);
    }
    let mut sums: BTreeMap<AccountKey, ClickAccounts> = BTreeMap::new();
    for (hour, edge, _, sent, counted, dropped, undescribed) in &rows {
        let key = AccountKey::coarser(grain, *hour, &String::from_utf8_lossy(edge));
        sums.entry(key).or_default().add(&ClickAccounts {
            sent: *sent,
            counted: *counted,
            dropped: *dropped,
            undescribed: *undescribed,
        });
    }
    for rows in rows.chunks(DELETED) {
        delete(session, grain, rows).await?;
    }
    add_sums(session, &sums).await?;
    session.commit(rows.len()).await?;
    Ok(rows.len() as u64)
}

/// Deletes rows by their keys, as others may have been inserted between them.
async fn delete(session: &mut Session, grain: Grain, rows: &[AccountRow]) -> Result<(), Fault> {
    let edges: Vec<_> = rows
        .iter()
        .map(|row| String::from_utf8_lossy(&row.1))
        .collect();
    let delete = sql("DELETE FROM click_accounts WHERE ");
    let keys = rows.iter().zip(&edges);
    let delete = delete.join(" OR ", keys, |delete, ((hour, _, worker, ..), edge)| {
        let delete = delete.push("(grain = ? AND hour = ? AND edge = ? AND worker = ?)");
        let delete = delete.bind(grain.number()).bind(*hour);
        delete.bind(&**edge).bind(worker.as_slice())
    });
    if session.execute(delete).await? == rows.len() as u64 {
        Ok(())
    } else {
        Err(Fault::Contended)
    }
}
