//! Adds reports of clicks to the queue, each batch once: the row of its worker, which the transaction locks, records the numbers of
//! the batches taken.

mod accounts;
mod batch;
mod folding;
mod older;
mod queue;
mod retention;
mod taken;

pub(super) use accounts::settle_accounts;
pub(super) use folding::MAX_ROWS;
pub(super) use queue::insert_reports;

pub use accounts::{AccountGroup, GroupAccounts, GroupedAccounts};
pub use batch::{BatchHead, ClickAccounts};
pub(super) use older::{BATCH_MILLIS, OlderPlanes};
pub use queue::QueuedReport;
pub use retention::ClickRetention;

use crate::ClickStore;
use batch::{Place, Placed};
use bytes::Bytes;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_wire::clicks;
use std::collections::HashSet;
use std::sync::Arc;

/// A report of clicks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickReport {
    /// Time of receipt, in unix milliseconds.
    pub received_at: u64,
    /// The name of the edge that sent it; empty if it has none.
    pub edge: Arc<str>,
    /// The heads of its batches, in their order.
    pub heads: Vec<BatchHead>,
    /// The encoded batches.
    pub body: Bytes,
}

/// Outcome of taking reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenReports {
    /// The new batches of each report.
    pub reports: Vec<NewBatches>,
    /// Their contribution to the accounts.
    pub accounts: ClickAccounts,
}

/// The new batches of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBatches {
    /// Number of batches.
    pub batches: usize,
    /// These batches, encoded; `None` if there are none.
    pub body: Option<Bytes>,
}

impl ClickStore {
    /// Adds reports to the queue in one transaction, without batches taken before. Returns the new batches of each report.
    pub async fn count_clicks(&self, reports: &[ClickReport]) -> Result<TakenReports, StoreError> {
        let now = self.db.now().await?;
        let call = self
            .write("count_clicks", "counting clicks")
            .of(Class::Clicks);
        run!(call, |session| {
            let has_older = self.has_older_planes(session, now).await?;
            count(session, reports, (now, has_older)).await
        })
    }
}

async fn count(
    session: &mut Session,
    reports: &[ClickReport],
    (now, has_older): (u64, bool),
) -> Result<TakenReports, Fault> {
    let batches = in_order(reports);
    session.begin().await?;
    let mut workers = accounts::lock(session, &batches).await?;
    let mut new = Vec::with_capacity(batches.len());
    for batches in batches.chunk_by(|one, other| one.head.worker == other.head.worker) {
        let worker = batches.first().map(|batch| batch.head.worker);
        let Some(worker) = worker.and_then(|id| workers.get_mut(&id)) else {
            continue;
        };
        let is_new = |batch: &&Placed<'_>| worker.taken.take(batch.head.seq);
        let untaken: Vec<_> = batches.iter().filter(is_new).copied().collect();
        if has_older {
            new.extend(older::without_row(session, &untaken).await?);
        } else {
            new.extend(untaken);
        }
    }
    if has_older && !older::write_rows(session, &new, now).await? {
        return Err(Fault::Contended);
    }
    let accounts = accounts::add(session, workers, &new, now).await?;
    let new: HashSet<Place> = new.into_iter().map(|batch| batch.place).collect();
    let new_part = |(place, report)| new_part(report, place, &new);
    let taken: Vec<NewBatches> = reports.iter().enumerate().map(new_part).collect();
    let queued = reports.iter().zip(&taken);
    let row =
        |(report, new): (&ClickReport, &NewBatches)| Some((report.received_at, new.body.clone()?));
    let rows: Vec<(u64, Bytes)> = queued.filter_map(row).collect();
    insert_reports(session, &rows).await?;
    session.commit(batches.len()).await?;
    Ok(TakenReports {
        reports: taken,
        accounts,
    })
}

/// The distinct batches, sorted: transactions that touch rows in one order do not deadlock.
fn in_order(reports: &[ClickReport]) -> Vec<Placed<'_>> {
    let mut batches = Vec::new();
    for (report_place, report) in reports.iter().enumerate() {
        for (place, head) in report.heads.iter().enumerate() {
            batches.push(Placed {
                head,
                received_at: report.received_at,
                edge: &report.edge,
                place: (report_place, place),
            });
        }
    }
    batches.sort_by_key(|batch| (batch.head.worker, batch.head.seq));
    batches.dedup_by_key(|batch| (batch.head.worker, batch.head.seq));
    batches
}

/// The batches of a report that were not taken before.
fn new_part(report: &ClickReport, place: usize, new: &HashSet<Place>) -> NewBatches {
    let is_new = |batch: usize| new.contains(&(place, batch));
    let count = (0..report.heads.len())
        .filter(|batch| is_new(*batch))
        .count();
    let body = match count {
        0 => None,
        _ if count == report.heads.len() => Some(report.body.clone()),
        _ => without_others(&report.body, is_new),
    };
    NewBatches {
        batches: count,
        body,
    }
}

/// Re-encodes only the new batches. They have been decoded before.
fn without_others(body: &Bytes, is_new: impl Fn(usize) -> bool) -> Option<Bytes> {
    let batches = clicks::decode(body).ok()?;
    let batches: Vec<_> = batches
        .into_iter()
        .enumerate()
        .filter_map(|(batch, content)| is_new(batch).then_some(content))
        .collect();
    Some(clicks::encode(&batches).into())
}
