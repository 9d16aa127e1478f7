//! The newest changes, bounded in number and in bytes.

use bytes::Bytes;
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::feed_batch::{FeedBatch, MAX_BYTES, MAX_MESSAGES, encode_message};
use edgelink_wire::{BatchHead, FeedPosition};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What came behind a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The generation that it is of; 0 if it is not known.
    pub generation: u64,
    /// What was committed longer ago is in it, or was before.
    pub age: Duration,
    /// For how long it was waited for.
    pub waited: Duration,
    /// Whether it reaches to the newest change.
    pub(super) is_all: bool,
    /// Where to go on.
    pub next: FeedPosition,
    /// Whether something before the first change is missing.
    pub gap: bool,
    /// The changes.
    pub messages: Arc<Messages>,
}

/// Changes behind one another, each encoded. All who wait at the same position share them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Messages {
    list: Vec<Arc<[u8]>>,
    /// The time of the last beat among them.
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

impl Batch {
    /// Whether it tells nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.gap && self.messages.is_empty()
    }

    /// The encoded batch.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.head_bytes()[..], &self.messages.encoded()].concat()
    }

    /// What stands in front of the messages.
    pub(crate) fn head_bytes(&self) -> Vec<u8> {
        let head = BatchHead {
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
    /// If it is a beat, the time of that.
    beat: Option<u64>,
}

/// The newest changes.
pub(super) struct Ring {
    max_entries: usize,
    max_bytes: usize,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// 0 if it is not known.
    generation: u64,
    /// Where the generation began for us.
    origin: FeedPosition,
    /// Behind which position everything up to `end` is here.
    start: FeedPosition,
    end: FeedPosition,
    flush: Option<LastFlush>,
    /// What was read last.
    shared: Option<Shared>,
}

/// What all get who wait at the same position, for as long as nothing comes.
struct Shared {
    after: FeedPosition,
    end: FeedPosition,
    next: FeedPosition,
    messages: Arc<Messages>,
}

/// Where everything was last told to be forgotten.
struct LastFlush {
    position: FeedPosition,
    /// The generation that it was told in, and those since.
    generations: Vec<u64>,
}

/// The most generations since a flush that are known; readers of further ones are told of it again.
const MAX_GENERATIONS: usize = 64;

impl LastFlush {
    /// Whether who has read up to there has not seen it. Numbers of generations are not compared: those of a database
    /// that was lost may be higher.
    fn is_behind(&self, generation: u64, after: FeedPosition) -> bool {
        match self.generations.split_first() {
            Some((first, _)) if *first == generation => after < self.position,
            _ => !self.generations.contains(&generation),
        }
    }
}

impl Ring {
    /// A ring of that many changes, and bytes of encoded changes, at most.
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
            shared: None,
        }
    }

    pub(super) fn push(&mut self, position: FeedPosition, message: &FeedMessage<'_>) {
        let beat = match message {
            FeedMessage::Beat(Beat { at, .. }) => Some(*at),
            _ => None,
        };
        if matches!(message, FeedMessage::Flush) {
            self.flush = Some(LastFlush {
                position,
                // In which one, the next beat says, if that is not known.
                generations: Vec::from_iter(Some(self.generation).filter(|known| *known != 0)),
            });
        }
        let message: Arc<[u8]> = encode_message(message).into();
        self.bytes += message.len();
        self.entries.push_back(Entry {
            position,
            message,
            beat,
        });
        self.end = position;
        while self.entries.len() > self.max_entries || self.bytes > self.max_bytes {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.bytes -= oldest.message.len();
            self.start = oldest.position;
        }
    }

    pub(super) fn start_anew(&mut self, generation: u64, position: FeedPosition) {
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
    }

    /// What came behind `after`, as much as one batch holds. A gap where that is not known: nobody asked for a position, or
    /// for one that is older than what is kept, newer than the end, or not one of this feed.
    pub(super) fn read(&mut self, after: Option<FeedPosition>) -> Batch {
        match after.and_then(|after| self.place_behind(after)) {
            Some(place) => self.batch(place),
            None => Batch {
                next: self.end,
                gap: true,
                ..self.nothing()
            },
        }
    }

    /// The same for a reader of that generation; 0 if it has read nothing yet. A gap in which everything was told to be
    /// forgotten says that again.
    pub(super) fn read_of(&mut self, generation: u64, after: FeedPosition) -> Batch {
        let mut batch = self.read((generation == self.generation).then_some(after));
        let flush = self.flush.as_ref().filter(|_| batch.gap && generation != 0);
        if flush.is_some_and(|flush| flush.is_behind(generation, after)) {
            batch.messages = Arc::new(Messages {
                list: vec![encode_message(&FeedMessage::Flush).into()],
                ..Messages::default()
            });
        }
        batch
    }

    /// A batch in which nothing is missing and nothing is told.
    fn nothing(&self) -> Batch {
        Batch {
            generation: self.generation,
            age: Duration::MAX,
            waited: Duration::ZERO,
            is_all: true,
            next: self.end,
            gap: false,
            messages: Arc::default(),
        }
    }

    /// Whether the entry at `position` of a generation has come, or came before we began to follow that.
    pub(super) fn has(&self, generation: u64, position: FeedPosition) -> bool {
        generation == self.generation
            && (position <= self.origin || self.place_behind(position).is_some())
    }

    fn place_behind(&self, after: FeedPosition) -> Option<usize> {
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

    fn batch(&mut self, place: usize) -> Batch {
        let before = place
            .checked_sub(1)
            .and_then(|place| self.entries.get(place));
        let after = before.map_or(self.start, |entry| entry.position);
        if place == self.entries.len() {
            return Batch {
                next: after,
                is_all: after == self.end,
                ..self.nothing()
            };
        }
        let is_same = |shared: &Shared| (shared.after, shared.end) == (after, self.end);
        let shared = self.shared.take().filter(is_same);
        let shared = shared.unwrap_or_else(|| self.collect(place, after));
        let batch = Batch {
            next: shared.next,
            is_all: shared.next == self.end,
            messages: shared.messages.clone(),
            ..self.nothing()
        };
        self.shared = Some(shared);
        batch
    }

    /// As many of the entries from `place` on as one batch holds.
    fn collect(&self, place: usize, after: FeedPosition) -> Shared {
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
        Shared {
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
        ring.start_anew(1, at(100));
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

    fn bounds(batch: &Batch) -> Vec<u64> {
        let bytes = batch.to_bytes();
        let messages = FeedBatch::decode(&bytes).unwrap().messages;
        let bound = |message| match message {
            Ok(FeedMessage::Beat(beat)) => beat.at,
            other => panic!("{other:?}"),
        };
        messages.into_iter().map(bound).collect()
    }

    #[test]
    fn what_is_behind_a_position_is_read_in_order() {
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
    fn what_is_not_known_is_a_gap() {
        let mut ring = ring(2, 1000);
        for millis in [101, 103, 105] {
            push(&mut ring, millis);
        }
        // None, forgotten, never one of ours, from another epoch.
        for after in [None, Some(at(100)), Some(at(104)), Some(at(999))] {
            let batch = ring.read(after);
            assert_eq!((batch.gap, batch.next), (true, at(105)), "{after:?}");
            assert!(batch.messages.is_empty());
        }
        assert!(!ring.read(Some(at(101))).gap);
    }

    #[test]
    fn a_gap_of_our_own_is_one_for_all_readers() {
        let mut ring = ring(10, 1000);
        push(&mut ring, 101);
        ring.start_anew(2, at(50));
        for after in [100, 101] {
            assert!(ring.read(Some(at(after))).gap);
        }
        assert!(!ring.read(Some(at(50))).gap);
    }

    /// Whether who has read up to `after` of a generation is told to forget everything.
    fn is_flushed(ring: &mut Ring, generation: u64, after: u64) -> bool {
        let batch = ring.read_of(generation, at(after));
        assert!(batch.gap);
        let flush = encode_message(&FeedMessage::Flush);
        match &batch.messages[..] {
            [] => false,
            [message] => **message == *flush,
            more => panic!("{more:?}"),
        }
    }

    #[test]
    fn a_gap_with_a_flush_in_it_says_so() {
        let mut ring = ring(2, 1000);
        assert!(!is_flushed(&mut ring, 7, 100));
        ring.start_anew(2, at(101));
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
        ring.start_anew(0, at(108));
        ring.start_anew(3, at(108));
        assert!(!is_flushed(&mut ring, 2, 107));
        assert!(is_flushed(&mut ring, 2, 102) && is_flushed(&mut ring, 1, 100));
        for generation in 4..2 + MAX_GENERATIONS as u64 {
            ring.start_anew(generation, at(108));
            assert!(!is_flushed(&mut ring, generation, 107));
        }
        ring.start_anew(1_000, at(108));
        assert!(is_flushed(&mut ring, 1_000, 107), "too many to know");
    }

    #[test]
    fn the_bytes_are_bounded() {
        let mut ring = ring(1000, 100);
        for millis in 101..=200 {
            push(&mut ring, millis);
        }
        assert!(ring.bytes <= 100 && ring.entries.len() < 10);
    }

    #[test]
    fn one_batch_has_a_bound_and_the_next_goes_on_behind_it() {
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
    fn all_who_wait_at_the_same_position_share_what_comes() {
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
        fn who_reads_on_from_where_they_were_misses_nothing_without_being_told(
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
