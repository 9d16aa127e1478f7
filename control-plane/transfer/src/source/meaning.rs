//! Meanings of columns and fields.

use std::collections::BTreeMap;
use std::fmt;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The target.
    Target,
    /// The code.
    Code,
    /// The whole short URL, or its code alone.
    ShortUrl,
    /// Further short URLs of the link, as a list.
    ShortUrls,
    /// The domain.
    Domain,
    /// The title.
    Title,
    /// The title of a link that has none beside it, or else its notes.
    Description,
    /// Notes.
    Notes,
    /// Tags: a list, or a text.
    Tags,
    /// The time of creation.
    CreatedAt,
    /// Number of visits up to now.
    Visits,
    /// Start of validity.
    ValidSince,
    /// End of validity.
    ValidUntil,
    /// Limit on visits.
    MaxVisits,
    /// The state of the link, in words or as a flag that is set if it redirects.
    State,
    /// A flag that is set if the link does not redirect.
    Disabled,
    /// A flag that is set if the link is put away.
    Archived,
    /// The time at which the link ceased to redirect.
    DisabledSince,
    /// A hash of a password, or a flag that there is one.
    Password,
    /// A password.
    PlainPassword,
    /// A flag that the link has rules, which the file may have or not.
    HasRules,
    /// Rules in the form of the API.
    Rules,
    /// The target of visitors on a system, `ios` or `android`.
    TargetOn(&'static str),
    /// Targets by countries, as an object.
    TargetsByCountry,
    /// A text for the field of that name.
    Text(&'static str),
    /// A flag for the field of that name.
    Flag(&'static str),
    /// A flag for the field of that name, which has the opposite sense.
    NotFlag(&'static str),
    /// A number for the field of that name.
    Number(&'static str),
    /// Beside the link: ids, owners, counts of another kind, what a link has already under another name.
    Beside,
    /// Nothing here corresponds to it.
    Lost,
}

impl Meaning {
    /// A flag that is set if search engines may list the link.
    pub(super) const INDEXED: Self = Self::Flag("crawlable");

    /// Fields that a column can be mapped to by hand, and their meanings.
    const BY_HAND: [(&'static str, Self); 32] = [
        ("longUrl", Self::Target),
        ("customSlug", Self::Code),
        ("shortUrl", Self::ShortUrl),
        ("domain", Self::Domain),
        ("title", Self::Title),
        ("notes", Self::Notes),
        ("tags", Self::Tags),
        ("createdAt", Self::CreatedAt),
        ("importedVisits", Self::Visits),
        ("validSince", Self::ValidSince),
        ("validUntil", Self::ValidUntil),
        ("maxVisits", Self::MaxVisits),
        ("state", Self::State),
        ("disabled", Self::Disabled),
        ("archived", Self::Archived),
        ("password", Self::PlainPassword),
        ("redirectRules", Self::Rules),
        ("externalId", Self::Text("externalId")),
        ("expiredUrl", Self::Text("expiredUrl")),
        ("utmSource", Self::Text("utmSource")),
        ("utmMedium", Self::Text("utmMedium")),
        ("utmCampaign", Self::Text("utmCampaign")),
        ("utmTerm", Self::Text("utmTerm")),
        ("utmContent", Self::Text("utmContent")),
        ("redirectStatus", Self::Number("redirectStatus")),
        ("forwardQuery", Self::Flag("forwardQuery")),
        ("forwardPath", Self::Flag("forwardPath")),
        ("crawlable", Self::INDEXED),
        ("botsUseVisits", Self::Flag("botsUseVisits")),
        ("hideReferrer", Self::Flag("hideReferrer")),
        ("trackConversions", Self::Flag("trackConversions")),
        ("-", Self::Beside),
    ];

    /// The meaning of a field of the API, of `shortUrl` and `disabled`, or of `-` for what is left out.
    #[must_use]
    pub fn of_field(field: &str) -> Option<Self> {
        let mut known = Self::BY_HAND.iter();
        known.find_map(|(name, meaning)| (*name == field).then_some(*meaning))
    }

    /// The meaning of a column that is called like a field, in normalized spelling.
    pub(super) fn of_spelled(name: &str) -> Option<Self> {
        let mut known = Self::BY_HAND.iter();
        let found = known.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, meaning)| *meaning)
    }

    /// The fields that a column can be mapped to by hand.
    pub fn fields() -> impl Iterator<Item = &'static str> {
        Self::BY_HAND.iter().map(|(name, _)| *name)
    }

    /// True if objects are values with this meaning; others are taken apart.
    pub(super) fn is_of_objects(self) -> bool {
        matches!(self, Self::TargetsByCountry | Self::Beside | Self::Lost)
    }
}

/// A name normalized to its letters and digits in lower case: systems, and versions of one, spell names differently.
pub(super) fn spelled(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// Columns and the meanings they were given by hand, by their normalized names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnMap(BTreeMap<String, Meaning>);

/// A mapping of a column that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnMapError {
    /// It has another form.
    #[error("'{0}' is not COLUMN=FIELD")]
    NotAPair(String),
    /// There is no such field.
    #[error("'{0}' is not a field: {fields}", fields = Listed)]
    UnknownField(String),
}

/// All fields that columns can be mapped to.
struct Listed;

impl fmt::Display for Listed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&Meaning::fields().collect::<Vec<_>>().join(", "))
    }
}

impl ColumnMap {
    /// Adds `COLUMN=FIELD`.
    ///
    /// # Errors
    /// The reason why the text is not a mapping.
    pub fn add(&mut self, text: &str) -> Result<(), ColumnMapError> {
        let pair = text.rsplit_once('=');
        let (column, field) = pair.ok_or_else(|| ColumnMapError::NotAPair(text.to_owned()))?;
        let meaning = Meaning::of_field(field);
        let meaning = meaning.ok_or_else(|| ColumnMapError::UnknownField(field.to_owned()))?;
        self.0.insert(spelled(column), meaning);
        Ok(())
    }

    pub(super) fn get(&self, spelled: &str) -> Option<Meaning> {
        self.0.get(spelled).copied()
    }
}
