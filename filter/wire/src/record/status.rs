//! How a link redirects, and whether it does.

use std::fmt;
use std::str::FromStr;

/// The bits of the flags that say how a link redirects.
const REDIRECT: u8 = 0b0000_0011;

/// The status code of a redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RedirectStatus {
    /// 302 Found: asked for again at every visit.
    #[default]
    Found,
    /// 301 Moved Permanently: browsers may keep it for ever.
    MovedPermanently,
    /// 307 Temporary Redirect: keeps the method.
    TemporaryRedirect,
    /// 308 Permanent Redirect: keeps the method, and may be kept for ever.
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

    /// The status of that number; `None` if it is not a redirect that a link may have.
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

    /// Whether clients keep the method of their request, and its body: links of these statuses redirect every method.
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

/// Whether a link redirects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// It does, within its validity.
    #[default]
    Active,
    /// It was switched off and answers 410.
    Disabled,
}

impl LinkState {
    /// The state of that name.
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
