//! The newest changes, bounded in number and in bytes.

use crate::waiters::KeyWaiters;
use bytes::Bytes;
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::feed_batch::{FeedBatch, MAX_BYTES, MAX_MESSAGES, encode_message};
use edgelink_wire::{FeedBatchHead, FeedPoint, FeedPosition};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The changes after a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The generation; 0 if unknown.
    pub generation: u64,
    /// Everything committed longer ago is in this batch or an earlier one.
    pub age: Duration,
    /// Time that the request waited.
    pub waited: Duration,
    /// True if the batch ends at the newest change.
    pub(super) reaches_end: bool,
    /// The position to continue from.
    pub next: FeedPosition,
    /// True if changes before the first one are missing.
    pub gap: bool,
    /// The changes.
    pub messages: Arc<Messages>,
}

/// Consecutive changes, each encoded. All waiters at the same position share them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Messages {
    list: Vec<Arc<[u8]>>,
    /// The time of the last beat among them, unix microseconds of the database's clock.
    pub(super) last_beat: Option<u64>,
    /// All of them, as they stand in a batch.
    encoded: OnceLock<Bytes>,
}

impl Messages {
    /// All of them, as they stand in a batch.
    #[must_use]
    pub fn encoded(&self) -> Bytes {
        let encode = || FeedBatch::encode_messages(self.iter().map(AsRef::as_ref)).into();
        self.encoded.get_or_init(encode).clone()
    }
}

impl Deref for Messages {
    type Target = [Arc<[u8]>];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

impl ChangeBatch {
    /// True if it has neither changes nor a gap.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.gap && self.messages.is_empty()
    }

    /// The encoded batch.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.head_bytes()[..], &self.messages.encoded()].concat()
    }

    /// The head of the encoded batch, before the messages.
    pub fn head_bytes(&self) -> Vec<u8> {
        let head = FeedBatchHead {
            generation: self.generation,
            age_millis: u64::try_from(self.age.as_micros().div_ceil(1000)).unwrap_or(u64::MAX),
            waited_millis: u64::try_from(self.waited.as_millis()).unwrap_or(u64::MAX),
            next: self.next,
            gap: self.gap,
        };
        FeedBatch::encode_head(head, self.messages.len())
    }
}

struct Entry {
    position: FeedPosition,
    message: Arc<[u8]>,
    /// See [`changed`].
    changed: Option<(Arc<str>, u64)>,
    /// The time of a beat, unix microseconds of the database's clock; `None` for other messages.
    beat: Option<u64>,
}

impl Entry {
    /// Bytes of the message, and of the key beside it.
    fn size(&self) -> usize {
        let key = self.changed.as_ref().map_or(0, |(key, _)| key.len());
        self.message.len() + key
    }
}

/// The key that a message changes, and its revision, or the greatest one if the message has none.
fn changed(message: &FeedMessage<'_>) -> Option<(Arc<str>, u64)> {
    let rev = match message {
        FeedMessage::Put { record, .. } => record.rev,
        FeedMessage::Del { rev, .. } => *rev,
        _ => u64::MAX,
    };
    message.changed_key().map(|key| (key.into(), rev))
}

/// The newest changes.
pub(super) struct Ring {
    max_entries: usize,
    max_bytes: usize,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// 0 if unknown.
    generation: u64,
    /// The position at which this process began to follow the generation.
    origin: FeedPosition,
    /// Position after which the ring is complete, up to `end`.
    start: FeedPosition,
    end: FeedPosition,
    flush: Option<LastFlush>,
    /// Requests that wait for keys.
    pub(super) waiters: KeyWaiters,
    /// The last read.
    shared: Option<SharedRead>,
}

/// A read that all waiters at the same position share until the next change.
struct SharedRead {
    after: FeedPosition,
    end: FeedPosition,
    next: FeedPosition,
    messages: Arc<Messages>,
}

/// The last flush, with which caches drop everything.
struct LastFlush {
    position: FeedPosition,
    /// The generation of the flush, and later ones.
    generations: Vec<u64>,
}

/// Most generations since a flush that are kept; readers of others get the flush again.
const MAX_GENERATIONS: usize = 64;

impl LastFlush {
    /// True if a reader at that position has missed the flush. Generations are not compared by number: those of a lost
    /// database may be higher.
    fn is_unseen_by(&self, generation: u64, after: FeedPosition) -> bool {
        match self.generations.split_first() {
            Some((first, _)) if *first == generation => after < self.position,
            _ => !self.generations.contains(&generation),
        }
    }
}

impl Ring {
    /// Creates a ring of at most that many changes and bytes of encoded changes.
    pub(super) fn new(max_entries: usize, max_bytes: usize) -> Self {
        Self {
            max_entries,
            max_bytes,
            entries: VecDeque::new(),
            bytes: 0,
            generation: 0,
            origin: FeedPosition::START,
            start: FeedPosition::START,
            end: FeedPosition::START,
            flush: None,
            waiters: KeyWaiters::default(),
            shared: None,
        }
    }

    /// Appends a change. Returns true if it is one of a link or domain.
    pub(super) fn push(&mut self, position: FeedPosition, message: &FeedMessage<'_>) -> bool {
        let beat = match message {
            FeedMessage::Beat(Beat { at, .. }) => Some(*at),
            _ => None,
        };
        if matches!(message, FeedMessage::Flush) {
            self.flush = Some(LastFlush {
                position,
                // If unknown, the next beat supplies the generation.
                generations: Vec::from_iter(Some(self.generation).filter(|known| *known != 0)),
            });
        }
        let changed = changed(message);
        if let Some((key, rev)) = &changed {
            let place = (self.generation, position);
            self.waiters.note(key, *rev, place);
        }
        let is_change = changed.is_some();
        let message: Arc<[u8]> = encode_message(message).into();
        let entry = Entry {
            position,
            message,
            changed,
            beat,
        };
        self.bytes += entry.size();
        self.entries.push_back(entry);
        self.end = position;
        while self.entries.len() > self.max_entries || self.bytes > self.max_bytes {
            self.evict_oldest();
        }
        is_change
    }

    fn evict_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.bytes -= oldest.size();
            self.start = oldest.position;
        }
    }

    pub(super) fn reset(&mut self, generation: u64, position: FeedPosition) {
        self.entries.clear();
        self.shared = None;
        self.bytes = 0;
        self.generation = generation;
        if let Some(LastFlush { generations, .. }) = &mut self.flush
            && generation != 0
            && generations.len() < MAX_GENERATIONS
        {
            generations.push(generation);
        }
        self.origin = position;
        self.start = position;
        self.end = position;
        self.waiters.reset((generation, position));
    }

    /// The place of the newest entry.
    pub(super) fn place(&self) -> FeedPoint {
        (self.generation, self.end)
    }

    /// The keys and revisions that entries after `after` carry, with their positions; `None` if some of these entries are missing.
    pub(super) fn changed_after(
        &self,
        after: FeedPosition,
    ) -> Option<impl Iterator<Item = (FeedPosition, &str, u64)>> {
        let entries = self.entries.range(self.index_after(after)?..);
        Some(entries.filter_map(|entry| {
            let (key, rev) = entry.changed.as_ref()?;
            Some((entry.position, &**key, *rev))
        }))
    }

    /// Reads the changes after `after`, as many as one batch holds. It is a gap if `after` is `None`, older than the ring,
    /// newer than its end, or no position of this feed.
    pub(super) fn read(&mut self, after: Option<FeedPosition>) -> ChangeBatch {
        match after.and_then(|after| self.index_after(after)) {
            Some(place) => self.batch(place),
            None => ChangeBatch {
                next: self.end,
                gap: true,
                ..self.empty()
            },
        }
    }

    /// Reads for a reader of that generation; 0 if it has read no change yet. A gap that hides a flush contains the flush.
    pub(super) fn read_in_generation(
        &mut self,
        generation: u64,
        after: FeedPosition,
    ) -> ChangeBatch {
        let mut batch = self.read((generation == self.generation).then_some(after));
        let flush = self.flush.as_ref().filter(|_| batch.gap && generation != 0);
        if flush.is_some_and(|flush| flush.is_unseen_by(generation, after)) {
            batch.messages = Arc::new(Messages {
                list: vec![encode_message(&FeedMessage::Flush).into()],
                ..Messages::default()
            });
        }
        batch
    }

    /// A batch without changes and without a gap.
    fn empty(&self) -> ChangeBatch {
        ChangeBatch {
            generation: self.generation,
            age: Duration::MAX,
            waited: Duration::ZERO,
            reaches_end: true,
            next: self.end,
            gap: false,
            messages: Arc::default(),
        }
    }

    /// True if the entry at `position` of a generation was received, or precedes the part that this process follows.
    pub(super) fn has(&self, generation: u64, position: FeedPosition) -> bool {
        generation == self.generation
            && (position <= self.origin || self.index_after(position).is_some())
    }

    fn index_after(&self, after: FeedPosition) -> Option<usize> {
        if after == self.end {
            return Some(self.entries.len());
        }
        if after == self.start {
            return Some(0);
        }
        let found = self
            .entries
            .binary_search_by_key(&after, |entry| entry.position);
        found.ok().map(|place| place + 1)
    }

    fn batch(&mut self, place: usize) -> ChangeBatch {
        let before = place
            .checked_sub(1)
            .and_then(|place| self.entries.get(place));
        let after = before.map_or(self.start, |entry| entry.position);
        if place == self.entries.len() {
            return ChangeBatch {
                next: after,
                reaches_end: after == self.end,
                ..self.empty()
            };
        }
        let is_same = |shared: &SharedRead| (shared.after, shared.end) == (after, self.end);
        let shared = self.shared.take().filter(is_same);
        let shared = shared.unwrap_or_else(|| self.collect(place, after));
        let batch = ChangeBatch {
            next: shared.next,
            reaches_end: shared.next == self.end,
            messages: shared.messages.clone(),
            ..self.empty()
        };
        self.shared = Some(shared);
        batch
    }

    /// Collects the entries from index `place` on, as many as one batch holds.
    fn collect(&self, place: usize, after: FeedPosition) -> SharedRead {
        let (mut messages, mut bytes, mut next) = (Messages::default(), 0, after);
        for entry in self.entries.range(place..) {
            if messages.len() == MAX_MESSAGES || bytes >= MAX_BYTES {
                break;
            }
            bytes += entry.message.len();
            messages.list.push(entry.message.clone());
            messages.last_beat = entry.beat.or(messages.last_beat);
            next = entry.position;
        }
        SharedRead {
            after,
            end: self.end,
            next,
            messages: Arc::new(messages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> FeedPosition {
        FeedPosition::new(millis, 0)
    }

    fn ring(entries: usize, bytes: usize) -> Ring {
        let mut ring = Ring::new(entries, bytes);
        ring.reset(1, at(100));
        ring
    }

    fn push(ring: &mut Ring, millis: u64) {
        ring.push(at(millis), &beat(millis));
    }

    fn beat(at: u64) -> FeedMessage<'static> {
        FeedMessage::Beat(Beat {
            at,
            ..Beat::default()
        })
    }

    fn bounds(batch: &ChangeBatch) -> Vec<u64> {
        let bytes = batch.to_bytes();
        let messages = FeedBatch::decode(&bytes).unwrap().messages;
        let bound = |message| match message {
            Ok(FeedMessage::Beat(beat)) => beat.at,
            other => panic!("{other:?}"),
        };
        messages.into_iter().map(bound).collect()
    }

    #[test]
    fn messages_when_behind_a_position_are_read_in_order() {
        let mut ring = ring(10, 1000);
        for millis in 101..=103 {
            push(&mut ring, millis);
        }
        for (after, expected) in [(100, vec![101, 102, 103]), (102, vec![103]), (103, vec![])] {
            let batch = ring.read(Some(at(after)));
            assert_eq!((batch.gap, batch.next), (false, at(103)));
            assert_eq!(bounds(&batch), expected);
        }
    }

    #[test]
    fn position_when_unknown_is_a_gap() {
        let mut ring = ring(2, 1000);
        for millis in [101, 103, 105] {
            push(&mut ring, millis);
        }
        // None, evicted, never one of ours, from another generation.
        for after in [None, Some(at(100)), Some(at(104)), Some(at(999))] {
            let batch = ring.read(after);
            assert_eq!((batch.gap, batch.next), (true, at(105)), "{after:?}");
            assert!(batch.messages.is_empty());
        }
        assert!(!ring.read(Some(at(101))).gap);
    }

    #[test]
    fn ring_when_reset_has_a_gap_for_all_readers() {
        let mut ring = ring(10, 1000);
        push(&mut ring, 101);
        ring.reset(2, at(50));
        for after in [100, 101] {
            assert!(ring.read(Some(at(after))).gap);
        }
        assert!(!ring.read(Some(at(50))).gap);
    }

    /// True if a reader at `after` of a generation gets a flush.
    fn is_flushed(ring: &mut Ring, generation: u64, after: u64) -> bool {
        let batch = ring.read_in_generation(generation, at(after));
        assert!(batch.gap);
        let flush = encode_message(&FeedMessage::Flush);
        match &batch.messages[..] {
            [] => false,
            [message] => **message == *flush,
            more => panic!("{more:?}"),
        }
    }

    #[test]
    fn gap_when_it_contains_a_flush_says_so() {
        let mut ring = ring(2, 1000);
        assert!(!is_flushed(&mut ring, 7, 100));
        ring.reset(2, at(101));
        push(&mut ring, 102);
        ring.push(at(103), &FeedMessage::Flush);
        for millis in 104..108 {
            push(&mut ring, millis);
        }
        assert!(is_flushed(&mut ring, 1, 100), "of the generation before");
        assert!(
            is_flushed(&mut ring, 9, 100),
            "of one that was lost, perhaps"
        );
        assert!(is_flushed(&mut ring, 2, 102), "it has not seen it");
        assert!(!is_flushed(&mut ring, 2, 104));
        assert!(!is_flushed(&mut ring, 0, 0), "it knows nothing yet");
        ring.reset(0, at(108));
        ring.reset(3, at(108));
        assert!(!is_flushed(&mut ring, 2, 107));
        assert!(is_flushed(&mut ring, 2, 102) && is_flushed(&mut ring, 1, 100));
        for generation in 4..2 + MAX_GENERATIONS as u64 {
            ring.reset(generation, at(108));
            assert!(!is_flushed(&mut ring, generation, 107));
        }
        ring.reset(1_000, at(108));
        assert!(is_flushed(&mut ring, 1_000, 107), "too many to know");
    }

    #[test]
    fn ring_when_bytes_exceed_the_bound_evicts_entries() {
        let mut ring = ring(1000, 100);
        for millis in 101..=200 {
            push(&mut ring, millis);
        }
        assert!(ring.bytes <= 100 && ring.entries.len() < 10);
    }

    #[test]
    fn batch_when_full_is_continued_by_the_next() {
        let mut ring = ring(10_000, 10 << 20);
        for millis in 1..=5000 {
            push(&mut ring, 100 + millis);
        }
        let first = ring.read(Some(at(100)));
        assert_eq!(first.messages.len(), MAX_MESSAGES);
        let second = ring.read(Some(first.next));
        assert_eq!(second.messages.len(), 5000 - MAX_MESSAGES);
        assert_eq!(second.next, at(5100));
    }

    #[test]
    fn readers_when_at_one_position_share_a_batch() {
        let mut ring = ring(10, 1000);
        push(&mut ring, 101);
        let [one, other] = [(); 2].map(|()| ring.read(Some(at(100))));
        assert!(Arc::ptr_eq(&one.messages, &other.messages));
        assert_eq!(one.messages.encoded(), other.messages.encoded());
        push(&mut ring, 102);
        assert_eq!(ring.read(Some(at(100))).messages.len(), 2);
        assert_eq!(ring.read(Some(at(101))).messages.len(), 1);
    }

    proptest! {
        #[test]
        fn reader_when_it_reads_on_misses_nothing_without_a_gap(
            steps in prop::collection::vec((1u64..5, any::<bool>()), 1..60),
        ) {
            let mut ring = ring(8, 1000);
            let (mut now, mut reader, mut seen) = (100, at(100), Vec::new());
            let mut pushed = Vec::new();
            for (step, reads) in steps {
                now += step;
                push(&mut ring, now);
                pushed.push(now);
                if reads {
                    let batch = ring.read(Some(reader));
                    if batch.gap {
                        seen.clone_from(&pushed);
                    }
                    seen.extend(bounds(&batch));
                    reader = batch.next;
                    prop_assert_eq!(&seen, &pushed);
                }
            }
        }
    }
}
