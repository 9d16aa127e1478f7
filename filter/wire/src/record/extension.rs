//! What few links have, in a part of the record of its own.
//!
//! An extension is a list of entries: the tag as a number, the length of the value, the value. Tags rise; each stands there once.
//! One that is not known is an error, so that an older edge asks the next tier instead of passing over what it does not know.
//!
//! | tag | value |
//! |---|---|
//! | 1 | rules, see [`crate::rules`] |
//! | 5 | the limit of visits, a number from 1; see [`crate::visits`] |
//!
//! The others up to 15 are kept for properties that are planned.

use crate::error::RecordError;
use crate::record::target::MAX_URL_LENGTH;
use crate::rules::{self, Rules};
use crate::varint;

const RULES: u64 = 1;
const MAX_VISITS: u64 = 5;

/// The most bytes of an extension: of rules, of one more target, and 256 for all else.
pub const MAX_EXTENSION_LENGTH: usize = rules::MAX_ENCODED_LENGTH + MAX_URL_LENGTH + 256;

const MALFORMED: RecordError = RecordError::Field("extension");

/// What few links have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The conditional targets; `None` without any.
    pub rules: Option<Rules<'a>>,
    /// How many visits the link has, at least 1; `None` without a limit.
    pub max_visits: Option<u64>,
}

impl<'a> Extension<'a> {
    /// The encoding; empty if the link has nothing of this.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(rules) = self.rules {
            varint::write(RULES, &mut out);
            varint::write_bytes(rules.as_bytes(), &mut out);
        }
        if let Some(max_visits) = self.max_visits {
            let mut value = Vec::new();
            varint::write(max_visits, &mut value);
            varint::write(MAX_VISITS, &mut out);
            varint::write_bytes(&value, &mut out);
        }
        out
    }

    /// Reads an extension that takes up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        if bytes.is_empty() || bytes.len() > MAX_EXTENSION_LENGTH {
            return Err(MALFORMED);
        }
        read(bytes, Rules::decode)
    }

    /// Reads an extension that was decoded before; empty bytes are an empty one.
    #[must_use]
    pub fn decode_again(bytes: &'a [u8]) -> Self {
        read(bytes, |bytes| Ok(Rules::decoded_before(bytes))).unwrap_or_default()
    }
}

fn read<'a>(
    bytes: &'a [u8],
    rules: impl Fn(&'a [u8]) -> Result<Rules<'a>, RecordError>,
) -> Result<Extension<'a>, RecordError> {
    let (mut input, mut last) = (bytes, 0);
    let mut extension = Extension::default();
    while !input.is_empty() {
        let tag = varint::read(&mut input)?;
        let value = varint::read_bytes(&mut input)?;
        match tag {
            tag if tag <= last => return Err(MALFORMED),
            RULES => extension.rules = Some(rules(value)?),
            MAX_VISITS => extension.max_visits = Some(max_visits(value)?),
            _ => return Err(MALFORMED),
        }
        last = tag;
    }
    Ok(extension)
}

fn max_visits(mut value: &[u8]) -> Result<u64, RecordError> {
    let max_visits = varint::read(&mut value)?;
    match (max_visits, value) {
        (1.., []) => Ok(max_visits),
        _ => Err(MALFORMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_version_of_ours_wrote_is_refused() {
        let rules: &[u8] = b"\x0b\x08http://a\x01\x01";
        let entry = |tag: u8, value: &[u8]| {
            let mut out = vec![tag];
            varint::write_bytes(value, &mut out);
            out
        };
        assert_eq!(
            Extension::decode(&entry(1, rules)).unwrap().to_bytes(),
            entry(1, rules)
        );
        let limited = [entry(1, rules), entry(5, b"\xe8\x07")].concat();
        let extension = Extension::decode(&limited).unwrap();
        assert_eq!(extension.max_visits, Some(1_000));
        assert_eq!(extension.to_bytes(), limited);
        for bytes in [
            Vec::new(),
            entry(0, rules),
            entry(2, b""),
            entry(1, b""),
            entry(1, &rules[1..]),
            [entry(1, rules), entry(1, rules)].concat(),
            [entry(1, rules), entry(16, b"")].concat(),
            entry(5, b""),
            entry(5, b"\x00"),
            entry(5, b"\x01\x01"),
            [entry(5, b"\x01"), entry(1, rules)].concat(),
            entry(1, rules)[..5].to_vec(),
            vec![1; MAX_EXTENSION_LENGTH + 1],
        ] {
            assert!(Extension::decode(&bytes).is_err(), "{bytes:?}");
            let _ = Extension::decode_again(&bytes);
        }
    }
}
