//! Fields that are written as text and parsed into a type of their own.

use serde::{Deserialize, Deserializer, de::Error};
use std::fmt::{self, Display};
use std::path::Path;
use std::str::FromStr;

/// A text that is never logged.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes the text as it is.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, which belongs in no log and in no message.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Reads a text field; the message of a refusal holds the value and what would be right.
pub(super) fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|error| D::Error::custom(format!("is '{text}', {error}")))
}

/// As [`parsed`], for a list.
pub(super) fn parsed_list<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: String| {
        text.parse()
            .map_err(|error| D::Error::custom(format!("holds '{text}', which {error}")))
    };
    texts.into_iter().map(parse).collect()
}

/// Reads a file that a field names.
pub(super) fn read_file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("names {}, which cannot be read: {error}", path.display()))
}
