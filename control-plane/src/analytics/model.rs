//! Clicks as engines take them: their link is found, and the user agent is parsed.

use edgelink_wire::clicks::events::{OrphanKind, UTM};
use std::sync::Arc;

/// The class of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The user agent does not say.
    #[default]
    Unknown,
    /// A computer.
    Desktop,
    /// A phone.
    Mobile,
    /// A tablet.
    Tablet,
    /// A television, console, watch or car.
    Other,
}

impl Device {
    /// The name of the class; empty for an unknown one.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Desktop => "desktop",
            Self::Mobile => "mobile",
            Self::Tablet => "tablet",
            Self::Other => "other",
        }
    }
}

/// What a user agent says; empty names are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Agent {
    /// The class of the device.
    pub device: Device,
    /// The family of the browser.
    pub browser: Arc<str>,
    /// The family of the operating system.
    pub os: Arc<str>,
    /// Whether it is a bot, a preview or another program.
    pub is_bot: bool,
}

/// A click, or several of a link about which nothing else is known.
#[derive(Clone, Debug)]
pub struct Click {
    /// Unix seconds.
    pub at: u64,
    /// How many; 1 if it is described.
    pub count: u64,
    /// The link; 0 if there is none with that key (any more): see [`Click::has_link`], as a link may have the number 0.
    pub link_id: u64,
    /// The tenant of the link; 0 if there is none.
    pub tenant_id: u32,
    /// The domain; 0 if it is unknown.
    pub domain_id: u32,
    /// `{domain}/{code}`.
    pub key: Arc<str>,
    /// The tags that the link has.
    pub tags: Arc<[String]>,
    /// All else.
    pub described: Option<Box<Described>>,
}

impl Click {
    /// Whether there is a link with that key, or a tombstone.
    #[must_use]
    pub fn has_link(&self) -> bool {
        self.tenant_id > 0
    }
}

/// What is known of a click that was reported with its attributes; empty texts are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The status of the redirect.
    pub status: u16,
    /// The priority of the rule that matched; 0 for none.
    pub rule: u8,
    /// Two letters of ISO 3166-1, in upper case.
    pub country: Arc<str>,
    /// The name of the city.
    pub city: Arc<str>,
    /// The header `User-Agent`.
    pub user_agent: Arc<str>,
    /// What it says.
    pub agent: Arc<Agent>,
    /// The host that has referred, in lower case.
    pub referrer: Arc<str>,
    /// The language, in lower case.
    pub language: Arc<str>,
    /// Source, medium, campaign, term, content.
    pub utm: [Arc<str>; UTM],
    /// The token of the visitor on that day.
    pub visitor: Option<u64>,
    /// The id that the target was given.
    pub id: Option<[u8; 16]>,
}

/// An orphan visit: a request that led to no link.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// Unix seconds.
    pub at: u64,
    /// What was asked for.
    pub kind: OrphanKind,
    /// The tenant whose domain it was; 1 for a configured domain.
    pub tenant_id: u32,
    /// The domain; 0 if it is unknown.
    pub domain_id: u32,
    /// Domain and path.
    pub url: Arc<str>,
    /// What is known of the visitor; the status is 404.
    pub described: Box<Described>,
}
