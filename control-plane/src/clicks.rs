//! Clicks: counts what edges report, and finds the links that are followed most.

mod hot;

pub use hot::{HotLink, HotLinks, hot_links};

use crate::store::{CountedBatch, Store, StoreError};
use crate::telemetry::prometheus::{CLICK_BATCHES, CLICKS_COUNTED};
use edgelink_wire::ClickBatch;
use metrics::counter;

/// A worker's clock that is further ahead than this, in seconds, is not believed.
const MAX_AHEAD: u64 = 300;

/// A worker's clock that is further behind than this, in seconds, is not believed. Batches wait at edges for less.
const MAX_BEHIND: u64 = 3600;

/// The most clicks of a link in a batch that are believed.
const MAX_CLICKS: u64 = 1 << 32;

/// The longest key: a domain, a slash, a code.
const MAX_KEY: usize = 259 + 1 + 64;

/// Why batches of clicks are refused.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// A key or a number that no edge of ours sends.
    #[error("a batch holds a key or a number of clicks that is too large")]
    Malformed,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Counts batches, each once however often it is sent, at `now` (unix milliseconds). They are committed when it returns
/// `Ok`.
///
/// # Errors
/// [`IngestError::Malformed`] if a retry is of no use, otherwise the failure of the database.
pub async fn count(store: &Store, batches: &[ClickBatch<'_>], now: u64) -> Result<(), IngestError> {
    if !batches.iter().all(is_believable) {
        return Err(IngestError::Malformed);
    }
    let rows: Vec<CountedBatch> = batches.iter().map(|batch| row(batch, now)).collect();
    let new = store.count_clicks(&rows).await?;
    let repeated = rows.len() - new;
    counter!(CLICK_BATCHES, "outcome" => "new").increment(new as u64);
    counter!(CLICK_BATCHES, "outcome" => "repeated").increment(repeated as u64);
    if repeated == 0 {
        counter!(CLICKS_COUNTED).increment(batches.iter().map(ClickBatch::sum).sum());
    }
    Ok(())
}

fn is_believable(batch: &ClickBatch<'_>) -> bool {
    let numbers = [batch.seq, batch.total, batch.dropped];
    numbers.iter().all(|number| i64::try_from(*number).is_ok())
        && batch
            .clicks
            .iter()
            .all(|(key, clicks)| key.len() <= MAX_KEY && *clicks <= MAX_CLICKS)
}

fn row(batch: &ClickBatch<'_>, now: u64) -> CountedBatch {
    let seconds = now / 1000;
    let is_believable = batch.at <= seconds + MAX_AHEAD && batch.at + MAX_BEHIND >= seconds;
    let at = if is_believable { batch.at } else { seconds };
    CountedBatch {
        worker: batch.worker,
        seq: batch.seq,
        sent: batch.total,
        dropped: batch.dropped,
        minute: at / 60,
        received_at: now,
        clicks: batch
            .clicks
            .iter()
            .map(|(key, clicks)| ((*key).to_owned(), *clicks))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_767_225_600_000;

    fn batch(at: u64, clicks: u64) -> ClickBatch<'static> {
        ClickBatch {
            worker: [1; 16],
            seq: 1,
            at,
            total: clicks,
            dropped: 0,
            clicks: vec![("a.example/x", clicks)],
            ..ClickBatch::default()
        }
    }

    #[test]
    fn a_clock_that_cannot_be_right_is_replaced_by_ours() {
        let seconds = NOW / 1000;
        for (at, minute) in [
            (seconds - 120, (seconds - 120) / 60),
            (seconds + 60, (seconds + 60) / 60),
            (seconds + 86_400, seconds / 60),
            (0, seconds / 60),
        ] {
            assert_eq!(row(&batch(at, 1), NOW).minute, minute);
        }
    }

    #[test]
    fn numbers_that_the_database_cannot_keep_are_refused() {
        assert!(is_believable(&batch(0, MAX_CLICKS)));
        assert!(!is_believable(&batch(0, MAX_CLICKS + 1)));
        let mut wrong = batch(0, 1);
        wrong.total = u64::MAX;
        assert!(!is_believable(&wrong));
    }
}
