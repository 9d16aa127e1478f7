//! Link keys, the names of links everywhere but in the database: `{domain}/{code}`.

use crate::code::{Code, CodeError};
use crate::domain::{Domain, DomainError};
use std::fmt;
use std::str::FromStr;

/// The name of a link: its domain and its code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkKey {
    /// The host that the link lives on.
    pub domain: Domain,
    /// The code or alias.
    pub code: Code,
}

/// A failure to parse a link key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkKeyError {
    /// No slash between domain and code.
    #[error("has no '/' between domain and code")]
    Separator,
    /// The part before the slash.
    #[error("domain: {0}")]
    Domain(#[from] DomainError),
    /// The part behind the slash.
    #[error("code: {0}")]
    Code(#[from] CodeError),
}

impl LinkKey {
    /// Names the link `code` on `domain`.
    #[must_use]
    pub fn new(domain: Domain, code: Code) -> Self {
        Self { domain, code }
    }
}

impl fmt::Display for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.code)
    }
}

impl FromStr for LinkKey {
    type Err = LinkKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (domain, code) = text.split_once('/').ok_or(LinkKeyError::Separator)?;
        Ok(Self::new(Domain::parse(domain)?, Code::parse(code)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_key_when_parsed_and_written_is_equal() {
        for text in ["go.example.com/aB3_-", "[::1]:8080/x"] {
            assert_eq!(text.parse::<LinkKey>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn link_key_when_malformed_names_broken_part() {
        for (text, message) in [
            ("go.example.com", "has no '/' between domain and code"),
            ("a b/x", "domain: must be a host name"),
            ("go.example.com/", "code: must be 1 to 64 characters long"),
            ("go.example.com/a/b", "code: may have only"),
        ] {
            let error = text.parse::<LinkKey>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
