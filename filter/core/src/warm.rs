//! The hot links of a snapshot, until the feed covers them.
//!
//! They are as old as the snapshot, so they count only once the feed was read up to the moment at which it was started: all
//! changes in between have been applied by then.

use crate::admission::FeedPlace;
use crate::time::Moment;
use edgelink_wire::domain_record::is_key_of_domain;
use edgelink_wire::redis::FeedState;
use edgelink_wire::{Entry, FeedPosition, Snapshot};
use std::collections::HashSet;

/// Maximum number of links changed meanwhile. With more, the links of the snapshot are dropped.
const MAX_CHANGED: usize = 16_384;

/// Links that wait to be inserted.
#[derive(Debug, Default)]
pub(crate) struct Warm {
    /// Position of the snapshot in the feed.
    place: Option<FeedPlace>,
    /// Key and encoded record, the hottest first.
    links: Vec<WarmLink>,
    /// The links that have changed since.
    changed: HashSet<Box<[u8]>>,
}

/// A link of a snapshot.
#[derive(Debug)]
pub(crate) struct WarmLink {
    pub(crate) key: Box<[u8]>,
    pub(crate) record: Box<[u8]>,
}

/// The links of a snapshot, the hottest first.
pub(crate) fn links_of(snapshot: &Snapshot<'_>) -> Vec<WarmLink> {
    let is_link = |entry: &&Entry<'_>| !is_key_of_domain(entry.key);
    let links = snapshot.hot.iter().filter(is_link);
    let links = links.map(|entry| WarmLink {
        key: entry.key.into(),
        record: entry.record.to_bytes().into(),
    });
    links.collect()
}

/// Progress of reading a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Moment since which nothing was missed.
    pub(crate) since: Moment,
    /// Position at that moment.
    pub(crate) start: FeedPosition,
    /// Moment up to which everything was read; `None` before the first beat.
    pub(crate) read_until: Option<Moment>,
    /// The last entry that was read.
    pub(crate) position: FeedPosition,
    /// The generation of the feed; `None` if it is not known yet.
    pub(crate) generation: Option<u64>,
    /// The last beat since `start`.
    pub(crate) beat: Option<FeedState>,
}

impl Warm {
    /// Keeps the links of the snapshot at that place.
    pub(crate) fn keep(&mut self, place: FeedPlace, links: Vec<WarmLink>) {
        self.clear();
        self.place = Some(place);
        self.links = links;
    }

    /// A link has changed, so that its record in the snapshot is outdated.
    pub(crate) fn on_change(&mut self, key: &[u8]) {
        if self.links.is_empty() {
            return;
        }
        if self.changed.len() >= MAX_CHANGED {
            self.clear();
        } else {
            self.changed.insert(key.into());
        }
    }

    /// Drops the links.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes `most` links at most, the coldest ones first, once the feed has been read far enough, if the snapshot is the one the feed
    /// was started from, or later.
    pub(crate) fn take(&mut self, reading: Reading, most: usize) -> Vec<WarmLink> {
        let (Some(place), Some(generation)) = (self.place, reading.generation) else {
            return Vec::new();
        };
        if place.generation != generation || place.position < reading.start {
            self.clear();
            return Vec::new();
        }
        if reading
            .read_until
            .is_none_or(|read_until| read_until < reading.since)
        {
            return Vec::new();
        }
        let Self { links, changed, .. } = self;
        let coldest = std::iter::from_fn(|| links.pop());
        let is_right = |link: &WarmLink| !changed.contains(&link.key);
        let taken = coldest.filter(is_right).take(most).collect();
        if self.links.is_empty() {
            self.clear();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::link;
    use crate::time::Moment;
    use edgelink_wire::{CodeFilter, CodeLength};

    const SINCE: Moment = Moment::from_millis(1_000);

    fn position(millis: u64) -> FeedPosition {
        FeedPosition::new(millis, 0)
    }

    /// The links of a snapshot at 5 in generation 7.
    fn warm() -> Warm {
        let hot = ["a", "b"].map(|key| Entry {
            key: key.as_bytes(),
            record: link("https://e/", 1),
        });
        let snapshot = Snapshot {
            generation: 7,
            position: position(5),
            bound: 0,
            length: CodeLength::DEFAULT,
            key: None,
            domains: Vec::new(),
            codes: CodeFilter::with_capacity(0).unwrap(),
            hot: hot.into(),
        };
        let mut warm = Warm::default();
        let place = FeedPlace {
            generation: snapshot.generation,
            position: snapshot.position,
        };
        warm.keep(place, links_of(&snapshot));
        warm
    }

    fn reading(generation: u64, start: u64, read_until: Option<u64>) -> Reading {
        Reading {
            since: SINCE,
            start: position(start),
            read_until: read_until.map(Moment::from_millis),
            position: position(9),
            generation: Some(generation),
            beat: None,
        }
    }

    fn keys(links: &[WarmLink]) -> Vec<&[u8]> {
        links.iter().map(|link| &*link.key).collect()
    }

    #[test]
    fn hot_links_when_the_feed_is_read_to_its_begin_are_taken() {
        let mut warm = warm();
        assert!(warm.take(reading(7, 5, None), 9).is_empty());
        assert!(warm.take(reading(7, 5, Some(999)), 9).is_empty());
        warm.on_change(b"a");
        let links = warm.take(reading(7, 5, Some(1_000)), 9);
        assert_eq!(keys(&links), [b"b"]);
        assert!(warm.take(reading(7, 5, Some(1_000)), 9).is_empty(), "once");
    }

    #[test]
    fn hot_links_when_before_the_feed_or_of_another_are_dropped() {
        for other in [reading(7, 6, Some(2_000)), reading(8, 5, Some(2_000))] {
            let mut warm = warm();
            assert!(warm.take(other, 9).is_empty());
            assert!(warm.links.is_empty());
        }
    }

    #[test]
    fn hot_links_when_too_many_changes_come_are_dropped() {
        let mut warm = warm();
        for key in 0..=MAX_CHANGED {
            warm.on_change(&key.to_le_bytes());
        }
        assert!(warm.links.is_empty() && warm.changed.is_empty());
    }
}
