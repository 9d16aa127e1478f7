//! Events: single clicks with their attributes, which a batch carries beside its counts.
//!
//! Layout, numbers as unsigned LEB128, texts behind their length: the first second, the number of texts, the texts, the number
//! of events, and each event as
//!
//! | what | bytes |
//! |---|---|
//! | text of the link key or the path, seconds since the first one | 2 numbers |
//! | kind ([`Kind`]), and 128 where there is an id | 1 |
//! | flags of the following fields that are present, one bit each from 1 on, in this order | 1 |
//! | rule; country, city, user agent, referrer, language (texts); UTM parameters (5 texts); visitor | 1 to 10 each, the last one 8 |
//! | id | 16 |
//!
//! Texts are referred to by their number, from 1 on; 0 is the empty text.

mod builder;

pub use builder::{Encoded, EventsBuilder, MIN_BUILDER_BYTES};

use super::bounded;
use crate::error::RecordError;
use crate::record::RedirectStatus;
use crate::varint;

/// The most events in one batch.
pub const MAX_EVENTS: usize = 16_384;

/// The most bytes of all events in a batch, including texts, as encoded by [`EventsBuilder`].
pub const MAX_BYTES: usize = 1 << 20;

/// The longest text in bytes.
pub const MAX_TEXT: usize = 512;

/// The number of UTM parameters.
pub const UTM: usize = 5;

/// The kind of an event: redirect or orphan visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A redirect with this status.
    Redirect(RedirectStatus),
    /// No redirect: an orphan visit.
    Orphan(OrphanKind),
}

/// The path an orphan visit requested, by Shlink's classification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrphanKind {
    /// The root of a domain.
    BaseUrl,
    /// A path with the shape of a link that does not exist.
    InvalidShortUrl,
    /// Any other path.
    Regular404,
}

/// A click, or an orphan visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<T> {
    /// The link key, `{domain}/{code}`; of an orphan visit the domain and the path.
    pub key: T,
    /// Unix time in seconds on the clock of the process that counts.
    pub at: u64,
    /// Its outcome.
    pub kind: Kind,
    /// The priority of the rule that matched, from 1 on; 0 for none.
    pub rule: u8,
    /// The attributes of the visitor.
    pub attributes: Attributes<T>,
    /// The token of the visitor on that day; `None` if it is not known.
    pub visitor: Option<u64>,
    /// The id passed to the link's target, for conversions.
    pub id: Option<[u8; 16]>,
}

/// Attributes of a visitor from headers and query; empty where they are missing or not configured.
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

/// The bit in the byte of the kind that is set if there is an id.
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

/// An iterator over encoded events.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    first: u64,
    texts: Vec<&'a str>,
    left: usize,
    input: &'a [u8],
}

impl<'a> Events<'a> {
    /// Reads the texts. Empty bytes mean no events.
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
        let texts = (0..count).map(|_| read_text(&mut input));
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

    /// Number of events left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// The next event, with the numbers of its texts, all of which are in [`Events::texts`] except 0, the empty text. After an
    /// error there are no more.
    pub fn next_numbered(&mut self) -> Option<Result<Event<u32>, RecordError>> {
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

    fn text(&self, number: u32) -> &'a str {
        let index = (number as usize).checked_sub(1);
        let text = index.and_then(|index| self.texts.get(index));
        text.copied().unwrap_or_default()
    }

    fn number(&mut self) -> Result<u32, RecordError> {
        let number = varint::read(&mut self.input)?;
        if number <= self.texts.len() as u64 {
            Ok(number as u32)
        } else {
            Err(RecordError::Field("text"))
        }
    }

    fn event(&mut self) -> Result<Event<u32>, RecordError> {
        let key = self.number()?;
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
        let mut texts = [0; 5];
        for (bit, text) in [COUNTRY, CITY, USER_AGENT, REFERRER, LANGUAGE]
            .into_iter()
            .zip(&mut texts)
        {
            if has & bit != 0 {
                *text = self.number()?;
            }
        }
        let [country, city, user_agent, referrer, language] = texts;
        let mut utm = [0; UTM];
        if has & UTMS != 0 {
            for text in &mut utm {
                *text = self.number()?;
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

fn read_text<'a>(input: &mut &'a [u8]) -> Result<&'a str, RecordError> {
    let text = varint::read_text(input, "text")?;
    if text.len() <= MAX_TEXT {
        Ok(text)
    } else {
        Err(RecordError::Field("text"))
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<&'a str>, RecordError>;

    /// The next event. After an error there are no more.
    fn next(&mut self) -> Option<Self::Item> {
        let event = self.next_numbered()?;
        Some(event.map(|event| event.map(|number| self.text(number))))
    }
}

impl<T> Event<T> {
    /// Replaces each text by the result of `text`.
    pub fn map<U>(self, mut text: impl FnMut(T) -> U) -> Event<U> {
        let Attributes {
            country,
            city,
            user_agent,
            referrer,
            language,
            utm,
        } = self.attributes;
        Event {
            key: text(self.key),
            at: self.at,
            kind: self.kind,
            rule: self.rule,
            attributes: Attributes {
                country: text(country),
                city: text(city),
                user_agent: text(user_agent),
                referrer: text(referrer),
                language: text(language),
                utm: utm.map(text),
            },
            visitor: self.visitor,
            id: self.id,
        }
    }
}

#[cfg(test)]
mod tests;
