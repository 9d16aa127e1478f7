//! Clicks as engines receive them, with resolved link and parsed user agent.

use edgelink_wire::clicks::events::{OrphanKind, UTM};
use std::sync::Arc;

/// The class of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// Unknown.
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

/// A classified user agent; empty names are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Agent {
    /// The class of the device.
    pub device: Device,
    /// The family of the browser.
    pub browser: Arc<str>,
    /// The family of the operating system.
    pub os: Arc<str>,
    /// True for bots, link previews and other programs.
    pub is_bot: bool,
}

/// A click, or several of a link without attributes.
#[derive(Clone, Debug)]
pub struct Click {
    /// Unix seconds.
    pub at: u64,
    /// Number of clicks; 1 with attributes.
    pub count: u64,
    /// The link; 0 if none has that key (any longer). A link may have the id 0: see [`Click::has_link`].
    pub link_id: u64,
    /// The tenant of the link; 0 if there is none.
    pub tenant_id: u32,
    /// The domain; 0 if it is unknown.
    pub domain_id: u32,
    /// `{domain}/{code}`.
    pub key: Arc<str>,
    /// The tags that the link has.
    pub tags: Arc<[String]>,
    /// The attributes; `None` if it was only counted.
    pub described: Option<Box<Described>>,
}

impl Click {
    /// True if a link or a tombstone has that key.
    #[must_use]
    pub fn has_link(&self) -> bool {
        self.tenant_id > 0
    }
}

/// Attributes of a click; empty texts are unknown.
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
    /// Its classification.
    pub agent: Arc<Agent>,
    /// The referring host, in lower case.
    pub referrer: Arc<str>,
    /// The language, in lower case.
    pub language: Arc<str>,
    /// Source, medium, campaign, term, content.
    pub utm: [Arc<str>; UTM],
    /// The visitor's token for the day.
    pub visitor: Option<u64>,
    /// The click id that was passed to the target.
    pub id: Option<[u8; 16]>,
}

/// An orphan visit: a request that led to no link.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// Unix seconds.
    pub at: u64,
    /// The kind of request.
    pub kind: OrphanKind,
    /// The tenant whose domain it was; 1 for a configured domain.
    pub tenant_id: u32,
    /// The domain; 0 if it is unknown.
    pub domain_id: u32,
    /// Domain and path.
    pub url: Arc<str>,
    /// Attributes of the request; the status is 404.
    pub described: Box<Described>,
}
