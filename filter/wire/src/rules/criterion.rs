//! A condition in the form used for evaluation.
//!
//! | type | bytes behind its number |
//! |---|---|
//! | device, browser | the number of the word |
//! | language, city | the text behind its length |
//! | query-param | name and value, each behind its length |
//! | any-value-query-param, valueless-query-param | the name behind its length |
//! | ip-address | see [`AddressPattern::encode`] |
//! | country | two letters, upper case |
//! | before-date, after-date | unix seconds, LEB128 |
//! | weight | per cent |

use super::address::AddressPattern;
use super::language;
use super::words::{Browser, ConditionType, Device};
use super::written::{Condition, MAX_TEXT_LENGTH};
use crate::error::RecordError;
use crate::varint;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A condition with borrowed texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Criterion<'a> {
    Device(Device),
    Language(&'a [u8]),
    QueryParam {
        name: &'a [u8],
        value: &'a [u8],
    },
    AnyValueQueryParam(&'a [u8]),
    ValuelessQueryParam(&'a [u8]),
    IpAddress(AddressPattern),
    Country([u8; 2]),
    City(&'a [u8]),
    /// Unix seconds.
    BeforeDate(u64),
    /// Unix seconds.
    AfterDate(u64),
    Browser(Browser),
    /// Per cent, 1 to 99.
    Weight(u8),
}

/// An error in a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The field in JSON's spelling.
    pub(super) field: &'static str,
    pub(super) reason: &'static str,
}

const KEY: &str = "matchKey";
const VALUE: &str = "matchValue";

/// An error in the value.
fn value_must(reason: &'static str) -> Refusal {
    let field = VALUE;
    Refusal { field, reason }
}

impl<'a> Criterion<'a> {
    /// Reads a condition.
    ///
    /// # Errors
    /// Every error in the condition.
    pub(super) fn of(condition: &'a Condition) -> Result<Self, Vec<Refusal>> {
        let texts = ConditionTexts(condition);
        match condition.kind {
            ConditionType::QueryParam => match (texts.name(), texts.parameter_value()) {
                (Ok(name), Ok(value)) => Ok(Self::QueryParam { name, value }),
                (name, value) => Err(name.err().into_iter().chain(value.err()).collect()),
            },
            ConditionType::AnyValueQueryParam | ConditionType::ValuelessQueryParam => {
                match (texts.name(), texts.no_value()) {
                    (Ok(name), Ok(())) if condition.kind == ConditionType::AnyValueQueryParam => {
                        Ok(Self::AnyValueQueryParam(name))
                    }
                    (Ok(name), Ok(())) => Ok(Self::ValuelessQueryParam(name)),
                    (name, value) => Err(name.err().into_iter().chain(value.err()).collect()),
                }
            }
            _ => match (
                texts.no_key(),
                Self::of_value(condition.kind, texts.value()),
            ) {
                (Ok(()), Ok(criterion)) => Ok(criterion),
                (key, criterion) => Err(key.err().into_iter().chain(criterion.err()).collect()),
            },
        }
    }

    /// Reads a condition that has a value and no key.
    fn of_value(kind: ConditionType, value: &'a str) -> Result<Self, Refusal> {
        let read = match kind {
            ConditionType::Device => Device::named(value).map(Self::Device),
            ConditionType::Browser => Browser::named(value).map(Self::Browser),
            ConditionType::Language => {
                let is_one = value.len() <= MAX_TEXT_LENGTH && language::is_language(value);
                is_one.then_some(Self::Language(value.as_bytes()))
            }
            ConditionType::IpAddress => AddressPattern::parse(value).map(Self::IpAddress),
            ConditionType::Country => country(value).map(Self::Country),
            ConditionType::City => is_line(value).then_some(Self::City(value.as_bytes())),
            ConditionType::BeforeDate => unix_seconds(value).map(Self::BeforeDate),
            ConditionType::AfterDate => unix_seconds(value).map(Self::AfterDate),
            ConditionType::Weight => per_cent(value).map(Self::Weight),
            // These have a key.
            ConditionType::QueryParam
            | ConditionType::AnyValueQueryParam
            | ConditionType::ValuelessQueryParam => None,
        };
        read.ok_or_else(|| value_must(must(kind)))
    }

    fn kind(&self) -> ConditionType {
        match self {
            Self::Device(_) => ConditionType::Device,
            Self::Language(_) => ConditionType::Language,
            Self::QueryParam { .. } => ConditionType::QueryParam,
            Self::AnyValueQueryParam(_) => ConditionType::AnyValueQueryParam,
            Self::ValuelessQueryParam(_) => ConditionType::ValuelessQueryParam,
            Self::IpAddress(_) => ConditionType::IpAddress,
            Self::Country(_) => ConditionType::Country,
            Self::City(_) => ConditionType::City,
            Self::BeforeDate(_) => ConditionType::BeforeDate,
            Self::AfterDate(_) => ConditionType::AfterDate,
            Self::Browser(_) => ConditionType::Browser,
            Self::Weight(_) => ConditionType::Weight,
        }
    }

    /// Appends the encoding.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind().number());
        match self {
            Self::Device(device) => out.push(device.number()),
            Self::Browser(browser) => out.push(browser.number()),
            Self::Weight(per_cent) => out.push(*per_cent),
            Self::QueryParam { name, value } => {
                varint::write_bytes(name, out);
                varint::write_bytes(value, out);
            }
            Self::Language(text)
            | Self::AnyValueQueryParam(text)
            | Self::ValuelessQueryParam(text)
            | Self::City(text) => varint::write_bytes(text, out),
            Self::IpAddress(pattern) => pattern.encode(out),
            Self::Country(letters) => out.extend_from_slice(letters),
            Self::BeforeDate(seconds) | Self::AfterDate(seconds) => varint::write(*seconds, out),
        }
    }

    /// Takes an encoded condition off the front of `input`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong; an unknown type is an error too.
    pub(super) fn decode(input: &mut &'a [u8]) -> Result<Self, RecordError> {
        const MALFORMED: RecordError = RecordError::Field("condition");
        let [number] = varint::read_array(input)?;
        let byte = |input: &mut &[u8]| varint::read_array(input).map(|[byte]| byte);
        Ok(match ConditionType::numbered(number).ok_or(MALFORMED)? {
            ConditionType::Device => Self::Device(Device::numbered(byte(input)?).ok_or(MALFORMED)?),
            ConditionType::Browser => {
                Self::Browser(Browser::numbered(byte(input)?).ok_or(MALFORMED)?)
            }
            ConditionType::Weight => match byte(input)? {
                per_cent @ 1..=99 => Self::Weight(per_cent),
                _ => return Err(MALFORMED),
            },
            ConditionType::Language => Self::Language(text(input)?),
            ConditionType::QueryParam => Self::QueryParam {
                name: text(input)?,
                value: text(input)?,
            },
            ConditionType::AnyValueQueryParam => Self::AnyValueQueryParam(text(input)?),
            ConditionType::ValuelessQueryParam => Self::ValuelessQueryParam(text(input)?),
            ConditionType::City => Self::City(text(input)?),
            ConditionType::IpAddress => Self::IpAddress(AddressPattern::decode(input)?),
            ConditionType::Country => Self::Country(varint::read_array(input)?),
            ConditionType::BeforeDate => Self::BeforeDate(varint::read(input)?),
            ConditionType::AfterDate => Self::AfterDate(varint::read(input)?),
        })
    }
}

fn text<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], RecordError> {
    let text = varint::read_bytes(input)?;
    if (1..=MAX_TEXT_LENGTH).contains(&text.len()) {
        Ok(text)
    } else {
        Err(RecordError::Field("condition"))
    }
}

/// The requirement on the value of a condition.
fn must(kind: ConditionType) -> &'static str {
    match kind {
        ConditionType::Device => {
            "must be android, ios, mobile, windows, macos, linux, chromeos or desktop"
        }
        ConditionType::Browser => "must be chrome, firefox, edge, safari, opera or android_browser",
        ConditionType::Language => "must be a language as in RFC 5646, for example en or en-GB",
        ConditionType::IpAddress => {
            "must be an address, a CIDR block, or an IPv4 address with * for some of its numbers"
        }
        ConditionType::Country => "must be a country code of two letters (ISO 3166-1)",
        ConditionType::BeforeDate | ConditionType::AfterDate => TIME,
        ConditionType::Weight => "must be a share in per cent, 1 to 99",
        ConditionType::City
        | ConditionType::QueryParam
        | ConditionType::AnyValueQueryParam
        | ConditionType::ValuelessQueryParam => LINE,
    }
}

/// The requirement on a time.
pub(crate) const TIME: &str =
    "must be a time of 1970 or later as in RFC 3339, for example 2030-12-31T23:59:59Z";

const LINE: &str = "must be 1 to 255 bytes without control characters";

/// The texts of a condition.
struct ConditionTexts<'a>(&'a Condition);

impl<'a> ConditionTexts<'a> {
    fn value(&self) -> &'a str {
        self.0.match_value.as_deref().unwrap_or_default()
    }

    /// The name of a parameter.
    fn name(&self) -> Result<&'a [u8], Refusal> {
        let key = self.0.match_key.as_deref().unwrap_or_default();
        is_line(key).then_some(key.as_bytes()).ok_or(Refusal {
            field: KEY,
            reason: LINE,
        })
    }

    fn parameter_value(&self) -> Result<&'a [u8], Refusal> {
        let value = self.value();
        is_line(value)
            .then_some(value.as_bytes())
            .ok_or_else(|| value_must(LINE))
    }

    /// Refuses a value other than null or an empty text.
    fn no_value(&self) -> Result<(), Refusal> {
        self.value()
            .is_empty()
            .then_some(())
            .ok_or_else(|| value_must("must be null for this type"))
    }

    fn no_key(&self) -> Result<(), Refusal> {
        let key = self.0.match_key.as_deref().unwrap_or_default();
        key.is_empty().then_some(()).ok_or(Refusal {
            field: KEY,
            reason: "must be null for this type",
        })
    }
}

fn is_line(text: &str) -> bool {
    (1..=MAX_TEXT_LENGTH).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn country(text: &str) -> Option<[u8; 2]> {
    let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
    let is_code = letters.iter().all(u8::is_ascii_alphabetic);
    is_code.then(|| letters.map(|letter| letter.to_ascii_uppercase()))
}

/// Parses an RFC 3339 time to unix seconds, truncating fractions; `None` if it is malformed, or before 1970.
pub(crate) fn unix_seconds(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp()).ok()
}

fn per_cent(text: &str) -> Option<u8> {
    let is_plain = text.starts_with(|first: char| matches!(first, '1'..='9'));
    let number = text.parse().ok().filter(|_| is_plain)?;
    (1..=99).contains(&number).then_some(number)
}
