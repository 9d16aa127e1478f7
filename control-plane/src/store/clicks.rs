//! Takes reports of clicks into the queue, each batch once.

use super::analytics::insert_reports;
use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::session::Session;
use super::sql::{LONGEST, pieces, sql};
use bytes::Bytes;
use edgelink_wire::clicks::{self, WorkerId};
use std::collections::{BTreeMap, HashSet};

/// A report of clicks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickReport {
    /// When it came in: unix time in milliseconds.
    pub received_at: u64,
    /// What its batches say of themselves, in their order.
    pub heads: Vec<BatchHead>,
    /// The encoded batches.
    pub body: Bytes,
}

/// What a batch of clicks says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// The worker that counted.
    pub worker: WorkerId,
    /// Grows with every batch of the worker.
    pub seq: u64,
    /// All clicks of the worker so far.
    pub sent: u64,
    /// All clicks that the worker has dropped.
    pub dropped: u64,
    /// All clicks whose attributes the worker has given up.
    pub undescribed: u64,
    /// The clicks in this batch.
    pub clicks: u64,
}

/// What became of all clicks: `sent = counted + dropped + what is under way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ClickAccounts {
    /// How many clicks workers report.
    pub sent: u64,
    /// How many are counted.
    pub counted: u64,
    /// How many workers have dropped.
    pub dropped: u64,
    /// How many of those that are counted have come without their attributes, because there were too many.
    pub undescribed: u64,
}

/// The place of a batch: that of its report, and its own in there.
type Place = (usize, usize);

impl Store {
    /// Takes reports into the queue in one transaction, without the batches that were taken before; how many batches of each
    /// report are new.
    pub async fn count_clicks(&self, reports: &[ClickReport]) -> Result<Vec<usize>, StoreError> {
        let call = self.write("count_clicks", "counting clicks");
        run!(call, |session| count(session, reports).await)
    }

    /// What became of all clicks.
    pub async fn click_accounts(&self) -> Result<ClickAccounts, StoreError> {
        let call = self.read("click_accounts", "summing up clicks");
        run!(call, |session| {
            let sums = ["sent", "counted", "dropped", "undescribed"]
                .map(|column| format!("CAST(COALESCE(SUM({column}), 0) AS UNSIGNED) AS {column}"));
            let query = format!("SELECT {} FROM click_workers", sums.join(", "));
            session.fetch_one(sql(query)).await
        })
    }
}

async fn count(session: &mut Session, reports: &[ClickReport]) -> Result<Vec<usize>, Fault> {
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
    add_to_accounts(session, &new).await?;
    let new: HashSet<Place> = new.into_iter().map(|batch| batch.place).collect();
    let rows: Vec<(u64, Bytes)> = reports
        .iter()
        .enumerate()
        .filter_map(|(place, report)| Some((report.received_at, new_part(report, place, &new)?)))
        .collect();
    insert_reports(session, &rows).await?;
    session.commit(batches.len()).await?;
    let count = |(place, report): (usize, &ClickReport)| {
        let batches = 0..report.heads.len();
        batches
            .filter(|batch| new.contains(&(place, *batch)))
            .count()
    };
    Ok(reports.iter().enumerate().map(count).collect())
}

/// A batch, and where it is.
#[derive(Clone, Copy)]
struct Placed<'a> {
    head: &'a BatchHead,
    received_at: u64,
    place: Place,
}

/// The batches, each once. Transactions that touch the same rows in the same order do not deadlock.
fn in_order(reports: &[ClickReport]) -> Vec<Placed<'_>> {
    let mut batches = Vec::new();
    for (report_place, report) in reports.iter().enumerate() {
        for (place, head) in report.heads.iter().enumerate() {
            batches.push(Placed {
                head,
                received_at: report.received_at,
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

/// Adds to the accounts of workers.
async fn add_to_accounts(session: &mut Session, batches: &[Placed<'_>]) -> Result<(), Fault> {
    let accounts = by_worker(batches);
    let dialect = session.dialect();
    let greatest = dialect.greatest;
    let of_columns = ["sent", "dropped", "undescribed", "counted", "seen_at"];
    let [sent, dropped, undescribed, counted, seen_at] =
        of_columns.map(|column| dialect.inserted(column));
    let update = format!(
        "{} sent = {greatest}(sent, {sent}), dropped = {greatest}(dropped, {dropped}), \
         undescribed = {greatest}(undescribed, {undescribed}), counted = counted + {counted}, seen_at = {seen_at}",
        dialect.on_duplicate("worker")
    );
    for accounts in pieces(&accounts) {
        let rows = accounts.iter().map(|(head, seen_at)| {
            [
                head.worker.as_slice().into(),
                head.sent.into(),
                head.dropped.into(),
                head.undescribed.into(),
                head.clicks.into(),
                (*seen_at).into(),
            ]
        });
        let add = sql(
            "INSERT INTO click_workers (worker, sent, dropped, undescribed, counted, seen_at) ",
        );
        session.execute(add.rows(rows).push(&update)).await?;
    }
    Ok(())
}

/// Batches of each worker as one, with when it was heard of.
fn by_worker(batches: &[Placed<'_>]) -> Vec<(BatchHead, u64)> {
    let mut accounts: BTreeMap<WorkerId, (BatchHead, u64)> = BTreeMap::new();
    for Placed {
        head, received_at, ..
    } in batches
    {
        let none = BatchHead {
            clicks: 0,
            ..**head
        };
        let (sum, seen_at) = accounts.entry(head.worker).or_insert((none, 0));
        sum.sent = sum.sent.max(head.sent);
        sum.dropped = sum.dropped.max(head.dropped);
        sum.undescribed = sum.undescribed.max(head.undescribed);
        sum.clicks = sum.clicks.saturating_add(head.clicks);
        *seen_at = (*seen_at).max(*received_at);
    }
    accounts.into_values().collect()
}

/// The report without the batches that were taken before; `None` if those are all.
fn new_part(report: &ClickReport, place: usize, new: &HashSet<Place>) -> Option<Bytes> {
    let is_new = |batch: usize| new.contains(&(place, batch));
    let count = (0..report.heads.len())
        .filter(|batch| is_new(*batch))
        .count();
    if count == 0 {
        return None;
    }
    if count == report.heads.len() {
        return Some(report.body.clone());
    }
    // It was decoded before.
    let batches = clicks::decode(&report.body).ok()?;
    let batches: Vec<_> = batches
        .into_iter()
        .enumerate()
        .filter_map(|(batch, content)| is_new(batch).then_some(content))
        .collect();
    Some(clicks::encode(&batches).into())
}
