//! Batches of clicks that the control plane has not acknowledged yet.
//!
//! A batch keeps its number however often it is sent, so it counts once. A batch that was sent at least once is never changed,
//! because it may have been counted. When there are too many others, orphan visits are dropped first, then attributes, and
//! counts last: the events of the oldest batch become counts, which join the counts of a neighbour of the same minute; if that
//! frees nothing, or would take too long, the oldest batch is dropped.

mod batch;

use crate::clicks::Counted;
use batch::Batch;
use edgelink_wire::clicks::{self, MAX_BATCHES, MAX_LINKS, WorkerId};
use std::collections::VecDeque;

/// Maximum bytes of events turned into counts at each close of a batch, so that the callback stays short.
const STRIP_BYTES: usize = 1 << 20;

/// Size of a request, in bytes of its batches, from which on no further batch is added.
const REQUEST_BYTES: usize = 256 << 10;

/// The batches of one worker.
#[derive(Debug)]
pub(crate) struct Batches {
    worker: WorkerId,
    seq: u64,
    total: u64,
    dropped: u64,
    /// Clicks whose attributes were dropped, including clicks dropped themselves afterwards.
    undescribed: u64,
    /// Orphan visits dropped.
    dropped_orphans: u64,
    /// Set if the next batch must carry `dropped` even without clicks: it has changed, or a batch that carried it was dropped.
    is_unreported: bool,
    waiting: VecDeque<Batch>,
    bytes: usize,
    /// Number of batches at the front that were sent at least once.
    attempted: usize,
    /// Number of batches at the front that are in flight.
    under_way: usize,
    /// Number of batches at the front that are sent one by one, because they were rejected together.
    alone: usize,
    bounds: BatchBounds,
}

/// Limits of unacknowledged batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchBounds {
    pub(crate) batches: usize,
    pub(crate) bytes: usize,
}

impl Batches {
    pub(crate) fn new(worker: WorkerId, bounds: BatchBounds) -> Self {
        Self {
            worker,
            seq: 0,
            total: 0,
            dropped: 0,
            undescribed: 0,
            dropped_orphans: 0,
            is_unreported: false,
            waiting: VecDeque::new(),
            bytes: 0,
            attempted: 0,
            under_way: 0,
            alone: 0,
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

    /// All clicks dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// All clicks so far whose attributes were dropped.
    pub(crate) fn undescribed(&self) -> u64 {
        self.undescribed
    }

    /// All orphan visits dropped so far.
    pub(crate) fn dropped_orphans(&self) -> u64 {
        self.dropped_orphans
    }

    /// Closes batches with everything counted until `at`, unix time in seconds.
    pub(crate) fn close(&mut self, counted: Counted, at: u64) {
        let Counted { tallied, gathered } = counted;
        self.total = self.total.saturating_add(tallied.lost);
        self.drop_clicks(tallied.lost);
        self.dropped_orphans += gathered
            .iter()
            .map(|events| events.lost_orphans)
            .sum::<u64>();
        let mut clicks = tallied.clicks;
        let gathered = gathered.into_iter();
        let events = gathered.flat_map(|events| [events.clicks, events.orphans]);
        let mut events = events.filter(|events| !events.bytes.is_empty()).peekable();
        if clicks.is_empty() && events.peek().is_none() {
            self.report_with_last();
        }
        while !clicks.is_empty() || events.peek().is_some() || self.is_unreported {
            let rest = clicks.split_off(clicks.len().min(MAX_LINKS));
            let batch = Batch::new(&clicks, events.next().unwrap_or_default());
            self.push(batch, at);
            clicks = rest;
        }
        self.keep_bounds();
    }

    fn push(&mut self, mut batch: Batch, at: u64) {
        self.undescribed = self.undescribed.saturating_add(batch.undescribed);
        self.total = self.total.saturating_add(batch.sum());
        self.seq += 1;
        self.is_unreported = false;
        self.bytes += batch.bytes();
        batch.seq = self.seq;
        batch.at = at;
        batch.total = self.total;
        batch.dropped = self.dropped;
        self.waiting.push_back(batch);
    }

    /// Drops the excess over the bounds.
    fn keep_bounds(&mut self) {
        let mut read = 0;
        while self.are_too_many() || self.are_too_large() {
            if self.give_up_orphans() {
                continue;
            }
            let stripped = if read < STRIP_BYTES {
                self.strip_one()
            } else {
                None
            };
            let is_enough = stripped.is_some_and(|stripped| {
                read += stripped.bytes;
                stripped.is_joined || !self.are_too_many()
            });
            if !is_enough && !self.drop_one() {
                break;
            }
        }
    }

    fn are_too_many(&self) -> bool {
        self.waiting.len() > self.bounds.batches
    }

    fn are_too_large(&self) -> bool {
        self.bytes > self.bounds.bytes
    }

    /// Adds the losses to the newest batch, if it was never sent: a batch for the losses alone would displace another one.
    fn report_with_last(&mut self) {
        let has_unsent = self.waiting.len() > self.attempted;
        if let Some(last) = self.waiting.back_mut().filter(|_| has_unsent) {
            last.total = self.total;
            last.dropped = self.dropped;
            self.is_unreported = false;
        }
    }

    /// The body of a request with the oldest batches; `None` if there is none.
    pub(crate) fn request(&mut self) -> Option<Vec<u8>> {
        let mut bytes = 0;
        let most = if self.alone > 0 { 1 } else { MAX_BATCHES };
        let batches: Vec<_> = self
            .waiting
            .iter()
            .take(most)
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

    /// Removes the batches in flight, which were counted. Returns the number of their clicks.
    pub(crate) fn acknowledge(&mut self) -> u64 {
        self.remove_under_way()
    }

    /// The batches in flight were rejected for good. Of several it is unknown which one is to blame, so each is sent alone; a batch
    /// that is rejected alone is dropped.
    pub(crate) fn reject(&mut self) {
        if self.under_way > 1 {
            self.alone = std::mem::take(&mut self.under_way);
            return;
        }
        let clicks = self.give_up_under_way();
        self.drop_clicks(clicks);
    }

    /// Drops all batches.
    pub(crate) fn drop_all(&mut self) {
        self.under_way = self.waiting.len();
        self.attempted = self.under_way;
        let clicks = self.give_up_under_way();
        self.drop_clicks(clicks);
    }

    /// Drops the batches in flight. Returns the number of their clicks.
    fn give_up_under_way(&mut self) -> u64 {
        for batch in self.waiting.iter().take(self.under_way) {
            self.dropped_orphans += batch.orphans();
            // As in `remove`: without further clicks, its losses would not be reported again otherwise.
            self.is_unreported |= batch.dropped > 0;
        }
        self.remove_under_way()
    }

    fn remove_under_way(&mut self) -> u64 {
        let count = std::mem::take(&mut self.under_way).min(self.waiting.len());
        self.attempted = self.attempted.saturating_sub(count);
        self.alone = self.alone.saturating_sub(count);
        let mut clicks = 0u64;
        for batch in self.waiting.drain(..count) {
            self.bytes -= batch.bytes();
            clicks = clicks.saturating_add(batch.sum());
        }
        clicks
    }

    /// Index of the oldest batch that was never sent and for which `is_it` holds.
    fn oldest(&self, is_it: impl Fn(usize, &Batch) -> bool) -> Option<usize> {
        let mut unsent = self.waiting.iter().enumerate().skip(self.attempted);
        let found = unsent.find(|(place, batch)| is_it(*place, batch));
        found.map(|(place, _)| place)
    }

    /// Drops the oldest batch that was never sent. Returns `false` if there is none.
    fn drop_one(&mut self) -> bool {
        let Some(batch) = self.remove(self.attempted) else {
            return false;
        };
        self.dropped_orphans += batch.orphans();
        self.drop_clicks(batch.sum());
        true
    }

    fn remove(&mut self, place: usize) -> Option<Batch> {
        let batch = self.waiting.remove(place)?;
        self.bytes -= batch.bytes();
        // The losses in it must be reported again.
        self.is_unreported |= batch.dropped > 0;
        Some(batch)
    }

    /// Drops the orphan visits of the oldest unsent batch where that frees an exceeded bound. Returns `false` if there is no such
    /// batch.
    fn give_up_orphans(&mut self) -> bool {
        let is_too_large = self.are_too_large();
        let has_orphans =
            |_, batch: &Batch| batch.orphans() > 0 && (is_too_large || batch.sum() == 0);
        let Some(place) = self.oldest(has_orphans) else {
            return false;
        };
        if let Some(batch) = self.waiting.get_mut(place) {
            self.bytes -= batch.event_bytes();
            self.dropped_orphans += batch.give_up_orphans();
            if batch.sum() == 0 {
                self.remove(place);
            }
        }
        true
    }

    /// Turns the events of the oldest unsent batch that has some into counts; `None` if there is none, or it would free no exceeded
    /// bound.
    fn strip_one(&mut self) -> Option<StrippedEvents> {
        let is_too_large = self.are_too_large();
        let place = self.oldest(|place, batch| {
            batch.described() > 0 && (is_too_large || self.has_neighbour(place, batch))
        })?;
        let batch = self.waiting.get_mut(place)?;
        let bytes = batch.event_bytes();
        self.bytes -= batch.bytes();
        let clicks = batch.strip();
        self.bytes += batch.bytes();
        self.undescribed = self.undescribed.saturating_add(clicks);
        let is_joined =
            place.checked_sub(1).is_some_and(|before| self.join(before)) || self.join(place);
        Some(StrippedEvents { bytes, is_joined })
    }

    /// True if an adjacent unsent batch can absorb the counts of this one.
    fn has_neighbour(&self, place: usize, batch: &Batch) -> bool {
        let before = place.checked_sub(1);
        let before = before.filter(|before| *before >= self.attempted);
        let mut beside = before.into_iter().chain([place + 1]);
        beside.any(|beside| {
            let beside = self.waiting.get(beside);
            beside.is_some_and(|beside| batch.is_near(beside))
        })
    }

    /// Joins the counts of a batch with the next one's, if both allow it. Returns `true` if they were joined.
    fn join(&mut self, place: usize) -> bool {
        let pair = self.waiting.get(place).zip(self.waiting.get(place + 1));
        let may_join = pair.is_some_and(|(batch, next)| batch.may_join(next));
        if place < self.attempted || !may_join {
            return false;
        }
        let Some(batch) = self.remove(place) else {
            return false;
        };
        if let Some(next) = self.waiting.get_mut(place) {
            self.bytes -= next.bytes();
            next.join(&batch);
            self.bytes += next.bytes();
        }
        true
    }

    fn drop_clicks(&mut self, clicks: u64) {
        self.dropped = self.dropped.saturating_add(clicks);
        self.is_unreported |= clicks > 0;
    }
}

/// Result of turning events into counts.
struct StrippedEvents {
    /// Bytes of the events.
    bytes: usize,
    /// True if the batch was joined with another.
    is_joined: bool,
}

#[cfg(test)]
mod tests;
