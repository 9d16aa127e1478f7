//! Rules as encoded in records: each behind its length; in it the target behind its length, then the conditions up to the end. The
//! length permits skipping the rest of a rule that does not match.

use super::criterion::Criterion;
use super::written::{MAX_CONDITIONS, MAX_RULES};
use crate::error::RecordError;
use crate::target::is_target;
use crate::varint;

const MALFORMED: RecordError = RecordError::Field("rules");

/// Encoded rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules<'a>(&'a [u8]);

/// A rule among encoded ones.
#[derive(Clone, Copy)]
pub(super) struct EncodedRule<'a> {
    pub(super) target: &'a [u8],
    pub(super) criteria: Criteria<'a>,
}

/// The encoded conditions of a rule.
#[derive(Clone, Copy)]
pub(super) struct Criteria<'a>(&'a [u8]);

impl<'a> Rules<'a> {
    /// Reads rules that take up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong; a condition of an unknown type is an error too.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut input = bytes;
        let mut count = 0;
        while !input.is_empty() {
            check_rule(varint::read_bytes(&mut input)?)?;
            count += 1;
        }
        if (1..=MAX_RULES).contains(&count) {
            Ok(Self(bytes))
        } else {
            Err(MALFORMED)
        }
    }

    /// Wraps rules encoded by [`super::encode`]; `None` if there are none.
    #[must_use]
    pub fn of_encoded(bytes: &'a [u8]) -> Option<Self> {
        (!bytes.is_empty()).then_some(Self(bytes))
    }

    /// The encoding.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Wraps rules that were decoded before.
    pub(crate) fn decoded_before(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The rules in order. A malformed rule, which cannot occur after decoding, ends the iteration.
    pub(super) fn iter(self) -> impl Iterator<Item = EncodedRule<'a>> {
        let mut input = self.0;
        std::iter::from_fn(move || {
            let mut rule = varint::read_bytes(&mut input).ok()?;
            let target = varint::read_bytes(&mut rule).ok()?;
            let criteria = Criteria(rule);
            Some(EncodedRule { target, criteria })
        })
    }
}

fn check_rule(mut rule: &[u8]) -> Result<(), RecordError> {
    if !is_target(varint::read_bytes(&mut rule)?) {
        return Err(RecordError::Url);
    }
    let mut count = 0;
    while !rule.is_empty() {
        Criterion::decode(&mut rule)?;
        count += 1;
    }
    if (1..=MAX_CONDITIONS).contains(&count) {
        Ok(())
    } else {
        Err(MALFORMED)
    }
}

impl<'a> Iterator for Criteria<'a> {
    type Item = Criterion<'a>;

    fn next(&mut self) -> Option<Criterion<'a>> {
        Criterion::decode(&mut self.0).ok()
    }
}
