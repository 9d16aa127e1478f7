//! The share of each worker in the gauges, in shared data, so that others can remove the share of a lost worker.
//!
//! A gauge is the sum over all workers, and a worker that ends removes its share. One whose VM has trapped cannot. So shared
//! data has a ledger with a place for each worker, written when the share changes and once a second; a worker that finds a
//! place not written for a while removes that share, and may take the place.

use super::{GAUGES, Levels, Metrics};
use crate::host::{NEVER_WRITTEN, SharedData};
use crate::time::Moment;

/// Milliseconds after which a worker that has not written its share is gone. Ticks come ten times a second.
const GONE_AFTER_MILLIS: u64 = 10_000;

/// Milliseconds between two writes of an unchanged share.
const WRITE_INTERVAL_MILLIS: u64 = 1_000;

/// Milliseconds between two checks of the other workers.
const LOOK_INTERVAL_MILLIS: u64 = 2_500;

/// Maximum number of workers with a place. Shares of further ones stay in the gauges when they trap.
const PLACES: u32 = 1_024;

/// A worker's part of the ledger.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Random number: a place with another one was taken over.
    worker: u64,
    place: Option<u32>,
    written: Option<(Moment, Levels)>,
    looked: Option<Moment>,
}

/// The value of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// 0 if the share was removed.
    worker: u64,
    written: Moment,
    levels: Levels,
}

const NUMBERS: usize = 2 + GAUGES.len();

impl Shares {
    /// The part of a worker that has written nothing yet.
    pub(crate) fn new(worker: u64) -> Self {
        Self {
            worker: worker.max(1),
            place: None,
            written: None,
            looked: None,
        }
    }

    /// Writes the levels that the worker is about to flush. `flushed` are its levels in the gauges, which are reset once another
    /// worker took it for gone.
    pub(crate) fn write(
        &mut self,
        host: &mut (impl SharedData + Metrics),
        levels: Levels,
        flushed: &mut Levels,
        now: Moment,
    ) {
        if is_past(self.looked, now, LOOK_INTERVAL_MILLIS) {
            self.looked = Some(now);
            self.look(host, now);
        }
        let is_written = self.written.is_some_and(|(_, written)| written == levels);
        let written = self.written.map(|(written, _)| written);
        if is_written && !is_past(written, now, WRITE_INTERVAL_MILLIS) {
            return;
        }
        if self.place.is_some() && !self.renew(host, levels, now) {
            self.place = None;
            *flushed = Levels::default();
        }
        if self.place.is_none() {
            self.settle(host, levels, now);
        }
        self.written = Some((now, levels));
    }

    /// The worker ends in order and frees its place.
    pub(crate) fn end(&mut self, data: &mut impl SharedData) {
        self.renew(data, Levels::default(), Moment::default());
        self.place = None;
        self.written = None;
    }

    /// Writes the share in the worker's place. Returns `false` if the place is no longer the worker's.
    fn renew(&mut self, data: &mut impl SharedData, levels: Levels, now: Moment) -> bool {
        let Some(place) = self.place else {
            return false;
        };
        let Some((share, cas)) = read(data, place) else {
            return false;
        };
        share.worker == self.worker && self.put(data, place, levels, now, cas)
    }

    /// Takes the first free place.
    fn settle(&mut self, host: &mut (impl SharedData + Metrics), levels: Levels, now: Moment) {
        for place in 0..PLACES {
            let (left, cas) = match read(host, place) {
                None => (Levels::default(), NEVER_WRITTEN),
                Some((share, cas)) if share.is_gone(now) => (share.levels, cas),
                Some(_) => continue,
            };
            if self.put(host, place, levels, now, cas) {
                take_out(host, left);
                self.place = Some(place);
                return;
            }
        }
    }

    /// Removes the shares of lost workers from the gauges.
    fn look(&mut self, host: &mut (impl SharedData + Metrics), now: Moment) {
        for place in 0..PLACES {
            let Some((share, cas)) = read(host, place) else {
                return;
            };
            if share.is_gone(now) && share.levels != Levels::default() {
                let free = Share {
                    worker: 0,
                    written: Moment::default(),
                    levels: Levels::default(),
                };
                if host.set(&key(place), &free.to_bytes(), cas).is_ok() {
                    take_out(host, share.levels);
                }
            }
        }
    }

    fn put(
        &self,
        data: &mut impl SharedData,
        place: u32,
        levels: Levels,
        written: Moment,
        cas: u32,
    ) -> bool {
        let share = Share {
            worker: self.worker,
            written,
            levels,
        };
        data.set(&key(place), &share.to_bytes(), cas).is_ok()
    }
}

impl Share {
    fn is_gone(&self, now: Moment) -> bool {
        self.written.age(now) >= GONE_AFTER_MILLIS
    }

    fn to_bytes(self) -> [u8; NUMBERS * 8] {
        let head = [self.worker, self.written.millis()].into_iter();
        let numbers = head.chain(self.levels.0.map(|level| level as u64));
        let mut bytes = [0; NUMBERS * 8];
        for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let [worker, written, levels @ ..] = numbers else {
            return None;
        };
        let levels: &[_; GAUGES.len()] = levels.try_into().ok()?;
        Some(Self {
            worker: u64::from_le_bytes(*worker),
            written: Moment::from_millis(u64::from_le_bytes(*written)),
            levels: Levels(levels.map(|level| u64::from_le_bytes(level) as usize)),
        })
    }
}

fn key(place: u32) -> String {
    format!("levels/{place}")
}

/// The share in a place and its version. `None` if no worker has ever had the place, or its value is no share.
fn read(data: &mut impl SharedData, place: u32) -> Option<(Share, u32)> {
    let found = data.get(&key(place))?;
    Some((Share::from_bytes(&found.value)?, found.cas))
}

fn take_out(to: &mut impl Metrics, levels: Levels) {
    for (metric, level) in levels.all() {
        if level > 0 {
            to.add(metric, -level);
        }
    }
}

fn is_past(since: Option<Moment>, now: Moment, interval: u64) -> bool {
    since.is_none_or(|since| since.age(now) >= interval)
}
