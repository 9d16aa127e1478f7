//! Short codes: their shape, the reserved words, and the mapping of numbers to codes.

use crate::base62::{self, CodeLength};
use crate::permutation::{Permutation, PermutationKey};
use std::fmt;
use std::str::FromStr;

/// The longest code or alias in bytes.
pub const MAX_CODE_LENGTH: usize = 64;

/// Words that cannot be the code of a link, in any case: paths that the edge or the control plane serve themselves, or that
/// clients request from every host.
pub const RESERVED_WORDS: &[&str] = &[
    ".well-known",
    "admin",
    "api",
    "apple-touch-icon.png",
    "assets",
    "console",
    "edge",
    "favicon.ico",
    "health",
    "healthz",
    "index.html",
    "livez",
    "login",
    "logout",
    "metrics",
    "readyz",
    "robots.txt",
    "security.txt",
    "sitemap.xml",
    "static",
    "status",
];

/// True if `code` is one of [`RESERVED_WORDS`], in any case.
#[must_use]
pub fn is_reserved(code: &[u8]) -> bool {
    may_be_reserved(code)
        && RESERVED_WORDS
            .iter()
            .any(|word| word.as_bytes().eq_ignore_ascii_case(code))
}

/// Bit sets of the initials of reserved words, by the lengths of the words: most codes need no comparison with them.
#[allow(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler: out of bounds would not build"
)]
const INITIALS: [u32; MAX_CODE_LENGTH] = {
    let (mut initials, mut words) = ([0; MAX_CODE_LENGTH], RESERVED_WORDS);
    while let [word, rest @ ..] = words {
        if let [first, ..] = word.as_bytes() {
            initials[word.len()] |= bit(*first);
        }
        words = rest;
    }
    initials
};

fn may_be_reserved(code: &[u8]) -> bool {
    let initials = INITIALS.get(code.len()).zip(code.first());
    initials.is_some_and(|(initials, first)| initials & bit(*first) != 0)
}

/// The bit of a letter, regardless of its case.
const fn bit(letter: u8) -> u32 {
    1 << (letter & 0x1f)
}

/// True if `code` has the shape of a code or an alias: `[0-9A-Za-z_-]{1,64}`.
#[must_use]
pub fn has_code_shape(code: &[u8]) -> bool {
    matches!(split_code(code), Some((_, [])))
}

/// Splits off the longest prefix with the [shape of a code](has_code_shape); `None` if it is empty or too long.
#[must_use]
#[inline]
pub fn split_code(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| !may_stand(*byte));
    let (code, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    (1..=MAX_CODE_LENGTH)
        .contains(&code.len())
        .then_some((code, rest))
}

fn may_stand(byte: u8) -> bool {
    base62::is_digit(byte) || matches!(byte, b'_' | b'-')
}

/// The code in a short URL, behind the domain: a generated code or an alias, case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(Box<str>);

/// A violated rule of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Empty or longer than [`MAX_CODE_LENGTH`].
    #[error("must be 1 to 64 characters long")]
    Length,
    /// A character outside of the alias alphabet.
    #[error("may have only the characters 0-9, A-Z, a-z, '_' and '-'")]
    Alphabet,
    /// One of [`RESERVED_WORDS`].
    #[error("is a reserved word")]
    Reserved,
}

impl Code {
    /// Parses a text that has the shape of a code and is not reserved.
    ///
    /// # Errors
    /// The [`CodeError`] that says which rule is broken.
    pub fn parse(text: &str) -> Result<Self, CodeError> {
        if is_reserved(text.as_bytes()) {
            return Err(CodeError::Reserved);
        }
        Self::stored(text)
    }

    /// Parses a code from the store, which may be a word that was reserved later.
    ///
    /// # Errors
    /// The [`CodeError`] that says which rule is broken.
    pub fn stored(text: &str) -> Result<Self, CodeError> {
        if text.is_empty() || text.len() > MAX_CODE_LENGTH {
            return Err(CodeError::Length);
        }
        if !has_code_shape(text.as_bytes()) {
            return Err(CodeError::Alphabet);
        }
        Ok(Self(text.into()))
    }

    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// The generated codes of one length under one key.
#[derive(Clone, Debug)]
pub struct CodeSpace {
    length: CodeLength,
    permutation: Permutation,
}

/// Reason for which a number has no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The number is at or above `62^length`: this length is used up.
    #[error("number {number} is outside of the codes of {length} digits")]
    Exhausted {
        /// The number asked for.
        number: u64,
        /// The length of the code space.
        length: u8,
    },
    /// The code of this number is a reserved word; the number is to be skipped.
    #[error("the code of number {0} is a reserved word")]
    Reserved(u64),
}

impl CodeSpace {
    /// The codes of `length` digits, permuted by `key`; plain counters without one.
    #[must_use]
    pub fn new(length: CodeLength, key: Option<PermutationKey>) -> Self {
        Self {
            length,
            permutation: Permutation::new(length, key),
        }
    }

    /// The length of the codes.
    #[must_use]
    pub fn length(&self) -> CodeLength {
        self.length
    }

    /// The code of `number`.
    ///
    /// # Errors
    /// [`MintError::Exhausted`] at and above `62^length`, [`MintError::Reserved`] where the code is a reserved word.
    pub fn mint(&self, number: u64) -> Result<Code, MintError> {
        let exhausted = MintError::Exhausted {
            number,
            length: self.length.get(),
        };
        let image = self.permutation.permute(number).ok_or(exhausted)?;
        let mut buffer = [0; base62::MAX_LENGTH];
        let digits = buffer
            .get_mut(..usize::from(self.length.get()))
            .ok_or(exhausted)?;
        base62::encode(image, digits).map_err(|_| exhausted)?;
        if is_reserved(digits) {
            return Err(MintError::Reserved(number));
        }
        let text = std::str::from_utf8(digits).map_err(|_| exhausted)?;
        Ok(Code(text.into()))
    }

    /// The number whose code is `code`; `None` if `code` does not have the shape of a generated one.
    ///
    /// Every text of this length and alphabet has a number; only the bound or the store can tell if it was issued.
    #[must_use]
    pub fn number(&self, code: &[u8]) -> Option<u64> {
        if code.len() != usize::from(self.length.get()) {
            return None;
        }
        self.permutation.invert(base62::decode(code).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keyed(length: u8) -> CodeSpace {
        let key = PermutationKey::new(*b"0123456789abcdef");
        CodeSpace::new(CodeLength::new(length).unwrap(), Some(key))
    }

    #[test]
    fn code_when_shape_is_wrong_is_refused() {
        let long = "a".repeat(65);
        for (text, error) in [
            ("", CodeError::Length),
            (long.as_str(), CodeError::Length),
            ("a/b", CodeError::Alphabet),
            ("a b", CodeError::Alphabet),
            ("a%2Fb", CodeError::Alphabet),
            ("ä", CodeError::Alphabet),
            ("a\0", CodeError::Alphabet),
            ("..", CodeError::Alphabet),
            ("api", CodeError::Reserved),
            ("Console", CodeError::Reserved),
        ] {
            assert_eq!(Code::parse(text), Err(error), "{text:?}");
        }
        for text in ["a", "_", "-", "Launch_2026-q1", &"a".repeat(64)] {
            assert_eq!(Code::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn reserved_word_when_in_any_case_is_refused() {
        for word in RESERVED_WORDS {
            assert!(is_reserved(word.as_bytes()));
            assert!(is_reserved(word.to_ascii_uppercase().as_bytes()));
            assert!(Code::parse(word).is_err());
        }
    }

    #[test]
    fn number_when_its_code_is_reserved_is_not_minted() {
        let space = CodeSpace::new(CodeLength::DEFAULT, None);
        let number = space.number(b"metrics").unwrap();
        assert_eq!(space.mint(number), Err(MintError::Reserved(number)));
    }

    #[test]
    fn code_length_when_outside_6_to_10_is_refused() {
        for length in [0, 5, 11, 255] {
            assert_eq!(CodeLength::new(length), None);
        }
        assert_eq!(CodeLength::DEFAULT.count(), 3_521_614_606_208);
    }

    #[test]
    fn code_space_when_past_last_number_is_exhausted() {
        for length in 6..=10 {
            let space = keyed(length);
            let last = space.length().count() - 1;
            assert_eq!(space.mint(last).unwrap().as_str().len(), length as usize);
            assert_eq!(
                space.mint(last + 1),
                Err(MintError::Exhausted {
                    number: last + 1,
                    length
                })
            );
        }
    }

    proptest! {
        #[test]
        fn code_when_minted_leads_back_to_its_number(
            length in 6u8..=10,
            number in 0..62u64.pow(6),
        ) {
            let space = keyed(length);
            if let Ok(code) = space.mint(number) {
                prop_assert!(has_code_shape(code.as_str().as_bytes()));
                prop_assert_eq!(space.number(code.as_str().as_bytes()), Some(number));
            }
        }

        #[test]
        fn code_when_of_another_shape_has_no_number(text in "[0-9a-zA-Z]{0,6}|[0-9a-zA-Z]{8,12}|[0-9a-zA-Z]{6}[_-]") {
            prop_assert_eq!(keyed(7).number(text.as_bytes()), None);
        }

        #[test]
        fn code_shape_when_bytes_are_arbitrary_agrees_with_parse(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = keyed(7).number(&bytes);
            prop_assert_eq!(
                has_code_shape(&bytes),
                std::str::from_utf8(&bytes).is_ok_and(|text| {
                    !matches!(Code::parse(text), Err(CodeError::Length | CodeError::Alphabet))
                })
            );
        }
    }
}
