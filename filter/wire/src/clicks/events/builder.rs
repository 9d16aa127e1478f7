//! Encodes events as they happen.

use super::{
    Attributes, CITY, COUNTRY, Event, HAS_ID, Kind, LANGUAGE, MAX_BYTES, MAX_EVENTS, MAX_TEXT,
    REFERRER, RULE, USER_AGENT, UTM, UTMS, VISITOR,
};
use crate::same::is_same;
use crate::varint;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

/// Texts of an event: the key and its attributes.
const TEXTS: usize = 6 + UTM;

/// Recent texts that are kept for each attribute, a power of two.
const RECENT: usize = 16;

const NONE_RECENT: [[TextSpan; RECENT]; TEXTS] = [[TextSpan {
    start: 0,
    length: 0,
    number: 0,
}; RECENT]; TEXTS];

/// The most bytes of an event: all its texts are new, and each number has its maximum length.
const MAX_EVENT_BYTES: usize =
    TEXTS * (MAX_TEXT + 2) + (TEXTS + 2) * varint::MOST_BYTES + 2 + size_of::<u64>() + 16;

/// The most bytes of the frame: before the texts, and between texts and events.
const FRAME_BYTES: usize = 3 * varint::MOST_BYTES;

/// The smallest size of a builder that has room for an event.
pub const MIN_BUILDER_BYTES: usize = FRAME_BYTES + MAX_EVENT_BYTES;

/// Encodes events as they happen: into buffers that are reused, so that nothing is allocated once they have grown.
#[derive(Debug)]
pub struct EventsBuilder<S> {
    hasher: S,
    max_bytes: usize,
    first: u64,
    /// The numbers of the texts, by their hash.
    numbers: HashTable<TextSpan>,
    /// Texts of recent events, by attribute and [`place_of`] them: most clicks have some of them, which are found without a hash.
    recent: [[TextSpan; RECENT]; TEXTS],
    texts: Vec<u8>,
    events: Vec<u8>,
    count: usize,
    clicks: u64,
}

/// A text that is in `texts` already; the default is the empty text.
#[derive(Clone, Copy, Debug, Default)]
struct TextSpan {
    start: u32,
    length: u32,
    number: u32,
}

/// Encoded events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes; empty for no events.
    pub bytes: Vec<u8>,
    /// Number of clicks among them.
    pub clicks: u64,
    /// Number of orphan visits among them.
    pub orphans: u64,
}

impl TextSpan {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.length as usize
    }

    fn bytes(self, texts: &[u8]) -> &[u8] {
        texts.get(self.range()).unwrap_or_default()
    }
}

impl<S: BuildHasher> EventsBuilder<S> {
    /// An empty builder for up to `max_bytes` of events, but no more than [`MAX_BYTES`].
    pub fn new(hasher: S, max_bytes: usize) -> Self {
        Self {
            hasher,
            max_bytes: max_bytes.min(MAX_BYTES),
            first: 0,
            numbers: HashTable::new(),
            recent: NONE_RECENT,
            texts: Vec::new(),
            events: Vec::new(),
            count: 0,
            clicks: 0,
        }
    }

    /// Changes the bound for further events.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes.min(MAX_BYTES);
    }

    /// True if there is room for one more event of any length; [`EventsBuilder::take`] makes room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.count < MAX_EVENTS && self.bytes() + MAX_EVENT_BYTES <= self.max_bytes
    }

    /// True once events or bytes have reached half of their bound, so that the events should be taken soon.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        self.count > MAX_EVENTS / 2 || self.bytes() > self.max_bytes / 2
    }

    /// Adds an event. Texts are cut where they are too long or not UTF-8. Returns `false` without adding it if there is no room.
    pub fn push(&mut self, event: &Event<&[u8]>) -> bool {
        if !self.has_room() {
            return false;
        }
        if self.count == 0 {
            self.first = event.at;
        }
        self.write(event);
        self.count += 1;
        self.clicks += u64::from(matches!(event.kind, Kind::Redirect(_)));
        true
    }

    fn write(&mut self, event: &Event<&[u8]>) {
        self.write_text(0, event.key);
        varint::write(event.at.saturating_sub(self.first), &mut self.events);
        let has_id = if event.id.is_some() { HAS_ID } else { 0 };
        self.events.push(event.kind.byte() | has_id);
        let mask = self.events.len();
        self.events.push(0);
        let mut has = 0;
        if event.rule > 0 {
            has |= RULE;
            varint::write(event.rule.into(), &mut self.events);
        }
        has |= self.write_attributes(&event.attributes);
        if let Some(visitor) = event.visitor {
            has |= VISITOR;
            self.events.extend_from_slice(&visitor.to_le_bytes());
        }
        if let Some(place) = self.events.get_mut(mask) {
            *place = has;
        }
        if let Some(id) = event.id {
            self.events.extend_from_slice(&id);
        }
    }

    /// Writes the attributes; returns the flags of those that are present.
    fn write_attributes(&mut self, attributes: &Attributes<&[u8]>) -> u8 {
        let mut has = 0;
        let texts = [
            (COUNTRY, attributes.country),
            (CITY, attributes.city),
            (USER_AGENT, attributes.user_agent),
            (REFERRER, attributes.referrer),
            (LANGUAGE, attributes.language),
        ];
        for (place, (bit, text)) in (1..).zip(texts) {
            if !text.is_empty() {
                has |= bit;
                self.write_text(place, text);
            }
        }
        if attributes.utm.iter().any(|text| !text.is_empty()) {
            has |= UTMS;
            for (place, text) in (6..).zip(attributes.utm) {
                self.write_text(place, text);
            }
        }
        has
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Upper bound of the bytes that the events take so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        FRAME_BYTES + self.texts.len() + self.events.len()
    }

    /// Encodes the events and empties the builder.
    pub fn take(&mut self) -> Encoded {
        if self.count == 0 {
            return Encoded::default();
        }
        let mut bytes = Vec::with_capacity(self.bytes());
        varint::write(self.first, &mut bytes);
        varint::write(self.numbers.len() as u64, &mut bytes);
        bytes.append(&mut self.texts);
        varint::write(self.count as u64, &mut bytes);
        bytes.append(&mut self.events);
        self.numbers.clear();
        self.recent = NONE_RECENT;
        let clicks = std::mem::take(&mut self.clicks);
        let count = std::mem::take(&mut self.count) as u64;
        Encoded {
            bytes,
            clicks,
            orphans: count - clicks,
        }
    }

    /// Writes the number of a text. `attribute` is the index of its attribute.
    #[inline]
    fn write_text(&mut self, attribute: usize, text: &[u8]) {
        let text = text.get(..MAX_TEXT).unwrap_or(text);
        let place = place_of(text);
        let recent = self.recent.get(attribute);
        let recent = recent.and_then(|recent| recent.get(place));
        let recent = recent.copied().unwrap_or_default();
        let found = if is_same(recent.bytes(&self.texts), text) {
            recent
        } else {
            self.find((attribute, place), text)
        };
        varint::write(found.number.into(), &mut self.events);
    }

    #[inline(never)]
    fn find(&mut self, (attribute, place): (usize, usize), text: &[u8]) -> TextSpan {
        let found = match self.look_up(text) {
            Ok(found) => found,
            Err(hash) => self.add(text, hash),
        };
        let recent = self.recent.get_mut(attribute);
        if let Some(recent) = recent.and_then(|recent| recent.get_mut(place)) {
            *recent = found;
        }
        found
    }

    /// Looks up a text; the error is the hash of a text that was not added yet.
    fn look_up(&self, text: &[u8]) -> Result<TextSpan, u64> {
        if text.is_empty() {
            return Ok(TextSpan::default());
        }
        let hash = hash(&self.hasher, text);
        let is_it = |it: &TextSpan| is_same(it.bytes(&self.texts), text);
        self.numbers.find(hash, is_it).copied().ok_or(hash)
    }

    #[cold]
    fn add(&mut self, text: &[u8], hash: u64) -> TextSpan {
        let (text, hash) = match std::str::from_utf8(text) {
            Ok(_) => (text, hash),
            Err(error) => {
                let text = text.get(..error.valid_up_to()).unwrap_or_default();
                match self.look_up(text) {
                    Ok(found) => return found,
                    Err(hash) => (text, hash),
                }
            }
        };
        varint::write(text.len() as u64, &mut self.texts);
        let added = TextSpan {
            start: self.texts.len() as u32,
            length: text.len() as u32,
            number: self.numbers.len() as u32 + 1,
        };
        self.texts.extend_from_slice(text);
        let texts = &self.texts;
        let hash_of = |it: &TextSpan| self::hash(&self.hasher, it.bytes(texts));
        self.numbers.insert_unique(hash, added, hash_of);
        added
    }
}

/// A place among [`RECENT`] for a text, by its length, its end, and its middle, where user agents differ.
#[inline]
fn place_of(text: &[u8]) -> usize {
    let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    let (_, middle) = text.split_at_checked(text.len() / 2).unwrap_or_default();
    let mixed = match (text.last_chunk(), middle.first_chunk()) {
        (Some(end), Some(middle)) => number(end) ^ number(middle).rotate_left(16),
        _ => text.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)),
    };
    let mixed = (mixed ^ text.len() as u32).wrapping_mul(0x9e37_79b1);
    (mixed >> (u32::BITS - RECENT.ilog2())) as usize
}

fn hash(hasher: &impl BuildHasher, text: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(text);
    hasher.finish()
}
