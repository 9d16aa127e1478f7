//! Attributes of clicks, and the filter for bots.

/// An attribute by whose values clicks are counted.
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

/// The value in a breakdown that sums up those beyond its bound. No real value begins with a zero byte.
pub const OTHER: &str = "\0other";

/// Filter for clicks by bots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bots {
    /// All.
    #[default]
    Included,
    /// Clicks of people, judged by user agent.
    Excluded,
    /// Clicks of bots.
    Only,
}
