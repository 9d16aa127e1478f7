//! Clicks: takes what edges report into the queue, each batch once, and finds the links that are followed most.

mod hot;
mod own;
mod reports;

pub use hot::{HotLink, HotLinks, hot_links};
pub(crate) use own::OwnClicks;
pub use reports::{OnReport, Reports};

use crate::store::{BatchHead, ClickReport, StoreError};
use bytes::Bytes;
use edgelink_wire::RecordError;
use edgelink_wire::clicks::{ClickBatch, decode};
use std::sync::Arc;

/// A worker's clock that is further ahead than this, in seconds, is not believed.
const MAX_AHEAD: u64 = 300;

/// A worker's clock that is further behind than this, in seconds, is not believed. Batches wait at edges for less.
pub(crate) const MAX_BEHIND: u64 = 3600;

/// The name of this process among edges: it redirects too.
pub(crate) const OWN_NAME: &str = "control-plane";

/// The most clicks of a link in a batch that are believed.
const MAX_CLICKS: u64 = 1 << 32;

/// The longest key: a domain, a slash, a code.
const MAX_KEY: usize = 259 + 1 + 64;

/// Why reports of clicks are refused.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// Bytes that are no batches.
    #[error(transparent)]
    Undecodable(#[from] RecordError),
    /// A key or a number that no edge of ours sends.
    #[error("a batch holds a key or a number of clicks that is too large")]
    Malformed,
    /// As many reports wait as may.
    #[error("too many clicks wait to be written")]
    Full,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads the body of a report that comes in at `now` (unix milliseconds).
///
/// # Errors
/// [`IngestError::Undecodable`] or [`IngestError::Malformed`]: a retry is of no use.
pub fn read_report(body: Bytes, now: u64) -> Result<ClickReport, IngestError> {
    let batches = decode(&body)?;
    if !batches.iter().all(is_believable) {
        return Err(IngestError::Malformed);
    }
    let heads = batches.iter().map(head).collect();
    Ok(ClickReport {
        received_at: now,
        edge: Arc::default(),
        heads,
        body,
    })
}

fn is_believable(batch: &ClickBatch<'_>) -> bool {
    let numbers = [batch.seq, batch.total, batch.dropped, batch.undescribed];
    numbers.iter().all(|number| i64::try_from(*number).is_ok())
        && batch.undescribed <= batch.sum() - batch.events.clicks
        && batch
            .clicks
            .iter()
            .all(|(key, clicks)| key.len() <= MAX_KEY && *clicks <= MAX_CLICKS)
}

fn head(batch: &ClickBatch<'_>) -> BatchHead {
    BatchHead {
        worker: batch.worker,
        seq: batch.seq,
        sent: batch.total,
        dropped: batch.dropped,
        undescribed: batch.undescribed,
        clicks: batch.sum(),
    }
}

/// The times of a batch that came in at `received` (unix seconds).
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchTimes {
    /// When it was closed, by its worker's clock.
    closed: u64,
    /// The same by a clock that is believed.
    pub(crate) at: u64,
    /// No event is older.
    earliest: u64,
}

impl BatchTimes {
    /// The times of a batch. A clock that cannot be right is replaced by this process's.
    pub(crate) fn new(closed: u64, received: u64) -> Self {
        let is_believable = closed <= received + MAX_AHEAD && closed + MAX_BEHIND >= received;
        Self {
            closed,
            at: if is_believable { closed } else { received },
            earliest: received.saturating_sub(MAX_BEHIND),
        }
    }

    /// When an event of the batch was: as long before it was closed as its worker says.
    pub(crate) fn of(self, event: u64) -> u64 {
        let before = self.closed.saturating_sub(event);
        self.at.saturating_sub(before).max(self.earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::clicks::encode;

    const NOW: u64 = 1_767_225_600_000;

    fn batch(at: u64, clicks: u64) -> ClickBatch<'static> {
        ClickBatch {
            worker: [1; 16],
            seq: 1,
            at,
            total: clicks,
            clicks: vec![("a.example/x", clicks)],
            ..ClickBatch::default()
        }
    }

    #[test]
    fn a_clock_that_cannot_be_right_is_replaced_by_ours() {
        let now = NOW / 1000;
        for (closed, event, at) in [
            (now - 120, now - 120, now - 120),
            (now - 120, now - 130, now - 130),
            (now + 60, now + 60, now + 60),
            (now + 60, now + 90, now + 60),
            (now + 86_400, now + 86_390, now - 10),
            (0, 0, now),
            (now, now - 86_400, now - MAX_BEHIND),
            (now - MAX_BEHIND, 0, now - MAX_BEHIND),
        ] {
            assert_eq!(
                BatchTimes::new(closed, now).of(event),
                at,
                "{closed} {event}"
            );
        }
    }

    #[test]
    fn numbers_that_the_database_cannot_keep_are_refused() {
        let read = |batch: ClickBatch<'_>| read_report(encode(&[batch]).into(), NOW);
        let report = read(batch(0, MAX_CLICKS)).unwrap();
        assert_eq!(report.heads[0].clicks, MAX_CLICKS);
        let mut wrong = batch(0, 1);
        wrong.total = u64::MAX;
        let long = format!("a.example/{}", "x".repeat(MAX_KEY));
        let long = ClickBatch {
            clicks: vec![(&long, 1)],
            ..batch(0, 1)
        };
        let undescribed = ClickBatch {
            undescribed: 3,
            ..batch(0, 2)
        };
        for wrong in [batch(0, MAX_CLICKS + 1), wrong, long, undescribed] {
            assert!(matches!(read(wrong), Err(IngestError::Malformed)));
        }
        let undecodable = read_report(Bytes::from_static(b"\x09"), NOW);
        assert!(matches!(undecodable, Err(IngestError::Undecodable(_))));
    }
}
