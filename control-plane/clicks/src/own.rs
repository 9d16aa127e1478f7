//! Clicks of this process's own redirects: gathered, and reported every second as by a worker of an edge.
//!
//! One report is in flight at a time, and is resent, byte for byte, until it is accepted. Later clicks wait, within bounds:
//! attributes are dropped first, then clicks of links that have none so far. Both losses are counted.

use super::{IngestError, OWN_NAME, Reports};
use bytes::Bytes;
use edgelink_model::clock;
use edgelink_settings::config::ClicksConfig;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_wire::click_id::{ClickId, ClickIds};
use edgelink_wire::clicks::attributes::Attribute;
use edgelink_wire::clicks::events::{Encoded, Event, EventsBuilder, MAX_EVENTS};
use edgelink_wire::clicks::{BatchEvents, ClickBatch, MAX_LINKS, WorkerId, encode};
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Interval between reports of clicks.
const PERIOD: Duration = Duration::from_secs(1);

/// Most bytes of clicks with attributes that wait for a report.
const MAX_EVENT_BYTES: usize = 512 << 10;

/// Most bytes of orphan visits that wait for a report.
const MAX_ORPHAN_BYTES: usize = 64 << 10;

/// Attempts at the last reports while the process stops.
const LAST_TRIES: u32 = 5;

/// The clicks of this process.
pub struct OwnClicks {
    worker: WorkerId,
    attributes: Vec<Attribute>,
    has_orphans: bool,
    gathered: Mutex<OwnTally>,
    /// Notified when much has been gathered.
    is_much: Notify,
}

impl fmt::Debug for OwnClicks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnClicks({:?})", self.attributes)
    }
}

/// Clicks and orphan visits that wait for a report.
struct OwnTally {
    counts: HashMap<String, u64>,
    clicks: EventsBuilder<RandomState>,
    orphans: EventsBuilder<RandomState>,
    ids: ClickIds,
    /// All clicks so far.
    total: u64,
    /// All clicks so far that were dropped instead of reported.
    dropped: u64,
    /// Clicks in `counts` that have lost their attributes.
    undescribed: u64,
}

/// Contents of a report.
struct ReportContents {
    counts: Vec<(String, u64)>,
    clicks: Encoded,
    orphans: Encoded,
    total: u64,
    dropped: u64,
    undescribed: u64,
}

/// 16 bytes that are unique to this process.
fn random() -> [u8; 16] {
    let number = || getrandom::u64().unwrap_or_else(|_| clock::unix_micros());
    (u128::from(number()) << 64 | u128::from(number())).to_be_bytes()
}

impl OwnClicks {
    /// Creates an empty collection, with a random id as its worker.
    pub fn new(config: &ClicksConfig) -> Self {
        Self {
            worker: random(),
            attributes: config.attributes.clone(),
            has_orphans: config.orphans,
            gathered: Mutex::new(OwnTally {
                counts: HashMap::new(),
                clicks: EventsBuilder::new(RandomState::new(), MAX_EVENT_BYTES),
                orphans: EventsBuilder::new(RandomState::new(), MAX_ORPHAN_BYTES),
                ids: ClickIds::new(random()),
                total: 0,
                dropped: 0,
                undescribed: 0,
            }),
            is_much: Notify::new(),
        }
    }

    /// True if the attribute is reported.
    pub fn wants(&self, attribute: Attribute) -> bool {
        self.attributes.contains(&attribute)
    }

    /// True if any attribute is reported.
    pub fn describes(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// True if orphan visits are reported.
    pub fn has_orphans(&self) -> bool {
        self.has_orphans
    }

    /// An id for a click; `None` if there is no room for the event that it belongs to.
    pub fn give_id(&self) -> Option<ClickId> {
        let gathered = self.gathered();
        gathered.clicks.has_room().then(|| gathered.ids.give())
    }

    /// Counts a click without attributes.
    pub fn count(&self, key: &str) {
        let mut gathered = self.gathered();
        gathered.total += 1;
        gathered.count(key);
    }

    /// Takes a click with its attributes, or counts it where there is no room.
    pub fn describe(&self, key: &str, click: &Event<&[u8]>) {
        let mut gathered = self.gathered();
        gathered.total += 1;
        if !gathered.clicks.push(click) {
            gathered.undescribed += u64::from(gathered.count(key));
        } else if gathered.is_much() {
            self.is_much.notify_one();
        }
    }

    /// Takes an orphan visit if there is room.
    pub fn orphan(&self, visit: &Event<&[u8]>) {
        self.gathered().orphans.push(visit);
    }

    /// Reports until `stop`, and then the rest.
    pub async fn run(self: Arc<Self>, reports: Reports, stop: CancellationToken) {
        let mut seq = 0;
        let mut waiting = None;
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.is_much.notified() => {}
                () = tokio::time::sleep(PERIOD) => {}
            }
            self.flush(&mut seq, &mut waiting, &reports).await;
        }
        for _ in 0..LAST_TRIES {
            if self.flush(&mut seq, &mut waiting, &reports).await && self.gathered().is_empty() {
                return;
            }
        }
    }

    /// Sends the waiting report, or else a new one. True if none waits any longer.
    async fn flush(&self, seq: &mut u64, waiting: &mut Option<Bytes>, reports: &Reports) -> bool {
        if waiting.is_none() {
            *waiting = self.take().map(|taken| self.encode(&taken, seq));
        }
        let Some(body) = waiting.clone() else {
            return true;
        };
        match reports
            .count(body, OWN_NAME.into(), Some(clock::unix_seconds()))
            .await
        {
            Ok(()) => *waiting = None,
            Err(error) => log_failure(&error),
        }
        waiting.is_none()
    }

    fn encode(&self, taken: &ReportContents, seq: &mut u64) -> Bytes {
        let (total, dropped) = (taken.total, taken.dropped);
        let counts = taken.counts.iter().map(|(key, clicks)| (&**key, *clicks));
        let parts = [
            (counts.collect(), taken.undescribed, &taken.clicks),
            (Vec::new(), 0, &taken.orphans),
        ];
        let mut batches = Vec::with_capacity(parts.len());
        for (clicks, undescribed, events) in parts {
            if !clicks.is_empty() || !events.bytes.is_empty() {
                *seq += 1;
                let (bytes, of_events) = (&*events.bytes, events.clicks);
                batches.push(ClickBatch {
                    worker: self.worker,
                    seq: *seq,
                    at: clock::unix_seconds(),
                    total,
                    dropped,
                    clicks,
                    undescribed,
                    events: BatchEvents {
                        bytes,
                        clicks: of_events,
                    },
                });
            }
        }
        encode(&batches).into()
    }

    fn take(&self) -> Option<ReportContents> {
        let mut gathered = self.gathered();
        if gathered.is_empty() {
            return None;
        }
        Some(ReportContents {
            counts: gathered.counts.drain().collect(),
            clicks: gathered.clicks.take(),
            orphans: gathered.orphans.take(),
            total: gathered.total,
            dropped: gathered.dropped,
            undescribed: std::mem::take(&mut gathered.undescribed),
        })
    }

    fn gathered(&self) -> MutexGuard<'_, OwnTally> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnTally {
    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.clicks.is_empty() && self.orphans.is_empty()
    }

    fn is_much(&self) -> bool {
        self.clicks.bytes() > MAX_EVENT_BYTES / 2 || self.clicks.len() > MAX_EVENTS / 2
    }

    /// Counts a click; `false`, and it is dropped, if there is no room.
    fn count(&mut self, key: &str) -> bool {
        let has_room = self.counts.len() < MAX_LINKS;
        match self.counts.entry(key.to_owned()) {
            Entry::Vacant(_) if !has_room => {
                self.dropped += 1;
                return false;
            }
            entry => *entry.or_default() += 1,
        }
        true
    }
}

fn log_failure(error: &IngestError) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(
            error,
            left_out,
            "reporting clicks of this process failed; retrying"
        );
    }
}

#[cfg(test)]
mod tests;
