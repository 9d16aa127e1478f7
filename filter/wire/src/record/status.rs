//! Redirect status and state of a link.

use std::fmt;
use std::str::FromStr;

/// The bits of the flags with the redirect status.
const REDIRECT: u8 = 0b0000_0011;

/// The status code of a redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RedirectStatus {
    /// 302 Found: browsers repeat the request at every click.
    #[default]
    Found,
    /// 301 Moved Permanently: browsers may cache it forever.
    MovedPermanently,
    /// 307 Temporary Redirect: keeps the method.
    TemporaryRedirect,
    /// 308 Permanent Redirect: keeps the method, and may be cached forever.
    PermanentRedirect,
}

impl RedirectStatus {
    /// The number of the status code.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Found => 302,
            Self::MovedPermanently => 301,
            Self::TemporaryRedirect => 307,
            Self::PermanentRedirect => 308,
        }
    }

    /// The status with this number; `None` if links cannot have it.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        match code {
            302 => Some(Self::Found),
            301 => Some(Self::MovedPermanently),
            307 => Some(Self::TemporaryRedirect),
            308 => Some(Self::PermanentRedirect),
            _ => None,
        }
    }

    /// True if clients keep the method and body of their request: links of these statuses redirect every method.
    #[must_use]
    pub fn keeps_method(self) -> bool {
        matches!(self, Self::TemporaryRedirect | Self::PermanentRedirect)
    }

    pub(super) fn bits(self) -> u8 {
        match self {
            Self::Found => 0,
            Self::MovedPermanently => 1,
            Self::TemporaryRedirect => 2,
            Self::PermanentRedirect => 3,
        }
    }

    pub(super) fn from_bits(flags: u8) -> Self {
        match flags & REDIRECT {
            0 => Self::Found,
            1 => Self::MovedPermanently,
            2 => Self::TemporaryRedirect,
            _ => Self::PermanentRedirect,
        }
    }
}

/// State of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// The link redirects, within its validity.
    #[default]
    Active,
    /// The link was switched off and answers 410.
    Disabled,
}

impl LinkState {
    /// The state with this name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"active" => Some(Self::Active),
            b"disabled" => Some(Self::Disabled),
            _ => None,
        }
    }

    /// The name of the state in the API, in Redis and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 'active' or 'disabled'")]
pub struct LinkStateError;

impl FromStr for LinkState {
    type Err = LinkStateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text.as_bytes()).ok_or(LinkStateError)
    }
}
