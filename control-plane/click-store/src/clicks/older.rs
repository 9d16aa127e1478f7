//! Control planes older than `click_workers.taken`, running beside this one: they recognize a batch by its row in `click_batches`.
//!
//! Rows of theirs from the last day show that they are running. Meanwhile this version looks for batches there as well, and writes
//! rows of its own, which are removed soon. Their times lie far in the past, to distinguish them from rows of older control planes.

use super::batch::Placed;
use super::taken::TakenBatches;
use crate::ClickStore;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, pieces, sql};
use edgelink_wire::clicks::WorkerId;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Milliseconds for which rows of `click_batches` are kept.
pub(crate) const BATCH_MILLIS: u64 = 3 * 24 * 60 * 60 * 1000;

/// Validity of a cached answer whether they are running.
const REMEMBERED: Duration = Duration::from_secs(5);

const HOUR_MILLIS: u64 = 60 * 60 * 1000;

/// Milliseconds for which a row shows that an older control plane is running.
const SEEN_MILLIS: u64 = 24 * HOUR_MILLIS;

/// The age with which rows of this version are written: they are removed an hour later.
const BACKDATED_MILLIS: u64 = BATCH_MILLIS - HOUR_MILLIS;

/// Cached answer whether older control planes are running.
#[derive(Debug, Default)]
pub(crate) struct OlderPlanes(Mutex<Option<(Instant, bool)>>);

impl OlderPlanes {
    fn known(&self) -> Option<bool> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, has) = known?;
        (at.elapsed() < REMEMBERED).then_some(has)
    }

    fn note(&self, has: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((Instant::now(), has));
    }
}

impl ClickStore {
    /// True if control planes are running that track batches only in `click_batches`.
    pub(super) async fn has_older_planes(
        &self,
        session: &mut Session,
        now: u64,
    ) -> Result<bool, Fault> {
        if let Some(known) = self.older_planes.known() {
            return Ok(known);
        }
        let query = sql("SELECT received_at FROM click_batches WHERE received_at > ? LIMIT 1");
        let query = query.bind(now.saturating_sub(SEEN_MILLIS));
        let row: Option<(u64,)> = session.fetch_optional(query).await?;
        self.older_planes.note(row.is_some());
        Ok(row.is_some())
    }
}

/// The batches of a worker that have rows, which the database groups into ranges.
pub(super) async fn taken(session: &mut Session, worker: &WorkerId) -> Result<TakenBatches, Fault> {
    let query = sql(
        "SELECT MIN(seq), MAX(seq) FROM (SELECT seq, CAST(seq AS SIGNED) - CAST(ROW_NUMBER() OVER (ORDER BY seq) AS SIGNED) AS part \
         FROM click_batches WHERE worker = ?) AS numbered GROUP BY part ORDER BY MIN(seq)",
    );
    let ranges: Vec<(u64, u64)> = session.fetch_all(query.bind(worker.as_slice())).await?;
    let mut taken = TakenBatches::default();
    for (first, last) in ranges {
        taken.take_range(first, last);
    }
    Ok(taken)
}

/// Filters the batches of a worker without a row.
pub(super) async fn without_row<'a>(
    session: &mut Session,
    batches: &[Placed<'a>],
) -> Result<Vec<Placed<'a>>, Fault> {
    let mut new = Vec::with_capacity(batches.len());
    for batches in batches.chunks(LONGEST) {
        let Some(first) = batches.first() else {
            continue;
        };
        let seqs: Vec<u64> = batches.iter().map(|batch| batch.head.seq).collect();
        let query = sql("SELECT seq FROM click_batches WHERE worker = ? AND seq IN ");
        let query = query.bind(first.head.worker.as_slice()).list(&seqs);
        let known: Vec<(u64,)> = session.fetch_all(query).await?;
        let is_new = |batch: &&Placed<'_>| !known.contains(&(batch.head.seq,));
        new.extend(batches.iter().filter(is_new).copied());
    }
    Ok(new)
}

/// Writes rows of batches at `now` (unix milliseconds by the database's clock). Returns `false` if another control plane has written
/// one meanwhile.
pub(super) async fn write_rows(
    session: &mut Session,
    batches: &[Placed<'_>],
    now: u64,
) -> Result<bool, Fault> {
    let insert_ignore = session.dialect().insert_ignore;
    for batches in pieces(batches) {
        let rows = batches.iter().map(|Placed { head, .. }| {
            [
                head.worker.as_slice().into(),
                head.seq.into(),
                now.saturating_sub(BACKDATED_MILLIS).into(),
            ]
        });
        let insert = sql(format!(
            "{insert_ignore} click_batches (worker, seq, received_at) "
        ));
        if session.execute(insert.rows(rows)).await? < batches.len() as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}
