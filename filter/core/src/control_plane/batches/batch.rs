//! A waiting batch of clicks: encoded, so that clicks on a link cost its key and a few bytes.

use crate::clicks::LinkClicks;
use edgelink_wire::ClickBatch;
use edgelink_wire::clicks::events::{Encoded, Events, Kind};
use edgelink_wire::clicks::{BatchEvents, MAX_LINKS, WorkerId};
use edgelink_wire::varint;
use std::collections::BTreeMap;

/// Cost of a batch besides its links and events, in bytes.
pub(super) const BATCH_BYTES: usize = 128;

/// Clicks of a period that are not acknowledged yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) seq: u64,
    pub(super) at: u64,
    pub(super) total: u64,
    pub(super) dropped: u64,
    /// Number of clicks in `links` that have lost their attributes.
    pub(super) undescribed: u64,
    /// Number of links in `links`.
    link_count: usize,
    /// The clicks of `links`.
    counted: u64,
    /// Keys and clicks, as in [`ClickBatch::clicks`], one after another.
    links: Vec<u8>,
    events: Encoded,
}

impl Batch {
    /// A batch of links, each listed once, and events.
    pub(super) fn new(clicks: &[(Box<[u8]>, LinkClicks)], events: Encoded) -> Self {
        let mut batch = Self {
            events,
            ..Self::default()
        };
        // Keys are made of checked domains and codes, which are ASCII.
        let links = clicks
            .iter()
            .filter_map(|(key, clicks)| Some((std::str::from_utf8(key).ok()?, clicks.count)));
        batch.set_links(links);
        let undescribed = clicks.iter().map(|(_, clicks)| clicks.undescribed);
        batch.undescribed = undescribed.fold(0, u64::saturating_add);
        batch
    }

    fn set_links<'k>(&mut self, links: impl IntoIterator<Item = (&'k str, u64)>) {
        let mut encoded = Vec::new();
        (self.link_count, self.counted) = (0, 0);
        for (key, clicks) in links {
            varint::write_bytes(key.as_bytes(), &mut encoded);
            varint::write(clicks, &mut encoded);
            self.link_count += 1;
            self.counted = self.counted.saturating_add(clicks);
        }
        encoded.shrink_to_fit();
        self.links = encoded;
    }

    /// Its cost in bytes.
    pub(super) fn bytes(&self) -> usize {
        BATCH_BYTES + self.links.len() + self.events.bytes.len()
    }

    /// The clicks in it.
    pub(super) fn sum(&self) -> u64 {
        self.counted.saturating_add(self.events.clicks)
    }

    /// The clicks in it that are events.
    pub(super) fn described(&self) -> u64 {
        self.events.clicks
    }

    /// The orphan visits in it.
    pub(super) fn orphans(&self) -> u64 {
        self.events.orphans
    }

    /// The bytes of its events.
    pub(super) fn event_bytes(&self) -> usize {
        self.events.bytes.len()
    }

    /// Drops its events, none of which is a click. Returns their number.
    pub(super) fn give_up_orphans(&mut self) -> u64 {
        std::mem::take(&mut self.events).orphans
    }

    /// Turns its events into counts, without their attributes. Returns the number of clicks.
    pub(super) fn strip(&mut self) -> u64 {
        let events = std::mem::take(&mut self.events);
        let links = std::mem::take(&mut self.links);
        let mut counts: BTreeMap<&str, u64> = links_of(&links).collect();
        for event in Events::decode(&events.bytes)
            .into_iter()
            .flatten()
            .flatten()
        {
            if let Kind::Redirect(_) = event.kind {
                *counts.entry(event.key).or_default() += 1;
            }
        }
        self.set_links(counts);
        self.undescribed = self.undescribed.saturating_add(events.clicks);
        events.clicks
    }

    /// True if both have counts of the same minute that fit one batch.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        self.at / 60 == other.at / 60 && self.link_count + other.link_count <= MAX_LINKS
    }

    /// True if `other` may take its counts: it has no events, which would be lost.
    pub(super) fn may_join(&self, other: &Self) -> bool {
        self.events.bytes.is_empty() && self.is_near(other)
    }

    /// Adds the counts of another batch.
    pub(super) fn join(&mut self, other: &Self) {
        let links = std::mem::take(&mut self.links);
        let mut counts: BTreeMap<&str, u64> = links_of(&other.links).collect();
        for (key, clicks) in links_of(&links) {
            let count = counts.entry(key).or_default();
            *count = count.saturating_add(clicks);
        }
        self.set_links(counts);
        self.undescribed = self.undescribed.saturating_add(other.undescribed);
    }

    /// The batch as it is sent.
    pub(super) fn as_wire(&self, worker: WorkerId) -> ClickBatch<'_> {
        ClickBatch {
            worker,
            seq: self.seq,
            at: self.at,
            total: self.total,
            dropped: self.dropped,
            clicks: links_of(&self.links).collect(),
            undescribed: self.undescribed,
            events: BatchEvents {
                bytes: &self.events.bytes,
                clicks: self.events.clicks,
            },
        }
    }
}

/// The links written by [`Batch::set_links`].
fn links_of(mut links: &[u8]) -> impl Iterator<Item = (&str, u64)> {
    std::iter::from_fn(move || {
        let key = varint::read_text(&mut links, "key").ok()?;
        Some((key, varint::read(&mut links).ok()?))
    })
}
