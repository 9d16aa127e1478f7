//! Clicks: puts reported batches into the queue, each once, moves them into an engine that answers questions ([`analytics`]), shows
//! them as they arrive ([`live`]), and finds the most clicked links.

pub mod analytics;
mod hot;
pub mod live;
mod own;
mod reports;

pub use hot::{HotLink, HotLinks, hot_links};
pub use own::OwnClicks;
pub use reports::{OnReport, Reports};

use bytes::Bytes;
use edgelink_click_store::{BatchHead, ClickReport};
use edgelink_store::StoreError;
use edgelink_wire::RecordError;
use edgelink_wire::clicks::{ClickBatch, decode, encode};
use std::sync::Arc;

/// A worker's clock that is further ahead than this, in seconds, is not believed.
const MAX_AHEAD: u64 = 300;

/// A batch that was closed longer ago than this, in seconds, counts at the time at which it came in. Batches wait at edges for less.
pub(crate) const MAX_BEHIND: u64 = 86_400;

/// Like [`MAX_BEHIND`], for a report without its time of sending: a slow clock cannot be told from a long wait.
const MAX_BEHIND_UNSAID: u64 = 3600;

/// A worker's clock that differs from this process's by more than this when it sends, in seconds, is not believed.
const MAX_SKEW: u64 = 300;

/// The name of this process among edges: it redirects too.
pub(crate) const OWN_NAME: &str = "control-plane";

/// The most clicks of a link in a batch that are believed.
const MAX_CLICKS: u64 = 1 << 32;

/// The longest key: a domain, a slash, a code.
const MAX_KEY: usize = 259 + 1 + 64;

/// The error of a refused click report.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The body does not decode as batches.
    #[error(transparent)]
    Undecodable(#[from] RecordError),
    /// A key or a number is larger than edges send.
    #[error("a batch holds a key or a number of clicks that is too large")]
    Malformed,
    /// Too many reports are waiting.
    #[error("too many clicks wait to be written")]
    Full,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads the body of a report that comes in at `now` (unix milliseconds), and was sent at `sent_at` by its worker's clock (unix seconds).
///
/// # Errors
/// [`IngestError::Undecodable`] or [`IngestError::Malformed`]: a retry is of no use.
pub fn read_report(
    body: Bytes,
    now: u64,
    sent_at: Option<u64>,
) -> Result<ClickReport, IngestError> {
    let mut batches = decode(&body)?;
    if !batches.iter().all(is_believable) {
        return Err(IngestError::Malformed);
    }
    let heads = batches.iter().map(BatchHead::of).collect();
    let earliest = earliest(now / 1000, sent_at);
    let mut is_changed = false;
    for batch in batches.iter_mut().filter(|batch| batch.at < earliest) {
        // Too old to be believed: its clicks count at the time at which it came in.
        is_changed |= std::mem::take(&mut batch.at) > 0;
    }
    let changed = is_changed.then(|| encode(&batches).into());
    Ok(ClickReport {
        received_at: now,
        edge: Arc::default(),
        heads,
        body: changed.unwrap_or(body),
    })
}

/// The earliest time at which a batch can have been closed, as far as its worker's clock is believed (unix seconds).
fn earliest(now: u64, sent_at: Option<u64>) -> u64 {
    match sent_at {
        None => now.saturating_sub(MAX_BEHIND_UNSAID),
        Some(sent_at) if sent_at.abs_diff(now) <= MAX_SKEW => now.saturating_sub(MAX_BEHIND),
        Some(_) => u64::MAX,
    }
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

/// The times of a batch that came in at `received` (unix seconds).
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchTimes {
    /// Time of closing by its worker's clock.
    closed: u64,
    /// Time of closing by a clock that is believed.
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

    /// Time of an event: as long before the batch was closed as its worker reports.
    pub(crate) fn of(self, event: u64) -> u64 {
        let before = self.closed.saturating_sub(event);
        self.at.saturating_sub(before).max(self.earliest)
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
            clicks: vec![("a.example/x", clicks)],
            ..ClickBatch::default()
        }
    }

    #[test]
    fn clock_when_it_cannot_be_right_is_replaced() {
        let now = NOW / 1000;
        for (closed, event, at) in [
            (now - 120, now - 120, now - 120),
            (now - 120, now - 130, now - 130),
            (now + 60, now + 60, now + 60),
            (now + 60, now + 90, now + 60),
            (now + 86_400, now + 86_390, now - 10),
            (0, 0, now),
            (now, now - 90_000, now - MAX_BEHIND),
            (now - MAX_BEHIND, 0, now - MAX_BEHIND),
        ] {
            assert_eq!(
                BatchTimes::new(closed, now).of(event),
                at,
                "{closed} {event}"
            );
        }
    }

    /// After hours without a control plane, clicks that an edge has kept count at their time if the edge's clock is right.
    #[test]
    fn clicks_when_they_have_waited_for_hours_count_at_their_time() {
        let now = NOW / 1000;
        for (closed, sent_at, at) in [
            (now - 8 * 3600, Some(now - 2), now - 8 * 3600),
            (now - 8 * 3600, Some(now + 300), now - 8 * 3600),
            (now - 90_000, Some(now), now),
            // A clock that is wrong when the report is sent was wrong before.
            (now - 8 * 3600, Some(now - 8 * 3600), now),
            (now - 400, Some(now - 301), now),
            (now + 400, Some(now + 400), now),
            // Edges that do not send their time.
            (now - 3000, None, now - 3000),
            (now - 8 * 3600, None, now),
        ] {
            let body = encode(&[batch(closed, 1)]);
            let report = read_report(body.into(), NOW, sent_at).unwrap();
            let batches = decode(&report.body).unwrap();
            let times = BatchTimes::new(batches[0].at, now);
            assert_eq!(
                (times.at, times.of(batches[0].at)),
                (at, at),
                "{closed} {sent_at:?}"
            );
            assert_eq!(batches[0].clicks, batch(closed, 1).clicks);
        }
    }

    #[test]
    fn number_when_too_large_to_store_is_refused() {
        let read = |batch: ClickBatch<'_>| read_report(encode(&[batch]).into(), NOW, None);
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
        let undecodable = read_report(Bytes::from_static(b"\x09"), NOW, None);
        assert!(matches!(undecodable, Err(IngestError::Undecodable(_))));
    }
}
