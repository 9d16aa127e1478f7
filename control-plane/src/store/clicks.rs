//! Takes reports of clicks into the queue, each batch once.

mod accounts;
mod batch;
mod folding;

pub(super) use accounts::settle_accounts;
pub(super) use folding::MAX_ROWS;

pub use accounts::{AccountGroup, GroupAccounts, GroupedAccounts};
pub use batch::{BatchHead, ClickAccounts};

use super::analytics::insert_reports;
use super::calls::{Store, run};
use super::classes::Class;
use super::error::{Fault, StoreError};
use super::session::Session;
use super::sql::{LONGEST, pieces, sql};
use batch::{Place, Placed};
use bytes::Bytes;
use edgelink_wire::clicks;
use std::collections::HashSet;
use std::sync::Arc;

/// A report of clicks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickReport {
    /// When it came in: unix time in milliseconds.
    pub received_at: u64,
    /// The name of the edge that sent it; empty if it has none.
    pub edge: Arc<str>,
    /// What its batches say of themselves, in their order.
    pub heads: Vec<BatchHead>,
    /// The encoded batches.
    pub body: Bytes,
}

/// What became of reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenReports {
    /// What is new of each report.
    pub reports: Vec<NewBatches>,
    /// What they add to the accounts.
    pub accounts: ClickAccounts,
}

/// What is new of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBatches {
    /// How many batches.
    pub batches: usize,
    /// These batches, encoded; `None` if there are none.
    pub body: Option<Bytes>,
}

impl Store {
    /// Takes reports into the queue in one transaction, without the batches that were taken before; what is new of each report.
    pub async fn count_clicks(&self, reports: &[ClickReport]) -> Result<TakenReports, StoreError> {
        let call = self
            .write("count_clicks", "counting clicks")
            .of(Class::Clicks);
        run!(call, |session| count(session, reports).await)
    }
}

async fn count(session: &mut Session, reports: &[ClickReport]) -> Result<TakenReports, Fault> {
    let batches = in_order(reports);
    session.begin().await?;
    let mut new = batches.clone();
    if !note_all(session, &batches).await? {
        // Some were noted before.
        session.rollback().await?;
        session.begin().await?;
        new = unknown(session, &batches).await?;
        if !note_all(session, &new).await? {
            // Another process has noted some meanwhile.
            return Err(Fault::Contended);
        }
    }
    let accounts = accounts::add(session, &new).await?;
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

/// The batches, each once. Transactions that touch the same rows in the same order do not deadlock.
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

/// Notes batches; `false`, and it is not known which, if some were noted before.
async fn note_all(session: &mut Session, batches: &[Placed<'_>]) -> Result<bool, Fault> {
    for batches in pieces(batches) {
        if note(session, batches).await? < batches.len() as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Those of the batches that were not noted before.
async fn unknown<'a>(
    session: &mut Session,
    batches: &[Placed<'a>],
) -> Result<Vec<Placed<'a>>, Fault> {
    let mut unknown = Vec::new();
    for of_worker in batches.chunk_by(|one, other| one.head.worker == other.head.worker) {
        for batches in of_worker.chunks(LONGEST) {
            let seqs: Vec<u64> = batches.iter().map(|batch| batch.head.seq).collect();
            let Some(first) = batches.first() else {
                continue;
            };
            let query = sql("SELECT seq FROM click_batches WHERE worker = ? AND seq IN ");
            let query = query.bind(first.head.worker.as_slice()).list(&seqs);
            let known: Vec<(u64,)> = session.fetch_all(query).await?;
            let is_new = |batch: &&Placed<'_>| !known.contains(&(batch.head.seq,));
            unknown.extend(batches.iter().filter(is_new).copied());
        }
    }
    Ok(unknown)
}

/// Notes batches that were not noted before; how many they are.
async fn note(session: &mut Session, batches: &[Placed<'_>]) -> Result<u64, Fault> {
    let insert_ignore = session.dialect().insert_ignore;
    let rows = batches.iter().map(
        |Placed {
             head, received_at, ..
         }| {
            [
                head.worker.as_slice().into(),
                head.seq.into(),
                (*received_at).into(),
            ]
        },
    );
    let note = sql(format!(
        "{insert_ignore} click_batches (worker, seq, received_at) "
    ));
    session.execute(note.rows(rows)).await
}

/// What of the report was not taken before.
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

/// The batches that are new. They were decoded before.
fn without_others(body: &Bytes, is_new: impl Fn(usize) -> bool) -> Option<Bytes> {
    let batches = clicks::decode(body).ok()?;
    let batches: Vec<_> = batches
        .into_iter()
        .enumerate()
        .filter_map(|(batch, content)| is_new(batch).then_some(content))
        .collect();
    Some(clicks::encode(&batches).into())
}
