//! Clicks as engines take them: their link is found, and the user agent is parsed.

use edgelink_wire::clicks::events::{OrphanKind, UTM};
use std::sync::Arc;

/// A property of clicks by whose values they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Attribute {
    /// Two letters of ISO 3166-1.
    Country = 0,
    /// The name of the city.
    City = 1,
    /// The class of the device: see [`Device::as_str`].
    Device = 2,
    /// The family of the browser.
    Browser = 3,
    /// The family of the operating system.
    Os = 4,
    /// The host that has referred.
    Referrer = 5,
    /// The language that the visitor prefers.
    Language = 6,
    /// `utm_source`.
    UtmSource = 7,
    /// `utm_medium`.
    UtmMedium = 8,
    /// `utm_campaign`.
    UtmCampaign = 9,
    /// `utm_term`.
    UtmTerm = 10,
    /// `utm_content`.
    UtmContent = 11,
    /// The priority of the rule that matched, in decimal.
    Rule = 12,
    /// The status of the redirect, in decimal.
    Status = 13,
    /// The link key. Of domains and tenants only.
    Link = 14,
    /// A tag that the link has. Of domains and tenants only; a click counts for each tag.
    Tag = 15,
    /// The domain. Of tenants only.
    Domain = 16,
}

impl Attribute {
    /// All of them, by their numbers.
    pub const ALL: [Self; 17] = [
        Self::Country,
        Self::City,
        Self::Device,
        Self::Browser,
        Self::Os,
        Self::Referrer,
        Self::Language,
        Self::UtmSource,
        Self::UtmMedium,
        Self::UtmCampaign,
        Self::UtmTerm,
        Self::UtmContent,
        Self::Rule,
        Self::Status,
        Self::Link,
        Self::Tag,
        Self::Domain,
    ];
}

/// The value in a breakdown that has what the bounded number of values leaves out. No value begins with a zero byte.
pub const OTHER: &str = "\0other";

/// Which clicks count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bots {
    /// All.
    #[default]
    Included,
    /// Those of people, as far as user agents say.
    Excluded,
    /// Those of bots.
    Only,
}

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
