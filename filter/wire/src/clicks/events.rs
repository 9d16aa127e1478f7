//! Clicks one by one, with their attributes, as a batch carries them beside those that are only counted.
//!
//! Layout, numbers as unsigned LEB128, texts behind their length: the first second, how many texts, the texts, how many
//! events, and each event as
//!
//! | what | bytes |
//! |---|---|
//! | text of the link key or the path, seconds since the first one | 2 numbers |
//! | kind ([`Kind`]), and 128 where there is an id | 1 |
//! | which of the following there are, one bit each from 1 on, in this order | 1 |
//! | rule; country, city, user agent, referrer, language (texts); UTM parameters (5 texts); visitor | 1 to 10 each, the last one 8 |
//! | id | 16 |
//!
//! Texts are named by their number, from 1 on; 0 is the empty one.

use super::bounded;
use crate::error::RecordError;
use crate::varint;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// The most events in one batch.
pub const MAX_EVENTS: usize = 16_384;

/// The most bytes of texts in one batch, and the most of events, as [`EventsBuilder`] makes them.
pub const MAX_PART_BYTES: usize = 512 << 10;

/// The longest text in bytes; longer ones are cut off.
pub const MAX_TEXT: usize = 512;

/// The number of UTM parameters.
pub const UTM: usize = 5;

/// What was asked for, and what it was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A redirect with that status.
    Redirect(RedirectStatus),
    /// No redirect: an orphan visit.
    Orphan(OrphanKind),
}

/// What an orphan visit asked for, in the words of Shlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrphanKind {
    /// The root of a domain.
    BaseUrl,
    /// A path like that of a link, which is none.
    InvalidShortUrl,
    /// Any other path.
    Regular404,
}

use crate::record::RedirectStatus;

/// A click, or an orphan visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<T> {
    /// The link key, `{domain}/{code}`; of an orphan visit the domain and the path.
    pub key: T,
    /// Unix time in seconds on the clock of the process that counts.
    pub at: u64,
    /// What became of it.
    pub kind: Kind,
    /// The priority of the rule that matched, from 1 on; 0 for none.
    pub rule: u8,
    /// What is known of the visitor.
    pub attributes: Attributes<T>,
    /// The token of the visitor on that day; `None` if it is not known.
    pub visitor: Option<u64>,
    /// The id that the link's target was given, for conversions.
    pub id: Option<[u8; 16]>,
}

/// What headers and query say of a visitor; empty where they do not, or it is not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<T> {
    /// Two letters of ISO 3166-1, from a trusted header.
    pub country: T,
    /// From a trusted header.
    pub city: T,
    /// The header `User-Agent`.
    pub user_agent: T,
    /// The host of the header `Referer`.
    pub referrer: T,
    /// The first language of the header `Accept-Language`.
    pub language: T,
    /// The parameters `utm_source`, `utm_medium`, `utm_campaign`, `utm_term` and `utm_content` of the query.
    pub utm: [T; UTM],
}

const RULE: u8 = 1;
const COUNTRY: u8 = 2;
const CITY: u8 = 4;
const USER_AGENT: u8 = 8;
const REFERRER: u8 = 16;
const LANGUAGE: u8 = 32;
const UTMS: u8 = 64;
const VISITOR: u8 = 128;

/// The bit in the byte of the kind that says that there is an id.
const HAS_ID: u8 = 128;

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Redirect(RedirectStatus::MovedPermanently) => 0,
            Self::Redirect(RedirectStatus::Found) => 1,
            Self::Redirect(RedirectStatus::TemporaryRedirect) => 2,
            Self::Redirect(RedirectStatus::PermanentRedirect) => 3,
            Self::Orphan(OrphanKind::BaseUrl) => 4,
            Self::Orphan(OrphanKind::InvalidShortUrl) => 5,
            Self::Orphan(OrphanKind::Regular404) => 6,
        }
    }

    fn of_byte(byte: u8) -> Result<Self, RecordError> {
        Ok(match byte {
            0 => Self::Redirect(RedirectStatus::MovedPermanently),
            1 => Self::Redirect(RedirectStatus::Found),
            2 => Self::Redirect(RedirectStatus::TemporaryRedirect),
            3 => Self::Redirect(RedirectStatus::PermanentRedirect),
            4 => Self::Orphan(OrphanKind::BaseUrl),
            5 => Self::Orphan(OrphanKind::InvalidShortUrl),
            6 => Self::Orphan(OrphanKind::Regular404),
            _ => return Err(RecordError::Field("kind")),
        })
    }
}

/// Encodes events as they happen, without an allocation for those whose texts came before.
#[derive(Debug)]
pub struct EventsBuilder<S> {
    first: u64,
    numbers: HashMap<Box<[u8]>, u64, S>,
    texts: Vec<u8>,
    events: Vec<u8>,
    count: usize,
    clicks: u64,
}

/// Encoded events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes; empty for no events.
    pub bytes: Vec<u8>,
    /// How many of them are clicks, and not orphan visits.
    pub clicks: u64,
}

impl<S: BuildHasher> EventsBuilder<S> {
    /// A builder without events.
    pub fn new(hasher: S) -> Self {
        Self {
            first: 0,
            numbers: HashMap::with_hasher(hasher),
            texts: Vec::new(),
            events: Vec::new(),
            count: 0,
            clicks: 0,
        }
    }

    /// Adds an event. Texts that are no UTF-8 are left out, and long ones cut off. `false`, and it is not added, if there is no
    /// room: then [`EventsBuilder::take`] makes it.
    pub fn push(&mut self, event: &Event<&[u8]>) -> bool {
        if self.count >= MAX_EVENTS
            || self.texts.len() >= MAX_PART_BYTES
            || self.events.len() >= MAX_PART_BYTES
        {
            return false;
        }
        if self.count == 0 {
            self.first = event.at;
        }
        let key = self.number(event.key);
        varint::write(key, &mut self.events);
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
        let attributes = &event.attributes;
        for (bit, text) in [
            (COUNTRY, attributes.country),
            (CITY, attributes.city),
            (USER_AGENT, attributes.user_agent),
            (REFERRER, attributes.referrer),
            (LANGUAGE, attributes.language),
        ] {
            if !text.is_empty() {
                has |= bit;
                let number = self.number(text);
                varint::write(number, &mut self.events);
            }
        }
        if attributes.utm.iter().any(|text| !text.is_empty()) {
            has |= UTMS;
            for text in attributes.utm {
                let number = self.number(text);
                varint::write(number, &mut self.events);
            }
        }
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
        self.count += 1;
        self.clicks += u64::from(matches!(event.kind, Kind::Redirect(_)));
        true
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes that the events take so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.texts.len() + self.events.len()
    }

    /// Encodes what was added, and starts again.
    pub fn take(&mut self) -> Encoded {
        if self.count == 0 {
            return Encoded::default();
        }
        let mut bytes = Vec::with_capacity(self.bytes() + 3 * varint::MOST_BYTES);
        varint::write(self.first, &mut bytes);
        varint::write(self.numbers.len() as u64, &mut bytes);
        bytes.append(&mut self.texts);
        varint::write(self.count as u64, &mut bytes);
        bytes.append(&mut self.events);
        self.numbers.clear();
        self.count = 0;
        Encoded {
            bytes,
            clicks: std::mem::take(&mut self.clicks),
        }
    }

    fn number(&mut self, text: &[u8]) -> u64 {
        let text = text.get(..MAX_TEXT).unwrap_or(text);
        if text.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.add(text)
    }

    #[cold]
    fn add(&mut self, text: &[u8]) -> u64 {
        let text = match std::str::from_utf8(text) {
            Ok(text) => text.as_bytes(),
            // Cut off within a character.
            Err(error) if error.error_len().is_none() => {
                text.get(..error.valid_up_to()).unwrap_or_default()
            }
            Err(_) => &[],
        };
        if text.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.into(), number);
        varint::write_bytes(text, &mut self.texts);
        number
    }
}

/// Events that are read one after another.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    first: u64,
    texts: Vec<&'a str>,
    left: usize,
    input: &'a [u8],
}

impl<'a> Events<'a> {
    /// Reads the texts. No bytes are no events.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut input = bytes;
        if bytes.is_empty() {
            return Ok(Self {
                first: 0,
                texts: Vec::new(),
                left: 0,
                input,
            });
        }
        let first = varint::read(&mut input)?;
        let count = bounded("texts", varint::read(&mut input)?, bytes.len())?;
        let texts = (0..count).map(|_| varint::read_text(&mut input, "text"));
        let texts = texts.collect::<Result<_, _>>()?;
        let left = bounded("events", varint::read(&mut input)?, MAX_EVENTS)?;
        Ok(Self {
            first,
            texts,
            left,
            input,
        })
    }

    /// The texts, in the order of their numbers, the first of which is 1.
    #[must_use]
    pub fn texts(&self) -> &[&'a str] {
        &self.texts
    }

    fn text(&mut self) -> Result<&'a str, RecordError> {
        let number = varint::read(&mut self.input)?;
        let Some(index) = number.checked_sub(1) else {
            return Ok("");
        };
        let text = usize::try_from(index)
            .ok()
            .and_then(|index| self.texts.get(index));
        text.copied().ok_or(RecordError::Field("text"))
    }

    fn event(&mut self) -> Result<Event<&'a str>, RecordError> {
        let key = self.text()?;
        let after = varint::read(&mut self.input)?;
        let at = self
            .first
            .checked_add(after)
            .ok_or(RecordError::Field("at"))?;
        let [kind, has] = varint::read_array(&mut self.input)?;
        let rule = match has & RULE {
            0 => 0,
            _ => u8::try_from(varint::read(&mut self.input)?)
                .map_err(|_| RecordError::Field("rule"))?,
        };
        let mut texts = [""; 5];
        for (bit, text) in [COUNTRY, CITY, USER_AGENT, REFERRER, LANGUAGE]
            .into_iter()
            .zip(&mut texts)
        {
            if has & bit != 0 {
                *text = self.text()?;
            }
        }
        let [country, city, user_agent, referrer, language] = texts;
        let mut utm = [""; UTM];
        if has & UTMS != 0 {
            for text in &mut utm {
                *text = self.text()?;
            }
        }
        let visitor = match has & VISITOR {
            0 => None,
            _ => Some(u64::from_le_bytes(varint::read_array(&mut self.input)?)),
        };
        let id = match kind & HAS_ID {
            0 => None,
            _ => Some(varint::read_array(&mut self.input)?),
        };
        Ok(Event {
            key,
            at,
            kind: Kind::of_byte(kind & !HAS_ID)?,
            rule,
            attributes: Attributes {
                country,
                city,
                user_agent,
                referrer,
                language,
                utm,
            },
            visitor,
            id,
        })
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<&'a str>, RecordError>;

    /// The next event. After an error there are no more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let rest = std::mem::take(&mut self.input);
            return (!rest.is_empty()).then_some(Err(RecordError::Trailing));
        }
        self.left -= 1;
        let event = self.event();
        if event.is_err() {
            self.left = 0;
            self.input = &[];
        }
        Some(event)
    }
}
