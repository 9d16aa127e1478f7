//! Batches of clicks that the control plane has not acknowledged yet.
//!
//! A batch keeps its number however often it is sent, so it counts once. What was sent at least once is never changed: whether it
//! was counted is unknown. When there are too many others, orphan visits go first, then attributes, and counts last: the events of
//! the oldest batch become counts, which join those of a neighbour if they are of the same minute; and when that frees nothing, or
//! would take too long, the oldest batch is dropped.

mod batch;

use crate::clicks::Counted;
use batch::Batch;
use edgelink_wire::clicks::{self, MAX_BATCHES, MAX_LINKS, WorkerId};
use std::collections::VecDeque;

/// Bytes of events after which no others become counts until the next batch is closed: a callback is to be short.
const STRIP_BYTES: usize = 1 << 20;

/// The size of a request, in bytes of the batches in it, at which no further batch is put in.
const REQUEST_BYTES: usize = 256 << 10;

/// The batches of one worker.
#[derive(Debug)]
pub(crate) struct Batches {
    worker: WorkerId,
    seq: u64,
    total: u64,
    dropped: u64,
    /// Clicks whose attributes were given up, those that were dropped afterwards included.
    undescribed: u64,
    /// Orphan visits given up.
    dropped_orphans: u64,
    /// Whether the next batch is to carry `dropped` even without clicks: it has changed, or a batch that said it was given up.
    is_unreported: bool,
    waiting: VecDeque<Batch>,
    bytes: usize,
    /// How many of the first ones were sent at least once.
    attempted: usize,
    /// How many of the first ones are under way.
    under_way: usize,
    /// How many of the first ones are sent one by one, because they were refused together.
    alone: usize,
    bounds: BatchBounds,
}

/// How much may wait.
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

    /// All clicks given up so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// All clicks so far whose attributes were given up.
    pub(crate) fn undescribed(&self) -> u64 {
        self.undescribed
    }

    /// All orphan visits given up so far.
    pub(crate) fn dropped_orphans(&self) -> u64 {
        self.dropped_orphans
    }

    /// Closes batches over what was counted until `at`, unix time in seconds.
    pub(crate) fn close(&mut self, counted: Counted, at: u64) {
        let Counted { tallied, gathered } = counted;
        self.total = self.total.saturating_add(tallied.lost);
        self.drop_clicks(tallied.lost);
        self.dropped_orphans += gathered.lost_orphans;
        let mut clicks = tallied.clicks;
        let events = [gathered.clicks, gathered.orphans].into_iter();
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

    /// Gives up what there are too many of.
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

    /// Lets the newest batch say what was lost, if it was never sent: a batch for this alone would push out another one.
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

    /// What is under way was counted. How many clicks that is.
    pub(crate) fn acknowledge(&mut self) -> u64 {
        self.remove_under_way()
    }

    /// What is under way will not be taken, however often it is sent. Of several batches it is unknown which one is to blame, so
    /// that each is sent alone; one that is refused alone is given up.
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

    /// How many clicks that is.
    fn give_up_under_way(&mut self) -> u64 {
        for batch in self.waiting.iter().take(self.under_way) {
            self.dropped_orphans += batch.orphans();
            // As in `remove`: without clicks of its own, nothing else would have its losses reported again.
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

    /// The place of the oldest batch like that which was never sent.
    fn oldest(&self, is_it: impl Fn(usize, &Batch) -> bool) -> Option<usize> {
        let mut unsent = self.waiting.iter().enumerate().skip(self.attempted);
        let found = unsent.find(|(place, batch)| is_it(*place, batch));
        found.map(|(place, _)| place)
    }

    /// Whether there was one that was never sent.
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
        // What it said of losses is to be reported again.
        self.is_unreported |= batch.dropped > 0;
        Some(batch)
    }

    /// Gives up the orphan visits of the oldest batch that was never sent, if that frees anything of which there is too much. Whether
    /// there was one.
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

    /// Makes counts of the events of the oldest batch that has some and was never sent; `None` if there is none, or it would free
    /// nothing of which there is too much.
    fn strip_one(&mut self) -> Option<Stripped> {
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
        Some(Stripped { bytes, is_joined })
    }

    /// Whether the counts of a batch may fit those of one beside it that was never sent either.
    fn has_neighbour(&self, place: usize, batch: &Batch) -> bool {
        let before = place.checked_sub(1);
        let before = before.filter(|before| *before >= self.attempted);
        let mut beside = before.into_iter().chain([place + 1]);
        beside.any(|beside| {
            let beside = self.waiting.get(beside);
            beside.is_some_and(|beside| batch.is_near(beside))
        })
    }

    /// Joins the counts of a batch with those of the next one, if that may be. Whether it may.
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

/// What became of events that are counts now.
struct Stripped {
    /// How many bytes they were.
    bytes: usize,
    /// Whether there is one batch less.
    is_joined: bool,
}

#[cfg(test)]
mod tests;
