//! Names of accounts.

use crate::text::{composed, tidy};
use edgelink_wire::settings::{Problems, SettingValue, Value, ValueKind};
use std::fmt;

/// The longest name, in characters.
const MAX_LENGTH: usize = 100;

/// The name of a tenant, a user or a key: 1 to 100 characters in Unicode's form NFC, without white space around them and without
/// control characters.
///
/// So names that are typed alike are equal, in all databases: some compare bytes, others ignore trailing spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccountName(String);

/// The error of a text that is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 100 characters without control characters, spaces around them aside")]
pub struct AccountNameError;

impl AccountName {
    /// Normalizes a text to a name.
    ///
    /// # Errors
    /// [`AccountNameError`] if nothing is left, it is too long, or it has control characters.
    pub fn parse(text: &str) -> Result<Self, AccountNameError> {
        // Checked before normalizing, whose cost grows with the length. No character is composed of more than a few.
        if text.len() > 64 * MAX_LENGTH || text.chars().any(char::is_control) {
            return Err(AccountNameError);
        }
        let name = tidy(text);
        match name.chars().count() {
            1..=MAX_LENGTH => Ok(Self(name)),
            _ => Err(AccountNameError),
        }
    }

    /// The name of the tenant that every installation has.
    #[must_use]
    pub fn of_first_tenant() -> Self {
        Self("default".to_owned())
    }

    /// The name of the user that a tenant begins with.
    #[must_use]
    pub fn of_first_user() -> Self {
        Self("admin".to_owned())
    }

    /// Makes a name, with its number, for an account whose stored name is invalid or taken: from the rest of the stored name, or the
    /// `kind` of account.
    #[must_use]
    pub fn with_number(stored: &str, kind: &str, id: u64) -> Self {
        let suffix = format!(" ({id})");
        let room = MAX_LENGTH.saturating_sub(suffix.len());
        let printable = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
        let kept: String = printable(&composed(stored))
            .trim()
            .chars()
            .take(room)
            .collect();
        let kept = match kept.trim() {
            "" => kind,
            kept => kept,
        };
        Self(format!("{kept}{suffix}"))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SettingValue for AccountName {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(value, path, problems)?;
        Self::parse(&text)
            .map_err(|error| problems.refuse(path, format!("is '{text}', {error}")))
            .ok()
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn account_name_when_typed_alike_is_equal() {
        for (text, expected) in [
            ("bob", "bob"),
            (" bob   ", "bob"),
            ("\u{a0}bob\u{2003}", "bob"),
            ("Bo\u{308}b", "B\u{f6}b"),
            ("\u{212b}ngstro\u{308}m", "\u{c5}ngstr\u{f6}m"),
            ("a  b", "a  b"),
            ("Bob", "Bob"),
        ] {
            let name = AccountName::parse(text).unwrap();
            assert_eq!(name.as_str(), expected, "{text:?}");
        }
        let longest = "\u{e4}".repeat(MAX_LENGTH);
        assert_eq!(AccountName::parse(&longest).unwrap().as_str(), longest);
        let decomposed = "a\u{308}".repeat(MAX_LENGTH);
        assert_eq!(AccountName::parse(&decomposed).unwrap().as_str(), longest);
    }

    #[test]
    fn account_name_when_malformed_is_refused() {
        for text in [
            "",
            "   ",
            "a\nb",
            "a\n",
            "a\u{0}",
            &"a".repeat(MAX_LENGTH + 1),
            // It has more characters after normalization.
            &"\u{fb2c}".repeat(MAX_LENGTH / 2),
            &" ".repeat(100_000),
        ] {
            assert_eq!(AccountName::parse(text), Err(AccountNameError), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn account_name_when_numbered_or_parsed_again_is_valid(text: String, id: u64) {
            if let Ok(name) = AccountName::parse(&text) {
                prop_assert_eq!(AccountName::parse(name.as_str()).unwrap(), name);
            }
            let numbered = AccountName::with_number(&text, "user", id);
            prop_assert_eq!(AccountName::parse(numbered.as_str()), Ok(numbered));
        }
    }
}
