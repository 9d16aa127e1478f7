//! Places in the feed from which a new worker can go on, in shared data.
//!
//! Records in shared data were fetched by other workers. Those that were fetched before a worker's own feed begins may have changed
//! unseen; hence it begins at a place that another worker has reached earlier, if the control plane still has what follows, and
//! relies on what was fetched since. Which worker was there does not matter: the new one reads all changes since itself.
//!
//! Layout of the value: 1 byte version, 8 bytes source, 8 bytes generation, then 24 bytes for each place: milliseconds and sequence of
//! the position, and the moment in milliseconds of the machine's monotonic clock; all little-endian, the oldest first.

use crate::host::{FEED_KEY, NEVER_WRITTEN, SharedData};
use crate::time::Moment;
use edgelink_wire::FeedPosition;

const VERSION: u8 = 1;

/// Milliseconds between two places.
pub(crate) const INTERVAL_MILLIS: u64 = 60_000;

/// A position, and a moment at which it was the end of the feed, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedStart {
    pub(crate) position: FeedPosition,
    pub(crate) since: Moment,
}

/// The places of one feed, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedPlaces {
    /// Hash of the control planes whose feed it is.
    pub(crate) source: u64,
    pub(crate) generation: u64,
    pub(crate) starts: Vec<FeedStart>,
}

impl FeedPlaces {
    /// The places in shared data; `None` if there are none of this source.
    pub(crate) fn read(data: &mut impl SharedData, source: u64) -> Option<Self> {
        Self::decode(&data.get(FEED_KEY)?.value).filter(|places| places.source == source)
    }

    /// Adds places of the caller: where its feed began, if no others are known, and where it is `now`, if the last one is old. Places from
    /// before `longest` milliseconds are dropped, and older ones are kept further apart.
    pub(crate) fn note(
        data: &mut impl SharedData,
        (source, generation): (u64, u64),
        (begun, reached): (FeedStart, FeedStart),
        (now, longest): (Moment, u64),
    ) {
        let held = data.get(FEED_KEY);
        let known = held.as_ref().and_then(|held| Self::decode(&held.value));
        let known = known.filter(|it| (it.source, it.generation) == (source, generation));
        let is_recent = |last: &FeedStart| last.since.age(now) < INTERVAL_MILLIS;
        let last = known.as_ref().and_then(|known| known.starts.last());
        if last.is_some_and(is_recent) {
            return;
        }
        let mut starts = known.map_or_else(|| vec![begun], |known| known.starts);
        starts.push(reached);
        starts.retain(|start| start.since.age(now) < longest);
        // One of each age between two powers of two.
        starts.dedup_by_key(|start| (start.since.age(now) / INTERVAL_MILLIS).checked_ilog2());
        let places = Self {
            source,
            generation,
            starts,
        };
        let cas = held.map_or(NEVER_WRITTEN, |held| held.cas);
        let _another_worker_was_first = data.set(FEED_KEY, &places.encode(), cas);
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.source.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        for FeedStart { position, since } in &self.starts {
            for number in [position.millis, position.sequence, since.millis()] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, numbers) = bytes.split_first()?;
        let (numbers, rest) = numbers.as_chunks();
        let mut numbers = numbers.iter().copied().map(u64::from_le_bytes);
        if *version != VERSION || !rest.is_empty() {
            return None;
        }
        let (source, generation) = (numbers.next()?, numbers.next()?);
        let mut starts = Vec::new();
        while let Some(millis) = numbers.next() {
            starts.push(FeedStart {
                position: FeedPosition::new(millis, numbers.next()?),
                since: Moment::from_millis(numbers.next()?),
            });
        }
        Some(Self {
            source,
            generation,
            starts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Store;

    const MINUTE: u64 = 60_000;

    fn start(minute: u64) -> FeedStart {
        FeedStart {
            position: FeedPosition::new(minute, 1),
            since: Moment::from_millis(minute * MINUTE),
        }
    }

    fn note(store: &mut Store, generation: u64, minute: u64) {
        let now = start(minute).since;
        FeedPlaces::note(
            store,
            (7, generation),
            (start(0), start(minute)),
            (now, 60 * MINUTE),
        );
    }

    fn minutes(store: &mut Store) -> Vec<u64> {
        let places = FeedPlaces::read(store, 7).expect("places");
        let starts = places.starts.iter();
        starts.map(|start| start.position.millis).collect()
    }

    #[test]
    fn places_when_noted_each_minute_are_few_and_of_all_ages() {
        let mut store = Store::default();
        for minute in 0..=200 {
            note(&mut store, 1, minute);
        }
        let minutes = minutes(&mut store);
        let ages: Vec<u64> = minutes.iter().map(|minute| 200 - minute).collect();
        assert!(ages.len() <= 7 && ages[0] >= 30, "{ages:?}");
        assert_eq!(ages[ages.len() - 2..], [1, 0], "{ages:?}");
        assert!(ages.is_sorted_by(|older, newer| older > newer));
    }

    #[test]
    fn places_when_the_first_worker_begins_are_its_begin() {
        let mut store = Store::default();
        note(&mut store, 1, 5);
        assert_eq!(minutes(&mut store), [0, 5]);
        note(&mut store, 1, 5);
        assert_eq!(minutes(&mut store), [0, 5], "too early");
    }

    #[test]
    fn places_when_of_another_feed_are_not_read_and_replaced() {
        let mut store = Store::default();
        note(&mut store, 1, 1);
        assert_eq!(FeedPlaces::read(&mut store, 8), None);
        note(&mut store, 2, 3);
        let places = FeedPlaces::read(&mut store, 7).expect("places");
        assert_eq!((places.generation, places.starts.len()), (2, 2));
    }

    #[test]
    fn places_when_malformed_are_ignored() {
        let mut store = Store::default();
        note(&mut store, 1, 1);
        let value = store.get(FEED_KEY).expect("a value").value;
        for bytes in [
            &value[..value.len() - 1],
            &value[..value.len() - 8],
            &[],
            &[9],
        ] {
            store.put(FEED_KEY, bytes);
            assert_eq!(FeedPlaces::read(&mut store, 7), None, "{bytes:?}");
        }
    }
}
