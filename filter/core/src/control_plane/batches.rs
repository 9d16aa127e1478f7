//! Batches of clicks that the control plane has not acknowledged yet.
//!
//! A batch keeps its number however often it is sent, so it counts once. When there are too many, attributes go first: the
//! events of the oldest one that was never sent become counts, which join those of the batch before if they are of the same
//! minute. When no batch has events any more, the oldest one that was never sent is dropped: whether one that was sent was
//! counted is unknown, so it could not be reported as dropped.

use crate::clicks::Counted;
use edgelink_wire::ClickBatch;
use edgelink_wire::clicks::events::{Encoded, Events, Kind};
use edgelink_wire::clicks::{self, BatchEvents, MAX_BATCHES, MAX_LINKS, WorkerId};
use std::collections::{BTreeMap, VecDeque};

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
    undescribed: u64,
    /// Orphan visits given up.
    dropped_orphans: u64,
    /// Whether `dropped` or `undescribed` has changed since the last batch, which carries it.
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
    undescribed: u64,
    clicks: Vec<(Box<[u8]>, u64)>,
    events: Encoded,
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
        self.lose_descriptions(gathered.lost.undescribed);
        self.dropped_orphans += gathered.lost.orphans;
        let mut clicks = tallied.clicks;
        let events = [gathered.clicks, gathered.orphans].into_iter();
        let mut events = events.filter(|events| !events.bytes.is_empty()).peekable();
        if clicks.is_empty() && events.peek().is_none() {
            self.report_with_last();
        }
        while !clicks.is_empty() || events.peek().is_some() || self.is_unreported {
            let rest = clicks.split_off(clicks.len().min(MAX_LINKS));
            let events = events.next().unwrap_or_default();
            let sum = sum(&clicks).saturating_add(events.clicks);
            self.total = self.total.saturating_add(sum);
            self.seq += 1;
            self.is_unreported = false;
            let batch = Batch {
                seq: self.seq,
                at,
                total: self.total,
                dropped: self.dropped,
                undescribed: self.undescribed,
                clicks,
                events,
            };
            self.bytes += batch.bytes();
            self.waiting.push_back(batch);
            clicks = rest;
        }
        while self.waiting.len() > self.bounds.batches || self.bytes > self.bounds.bytes {
            if !self.strip_one() && !self.drop_one() {
                break;
            }
        }
    }

    /// Lets the newest batch say what was lost, if it was never sent: a batch for this alone would push out another one.
    fn report_with_last(&mut self) {
        let has_unsent = self.waiting.len() > self.attempted;
        if let Some(last) = self.waiting.back_mut().filter(|_| has_unsent) {
            last.total = self.total;
            last.dropped = self.dropped;
            last.undescribed = self.undescribed;
            self.is_unreported = false;
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
            clicks = clicks.saturating_add(batch.sum());
        }
        clicks
    }

    /// Whether there was one that was never sent.
    fn drop_one(&mut self) -> bool {
        let Some(batch) = self.waiting.remove(self.attempted) else {
            return false;
        };
        self.bytes -= batch.bytes();
        self.drop_clicks(batch.sum());
        // What it said of losses is to be reported again.
        self.is_unreported |= batch.dropped > 0 || batch.undescribed > 0;
        true
    }

    /// Whether there was one with events that was never sent. They are counts now.
    fn strip_one(&mut self) -> bool {
        let fresh = self.waiting.iter().enumerate().skip(self.attempted);
        let mut with_events = fresh.filter(|(_, batch)| !batch.events.bytes.is_empty());
        let Some(place) = with_events.next().map(|(place, _)| place) else {
            return false;
        };
        if let Some(batch) = self.waiting.get_mut(place) {
            self.bytes -= batch.bytes();
            let events = std::mem::take(&mut batch.events);
            let orphans = batch.add_counts(&events.bytes);
            self.bytes += batch.bytes();
            self.dropped_orphans += orphans;
            self.lose_descriptions(events.clicks);
        }
        self.join_with_previous(place);
        true
    }

    /// Joins the counts of a batch with those of the one before, if neither was ever sent, they are of the same minute, and fit.
    fn join_with_previous(&mut self, place: usize) {
        let previous = place
            .checked_sub(1)
            .filter(|place| *place >= self.attempted);
        let Some(previous) = previous else {
            return;
        };
        let pair = self.waiting.get(previous).zip(self.waiting.get(place));
        let may_join = pair.is_some_and(|(previous, batch)| {
            let links = previous.clicks.len() + batch.clicks.len();
            previous.at / 60 == batch.at / 60 && links <= MAX_LINKS
        });
        if !may_join {
            return;
        }
        if let Some(previous) = self.waiting.remove(previous)
            && let Some(batch) = self.waiting.get_mut(place - 1)
        {
            self.bytes -= previous.bytes() + batch.bytes();
            batch.add(previous.clicks);
            self.bytes += batch.bytes();
        }
    }

    fn lose_descriptions(&mut self, clicks: u64) {
        self.undescribed = self.undescribed.saturating_add(clicks);
        self.is_unreported |= clicks > 0;
    }

    fn drop_clicks(&mut self, clicks: u64) {
        self.dropped = self.dropped.saturating_add(clicks);
        self.is_unreported |= clicks > 0;
    }
}

impl Batch {
    fn bytes(&self) -> usize {
        let links = self.clicks.iter().map(|(key, _)| key.len() + LINK_BYTES);
        links.sum::<usize>() + self.events.bytes.len() + BATCH_BYTES
    }

    fn sum(&self) -> u64 {
        sum(&self.clicks).saturating_add(self.events.clicks)
    }

    /// Counts the events in these bytes by link. How many of them are orphan visits, which are not counted.
    fn add_counts(&mut self, events: &[u8]) -> u64 {
        let mut orphans = 0;
        let mut counts = BTreeMap::<&str, u64>::new();
        for event in Events::decode(events).into_iter().flatten().flatten() {
            match event.kind {
                Kind::Redirect(_) => *counts.entry(event.key).or_default() += 1,
                Kind::Orphan(_) => orphans += 1,
            }
        }
        let counts = counts.into_iter();
        self.add(counts.map(|(key, clicks)| (key.as_bytes().into(), clicks)));
        orphans
    }

    fn add(&mut self, clicks: impl IntoIterator<Item = (Box<[u8]>, u64)>) {
        let mut counts: BTreeMap<_, _> = self.clicks.drain(..).collect();
        for (key, clicks) in clicks {
            let count: &mut u64 = counts.entry(key).or_default();
            *count = count.saturating_add(clicks);
        }
        self.clicks.extend(counts);
    }

    fn as_wire(&self, worker: WorkerId) -> ClickBatch<'_> {
        ClickBatch {
            worker,
            seq: self.seq,
            at: self.at,
            total: self.total,
            dropped: self.dropped,
            clicks: self.clicks.iter().filter_map(as_wire).collect(),
            undescribed: self.undescribed,
            events: BatchEvents {
                bytes: &self.events.bytes,
                clicks: self.events.clicks,
            },
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
