//! Batches of clicks that the control plane has not acknowledged yet.
//!
//! A batch keeps its number however often it is sent, so it counts once. When there are too many, the oldest one that
//! was never sent is dropped: whether one that was sent was counted is unknown, so it could not be reported as dropped.

use crate::clicks::Tallied;
use edgelink_wire::ClickBatch;
use edgelink_wire::clicks::{self, MAX_BATCHES, MAX_LINKS, WorkerId};
use std::collections::VecDeque;

/// What a batch and a link in one cost besides keys, in bytes.
const BATCH_BYTES: usize = 128;
const LINK_BYTES: usize = 32;

/// The size of a request, in bytes of the batches in it, at which no further batch is put in.
const REQUEST_BYTES: usize = 256 << 10;

/// The batches of one worker.
#[derive(Debug)]
pub(crate) struct Batches {
    worker: WorkerId,
    seq: u64,
    total: u64,
    dropped: u64,
    /// Whether `dropped` has changed since the last batch, which carries it.
    is_unreported: bool,
    waiting: VecDeque<Batch>,
    bytes: usize,
    /// How many of the first ones were sent at least once.
    attempted: usize,
    /// How many of the first ones are under way.
    under_way: usize,
    bounds: BatchBounds,
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchBounds {
    pub(crate) batches: usize,
    pub(crate) bytes: usize,
}

#[derive(Debug)]
struct Batch {
    seq: u64,
    at: u64,
    total: u64,
    dropped: u64,
    clicks: Vec<(Box<[u8]>, u64)>,
}

impl Batches {
    pub(crate) fn new(worker: WorkerId, bounds: BatchBounds) -> Self {
        Self {
            worker,
            seq: 0,
            total: 0,
            dropped: 0,
            is_unreported: false,
            waiting: VecDeque::new(),
            bytes: 0,
            attempted: 0,
            under_way: 0,
            bounds,
        }
    }

    pub(crate) fn set_bounds(&mut self, bounds: BatchBounds) {
        self.bounds = bounds;
    }

    /// All clicks so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// All clicks given up so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Closes batches over what was counted until `at`, unix time in seconds.
    pub(crate) fn close(&mut self, counted: Tallied, at: u64) {
        self.total = self.total.saturating_add(counted.lost);
        self.drop_clicks(counted.lost);
        let mut clicks = counted.clicks;
        while !clicks.is_empty() || self.is_unreported {
            let rest = clicks.split_off(clicks.len().min(MAX_LINKS));
            self.total = self.total.saturating_add(sum(&clicks));
            self.seq += 1;
            self.is_unreported = false;
            let batch = Batch {
                seq: self.seq,
                at,
                total: self.total,
                dropped: self.dropped,
                clicks,
            };
            self.bytes += batch.bytes();
            self.waiting.push_back(batch);
            clicks = rest;
        }
        while self.waiting.len() > self.bounds.batches || self.bytes > self.bounds.bytes {
            if !self.drop_one() {
                break;
            }
        }
    }

    /// The body of a request with the oldest batches; `None` if there is none.
    pub(crate) fn request(&mut self) -> Option<Vec<u8>> {
        let mut bytes = 0;
        let batches: Vec<_> = self
            .waiting
            .iter()
            .take(MAX_BATCHES)
            .take_while(|batch| {
                let is_open = bytes < REQUEST_BYTES;
                bytes += batch.bytes();
                is_open
            })
            .map(|batch| batch.as_wire(self.worker))
            .collect();
        let body = (!batches.is_empty()).then(|| clicks::encode(&batches));
        self.under_way = batches.len();
        self.attempted = self.attempted.max(self.under_way);
        body
    }

    /// What is under way was counted. How many clicks that is.
    pub(crate) fn acknowledge(&mut self) -> u64 {
        self.remove_under_way()
    }

    /// What is under way will never be taken: it is given up.
    pub(crate) fn reject(&mut self) {
        let clicks = self.remove_under_way();
        self.drop_clicks(clicks);
    }

    /// Drops all batches.
    pub(crate) fn drop_all(&mut self) {
        self.under_way = self.waiting.len();
        self.attempted = self.under_way;
        let clicks = self.remove_under_way();
        self.drop_clicks(clicks);
    }

    fn remove_under_way(&mut self) -> u64 {
        let count = std::mem::take(&mut self.under_way).min(self.waiting.len());
        self.attempted = self.attempted.saturating_sub(count);
        let mut clicks = 0u64;
        for batch in self.waiting.drain(..count) {
            self.bytes -= batch.bytes();
            clicks = clicks.saturating_add(sum(&batch.clicks));
        }
        clicks
    }

    /// Whether there was one that was never sent.
    fn drop_one(&mut self) -> bool {
        let Some(batch) = self.waiting.remove(self.attempted) else {
            return false;
        };
        self.bytes -= batch.bytes();
        self.drop_clicks(sum(&batch.clicks));
        // The drops that it carried are to be reported again.
        self.is_unreported |= batch.dropped > 0;
        true
    }

    fn drop_clicks(&mut self, clicks: u64) {
        self.dropped = self.dropped.saturating_add(clicks);
        self.is_unreported |= clicks > 0;
    }
}

impl Batch {
    fn bytes(&self) -> usize {
        let links = self.clicks.iter().map(|(key, _)| key.len() + LINK_BYTES);
        links.sum::<usize>() + BATCH_BYTES
    }

    fn as_wire(&self, worker: WorkerId) -> ClickBatch<'_> {
        ClickBatch {
            worker,
            seq: self.seq,
            at: self.at,
            total: self.total,
            dropped: self.dropped,
            clicks: self.clicks.iter().filter_map(as_wire).collect(),
            ..ClickBatch::default()
        }
    }
}

/// Keys are made of checked domains and codes, which are ASCII.
fn as_wire((key, clicks): &(Box<[u8]>, u64)) -> Option<(&str, u64)> {
    Some((std::str::from_utf8(key).ok()?, *clicks))
}

fn sum(clicks: &[(Box<[u8]>, u64)]) -> u64 {
    clicks
        .iter()
        .fold(0, |sum, (_, clicks)| sum.saturating_add(*clicks))
}

#[cfg(test)]
mod tests;
