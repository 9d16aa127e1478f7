//! Records: links outside of the database, and their compact encoding for the caches.
//!
//! Layout of version 1, numbers as unsigned LEB128:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | flags: bits 0 and 1 redirect (0 = 302, 1 = 301, 2 = 307, 3 = 308), 2 disabled, 3 forward query, 4 has valid-since, 5 has valid-until, 6 has an extension, 7 absent |
//! | 1..=10 | rev |
//! | 0..=10 | valid-since, unix seconds |
//! | 0..=10 | valid-until, unix seconds |
//! | 0..=[`MAX_EXTENSION_LENGTH`] | the [`Extension`], behind its length |
//! | rest | the target, visible ASCII; empty for an absent record |

mod bytes;
pub(crate) mod domain_targets;
mod extension;
mod status;

pub use bytes::{RecordBytes, RecordKind};
pub use domain_targets::{DomainTargets, MAX_DOMAIN_TARGET_LENGTH};
pub use extension::{Extension, MAX_EXTENSION_LENGTH};
pub use status::{LinkState, LinkStateError, RedirectStatus};

use crate::error::RecordError;
use crate::target::{self, MAX_URL_LENGTH};
use crate::varint;

const VERSION: u8 = 1;
const DISABLED: u8 = 0b0000_0100;
const FORWARD_QUERY: u8 = 0b0000_1000;
const HAS_VALID_SINCE: u8 = 0b0001_0000;
const HAS_VALID_UNTIL: u8 = 0b0010_0000;
const HAS_EXTENSION: u8 = 0b0100_0000;
const ABSENT: u8 = 0b1000_0000;

/// The most bytes of an encoded record in front of the target, without the extension.
const MOST_BEFORE_URL: usize = 2 + 4 * varint::MOST_BYTES;

/// The longest encoded record, in bytes.
pub const MAX_RECORD_LENGTH: usize = MOST_BEFORE_URL + MAX_EXTENSION_LENGTH + MAX_URL_LENGTH;

/// Storage of a record's target and other fields of variable size: borrowed or owned.
pub trait Holding {
    /// Bytes in the same kind of storage.
    type Bytes;
}

impl<'a, T: ?Sized> Holding for &'a T {
    type Bytes = &'a [u8];
}

impl Holding for String {
    type Bytes = Vec<u8>;
}

/// A link as the edge needs it. `U` is the target: borrowed (`&str`) from an encoded record, or owned (`String`); `B` are bytes in
/// the same kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRecord<U, B = <U as Holding>::Bytes> {
    /// The target: visible ASCII, 1 to [`MAX_URL_LENGTH`] bytes.
    pub url: U,
    /// The status code of the redirect.
    pub redirect: RedirectStatus,
    /// Active or disabled.
    pub state: LinkState,
    /// The first second (unix time) in which the link redirects.
    pub valid_since: Option<u64>,
    /// The first second (unix time) in which the link no longer redirects.
    pub valid_until: Option<u64>,
    /// True if the visitor's query is merged into the target's.
    pub forward_query: bool,
    /// Grows with every change of this link.
    pub rev: u64,
    /// Rarely used properties: an encoded [`Extension`], or empty.
    pub extension: B,
}

/// A record: a link, or its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<U, B = <U as Holding>::Bytes> {
    /// There is no such link. `rev` is the revision of the deletion, or 0 if it never existed.
    Absent {
        /// See [`LinkRecord::rev`].
        rev: u64,
    },
    /// There is a link.
    Link(LinkRecord<U, B>),
}

impl<U, B> Record<U, B> {
    /// The revision, which is higher in newer records.
    #[must_use]
    pub fn rev(&self) -> u64 {
        match self {
            Self::Absent { rev } => *rev,
            Self::Link(link) => link.rev,
        }
    }
}

impl<U: AsRef<str>, B: AsRef<[u8]>> Record<U, B> {
    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        match self {
            Self::Absent { rev } => {
                out.push(ABSENT);
                varint::write(*rev, out);
            }
            Self::Link(link) => link.encode(out),
        }
    }

    /// The encoding.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.max_length());
        self.encode(&mut out);
        out
    }

    /// Upper bound of the length of the encoding.
    #[must_use]
    pub fn max_length(&self) -> usize {
        let rest = match self {
            Self::Absent { .. } => 0,
            Self::Link(link) => link.url.as_ref().len() + link.extension.as_ref().len(),
        };
        MOST_BEFORE_URL + rest
    }

    /// Borrows the record.
    #[must_use]
    pub fn as_deref(&self) -> Record<&str> {
        match self {
            Self::Absent { rev } => Record::Absent { rev: *rev },
            Self::Link(link) => {
                Record::Link(link.held_as(link.url.as_ref(), link.extension.as_ref()))
            }
        }
    }

    /// Borrows the record, with its target as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> Record<&[u8]> {
        match self {
            Self::Absent { rev } => Record::Absent { rev: *rev },
            Self::Link(link) => {
                let url = link.url.as_ref().as_bytes();
                Record::Link(link.held_as(url, link.extension.as_ref()))
            }
        }
    }

    /// Copies the record into owned storage.
    #[must_use]
    pub fn to_owned_record(&self) -> Record<String> {
        match self {
            Self::Absent { rev } => Record::Absent { rev: *rev },
            Self::Link(link) => {
                let url = link.url.as_ref().to_owned();
                Record::Link(link.held_as(url, link.extension.as_ref().to_vec()))
            }
        }
    }
}

impl<'a> Record<&'a str> {
    /// Reads a record that takes up all of `bytes`; the target is borrowed from there.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong. An unknown version or an unknown extension is an error, so that an older edge
    /// asks the next tier instead of guessing.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let record = read(bytes, target::decode)?;
        if let Record::Link(link) = &record
            && !link.extension.is_empty()
        {
            Extension::decode(link.extension)?;
        }
        Ok(record)
    }
}

impl<'a> Record<&'a [u8]> {
    /// Reads a record that [`Record::decode`] has accepted before: target and extension are not validated again, which takes most
    /// of the time. For caches, whose records were decoded before.
    ///
    /// # Errors
    /// All those of [`Record::decode`] except [`RecordError::Url`].
    #[inline(always)]
    pub fn decode_again(bytes: &'a [u8]) -> Result<Self, RecordError> {
        read(bytes, Ok)
    }
}

/// True if an encoded record that was decoded before has an [`Extension`]; a fast check without decoding.
#[must_use]
#[inline(always)]
pub fn has_extension(bytes: &[u8]) -> bool {
    bytes
        .get(1)
        .is_some_and(|flags| flags & (HAS_EXTENSION | ABSENT) == HAS_EXTENSION)
}

#[inline(always)]
fn read<'a, U: Holding<Bytes = &'a [u8]>>(
    mut bytes: &'a [u8],
    target: impl FnOnce(&'a [u8]) -> Result<U, RecordError>,
) -> Result<Record<U>, RecordError> {
    let input = &mut bytes;
    let version = take(input)?;
    if version != VERSION {
        return Err(RecordError::Version(version));
    }
    let flags = take(input)?;
    if flags & ABSENT != 0 && flags != ABSENT {
        return Err(RecordError::Flags(flags));
    }
    let rev = varint::read(input)?;
    if flags == ABSENT {
        return if input.is_empty() {
            Ok(Record::Absent { rev })
        } else {
            Err(RecordError::Trailing)
        };
    }
    Ok(Record::Link(LinkRecord {
        redirect: RedirectStatus::from_bits(flags),
        state: if flags & DISABLED == 0 {
            LinkState::Active
        } else {
            LinkState::Disabled
        },
        forward_query: flags & FORWARD_QUERY != 0,
        rev,
        valid_since: optional(flags & HAS_VALID_SINCE != 0, input)?,
        valid_until: optional(flags & HAS_VALID_UNTIL != 0, input)?,
        extension: if flags & HAS_EXTENSION == 0 {
            &[]
        } else {
            extension(input)?
        },
        url: target(input)?,
    }))
}

impl<U: Holding<Bytes: Default>> LinkRecord<U> {
    /// A link with the defaults: 302, active, no validity limits, query forwarding, and no extension.
    #[must_use]
    pub fn ordinary(url: U, rev: u64) -> Self {
        Self {
            url,
            redirect: RedirectStatus::Found,
            state: LinkState::Active,
            valid_since: None,
            valid_until: None,
            forward_query: true,
            rev,
            extension: U::Bytes::default(),
        }
    }
}

impl<U, B> LinkRecord<U, B> {
    /// Converts the storage of target and extension.
    pub(crate) fn held_as<V: Holding>(&self, url: V, extension: V::Bytes) -> LinkRecord<V> {
        LinkRecord {
            extension,
            url,
            redirect: self.redirect,
            state: self.state,
            valid_since: self.valid_since,
            valid_until: self.valid_until,
            forward_query: self.forward_query,
            rev: self.rev,
        }
    }
}

impl<U: AsRef<str>, B: AsRef<[u8]>> LinkRecord<U, B> {
    fn flags(&self) -> u8 {
        let when = |is_set, flag| if is_set { flag } else { 0 };
        self.redirect.bits()
            | when(self.state == LinkState::Disabled, DISABLED)
            | when(self.forward_query, FORWARD_QUERY)
            | when(self.valid_since.is_some(), HAS_VALID_SINCE)
            | when(self.valid_until.is_some(), HAS_VALID_UNTIL)
            | when(!self.extension.as_ref().is_empty(), HAS_EXTENSION)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.flags());
        varint::write(self.rev, out);
        for time in [self.valid_since, self.valid_until].into_iter().flatten() {
            varint::write(time, out);
        }
        let extension = self.extension.as_ref();
        if !extension.is_empty() {
            varint::write_bytes(extension, out);
        }
        out.extend_from_slice(self.url.as_ref().as_bytes());
    }
}

fn take(input: &mut &[u8]) -> Result<u8, RecordError> {
    let (first, rest) = input.split_first().ok_or(RecordError::Truncated)?;
    *input = rest;
    Ok(*first)
}

fn optional(is_set: bool, input: &mut &[u8]) -> Result<Option<u64>, RecordError> {
    is_set.then(|| varint::read(input)).transpose()
}

/// The extension, undecoded.
#[cold]
fn extension<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], RecordError> {
    match varint::read_bytes(input)? {
        [] => Err(RecordError::Field("extension")),
        extension => Ok(extension),
    }
}

/// A record together with its key: the content of a shared-data slot, and of an answer of the edge API. The key is included
/// because neither a slot nor the answer to a callout can be trusted to belong to the requested key.
///
/// Layout: length of the key as unsigned LEB128, the key, the record up to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// `{domain}/{code}`.
    pub key: &'a [u8],
    /// Its record.
    pub record: Record<&'a str, &'a [u8]>,
}

impl<'a> Entry<'a> {
    /// The media type of an encoded entry.
    pub const MEDIA_TYPE: &'static str = "application/vnd.edgelink.entry";

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::write_bytes(self.key, out);
        self.record.encode(out);
    }

    /// Appends the encoding of a key and an encoded record to `out`; [`Self::split`] takes them apart again.
    pub fn join(key: &[u8], record: &[u8], out: &mut Vec<u8>) {
        varint::write_bytes(key, out);
        out.extend_from_slice(record);
    }

    /// Reads an entry that takes up all of `bytes`.
    ///
    /// # Errors
    /// The errors of [`Record::decode`], and those of a malformed key.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let (key, record) = Self::split(bytes)?;
        Ok(Self {
            key,
            record: Record::decode(record)?,
        })
    }

    /// Splits an encoded entry into its key and its encoded record, which is not decoded: for caches, which keep records encoded.
    ///
    /// # Errors
    /// [`RecordError::Truncated`] or [`RecordError::Number`].
    pub fn split(mut bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), RecordError> {
        let length = varint::read(&mut bytes)?;
        let length = usize::try_from(length).map_err(|_| RecordError::Truncated)?;
        bytes.split_at_checked(length).ok_or(RecordError::Truncated)
    }
}

/// The answer to a lookup of a key at the control plane (`GET /edge/v1/links/{key}`): its age in milliseconds as a number,
/// then the [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAnswer<'a> {
    /// Upper bound of the age of the record when the answer was made, in milliseconds; 0 if it comes from the database.
    pub age_millis: u64,
    /// `{domain}/{code}`.
    pub key: &'a [u8],
    /// The encoded record.
    pub record: &'a [u8],
}

impl<'a> LinkAnswer<'a> {
    /// The media type of an encoded answer.
    pub const MEDIA_TYPE: &'static str = "application/vnd.edgelink.answer";

    /// The encoded answer.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::write(self.age_millis, &mut out);
        Entry::join(self.key, self.record, &mut out);
        out
    }

    /// Splits an answer into its parts. The record is not decoded: caches keep it encoded.
    ///
    /// # Errors
    /// [`RecordError::Truncated`] or [`RecordError::Number`].
    pub fn split(mut bytes: &'a [u8]) -> Result<Self, RecordError> {
        let age_millis = varint::read(&mut bytes)?;
        let (key, record) = Entry::split(bytes)?;
        Ok(Self {
            age_millis,
            key,
            record,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
