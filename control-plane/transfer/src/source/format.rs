//! Formats: the systems that links come from, and the names that each gives to what a link has.
//!
//! Names are looked up by their normalized spelling: first those of the system, then those that any system may use.

mod systems;

use super::meaning::{Meaning, spelled};
use super::sql_rows::LinkTable;
use serde_json::{Map, Value};
use systems::{COMMON, FORMATS};

/// The system that links come from, which determines the meaning of the fields in its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Answers of Shlink's REST API, as JSON.
    ShlinkApi,
    /// The CSV of Shlink's web client, or for Shlink's own importer.
    ShlinkCsv,
    /// A dump of the table `yourls_url` as SQL or CSV, or answers of the API, as JSON.
    Yourls,
    /// Answers of Kutt's API, as JSON.
    Kutt,
    /// Answers of Bitly's API, as JSON, or the CSV exported by its site.
    Bitly,
    /// Answers of Dub's API, as JSON, or the CSV exported by its site.
    Dub,
    /// Answers of Linkly's API, as JSON.
    Linkly,
    /// The export of Sink, as JSON.
    Sink,
    /// Answers of the API of chhoto-url, as JSON, or a dump of its table.
    ChhotoUrl,
    /// Answers of Rebrandly's API, as JSON, or a table made of them.
    Rebrandly,
    /// Answers of the API of Short.io, as JSON, or a table made of them.
    ShortIo,
    /// Answers of TinyURL's API, as JSON.
    TinyUrl,
    /// A dump of Polr's table of links, as SQL or CSV.
    Polr,
    /// Answers of the API of tiny.cc, as JSON, or CSV as its site takes it.
    TinyCc,
    /// Lines of an export, of the fields of `POST /links`, or of URLs.
    #[default]
    Edgelink,
    /// A table with named columns, as CSV or a list of JSON objects.
    Csv,
}

/// The properties that files of a system have in common.
#[derive(Debug)]
pub(super) struct FormatRules {
    pub(super) format: Format,
    word: &'static str,
    label: &'static str,
    /// Sets of names; a file whose first record has all names of one of them is of this format.
    signs: &'static [&'static [&'static str]],
    names: &'static [(&'static str, Meaning)],
    /// The table of links in its database, if dumps of it are read.
    pub(super) table: Option<LinkTable>,
    /// True if each link names its code, so that one without a code is refused.
    pub(super) names_codes: bool,
    /// True if only links that are not on the default domain name their domain.
    pub(super) omits_default_domain: bool,
    /// True if the visitor's query is forwarded there; `None` if links say it, or it is not known.
    pub(super) forwards_query: Option<bool>,
    /// The code that stands for the root of a domain.
    pub(super) root: Option<&'static str>,
}

impl Format {
    /// All formats, in the order in which a file is compared with them.
    pub const ALL: [Self; FORMATS.len()] = {
        let mut all = [Self::Csv; FORMATS.len()];
        let mut index = 0;
        while index < FORMATS.len() {
            all[index] = FORMATS[index].format;
            index += 1;
        }
        all
    };

    /// Its word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.rules().word
    }

    /// The label that users choose it by.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.rules().label
    }

    /// The format with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.word() == word)
    }

    /// True if links can be fetched from the API of the system.
    #[must_use]
    pub fn has_peers(self) -> bool {
        matches!(self, Self::ShlinkApi | Self::Kutt | Self::Bitly)
    }

    /// True if records have the fields of the API, which checks their names.
    pub(super) fn is_own(self) -> bool {
        self == Self::Edgelink
    }

    pub(super) fn rules(self) -> &'static FormatRules {
        &FORMATS[self as usize]
    }
}

impl FormatRules {
    /// The meaning of a field, and its rank among the fields with that meaning: of those, the first with a value counts.
    pub(super) fn meaning(&self, spelled: &str) -> Option<(usize, Meaning)> {
        let names = self.names.iter().chain(COMMON).enumerate();
        let mut found = names.filter(|(_, (name, _))| *name == spelled);
        let found = found
            .next()
            .map(|(index, (_, meaning))| (index + 1, *meaning));
        let last = |meaning| (usize::MAX, meaning);
        let of_field = || Meaning::of_spelled(spelled).map(last);
        // A link that had a password must not be open because of an unusual name.
        let of_password = || {
            spelled
                .contains("password")
                .then(|| last(Meaning::Password))
        };
        found.or_else(of_field).or_else(of_password)
    }

    /// The columns of a file of values without their names.
    pub(super) fn nameless(&self) -> &'static [&'static str] {
        self.table.as_ref().map_or(&[], |table| table.columns)
    }

    /// True if a record has the names of one of the signs of this format.
    pub(super) fn is_shown_by(&self, fields: &Map<String, Value>) -> bool {
        let names: Vec<String> = fields.keys().map(|name| spelled(name)).collect();
        let has = |name: &&str| names.iter().any(|other| other == name);
        self.signs.iter().any(|sign| sign.iter().all(has))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_when_looked_up_has_its_own_rules() {
        for format in Format::ALL {
            assert_eq!(format.rules().format, format);
            assert_eq!(Format::of_word(format.word()), Some(format));
        }
    }

    #[test]
    fn names_when_in_a_table_are_spelled_as_they_are_looked_up() {
        let signs = FORMATS.iter().flat_map(|rules| rules.signs.iter());
        let signs = signs.flat_map(|sign| sign.iter().copied());
        let names = FORMATS.iter().flat_map(|rules| rules.names.iter());
        let names = names.chain(COMMON).map(|(name, _)| *name);
        for name in signs.chain(names) {
            assert_eq!(spelled(name), name);
        }
    }
}
