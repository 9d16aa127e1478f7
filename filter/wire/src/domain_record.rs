//! Records of domains: the targets of a domain, stored under the key `{domain}/`, which no link can have.
//!
//! So a domain is published, ordered by revisions, and looked up like a link. Its record is a link to the domain itself with the
//! [`DomainTargets`] in its [`Extension`](crate::record::Extension); edges that do not know this extension skip the record.
//! A domain that was removed, or is no longer verified, is absent.

use crate::domain::Domain;
use crate::record::{DomainTargets, Extension, LinkRecord, Record};

/// The most domains of an installation that have a record.
pub const MAX_DOMAIN_RECORDS: usize = 1000;

impl<'a> DomainTargets<&'a str> {
    /// The record of a domain with these targets.
    #[must_use]
    pub fn record(self, domain: &Domain, rev: u64) -> Record<String> {
        let extension = Extension {
            domain: Some(self),
            ..Extension::default()
        };
        Record::Link(LinkRecord {
            forward_query: false,
            extension: extension.to_bytes(),
            ..LinkRecord::ordinary(format!("http://{domain}/"), rev)
        })
    }

    /// The targets in the record of a domain; `None` if it is absent, or the record of a link.
    #[must_use]
    pub fn of_record(record: &Record<&'a str>) -> Option<Self> {
        match record {
            Record::Link(link) => Extension::decode_again(link.extension).domain,
            Record::Absent { .. } => None,
        }
    }
}

/// The domain of a record; `None` if it is absent, or the record of a link.
#[must_use]
pub fn domain_of_record<'a>(record: &Record<&'a str>) -> Option<&'a str> {
    DomainTargets::of_record(record)?;
    match record {
        Record::Link(link) => link.url.strip_prefix("http://")?.strip_suffix('/'),
        Record::Absent { .. } => None,
    }
}

/// The key of the record of a domain.
#[must_use]
pub fn domain_key(domain: &Domain) -> String {
    format!("{domain}/")
}

/// True if this is the key of the record of a domain, and not of a link.
#[must_use]
pub fn is_key_of_domain(key: &[u8]) -> bool {
    key.ends_with(b"/")
}

/// The domain whose record has this key; `None` if it is the key of a link.
#[must_use]
pub fn domain_of_key(key: &str) -> Option<&str> {
    key.strip_suffix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: DomainTargets<&str> = DomainTargets {
        root: Some("https://brand.example/"),
        not_found: None,
        expired: Some("https://brand.example/over"),
    };

    #[test]
    fn domain_record_when_encoded_and_decoded_is_equal() {
        let domain = Domain::parse("go.example").unwrap();
        for targets in [TARGETS, DomainTargets::default()] {
            let bytes = targets.record(&domain, 7).to_bytes();
            let record = Record::decode(&bytes).unwrap();
            assert_eq!(record.rev(), 7);
            assert_eq!(DomainTargets::of_record(&record), Some(targets));
            assert_eq!(domain_of_record(&record), Some("go.example"));
        }
        let absent = Record::Absent { rev: 7 };
        assert_eq!(DomainTargets::of_record(&absent), None);
        assert_eq!(domain_of_record(&absent), None);
        let link = Record::Link(LinkRecord::ordinary("http://go.example/", 7));
        assert_eq!(domain_of_record(&link), None);
    }

    #[test]
    fn domain_key_when_parsed_as_link_key_is_refused() {
        let key = domain_key(&Domain::parse("go.example:81").unwrap());
        assert_eq!(domain_of_key(&key), Some("go.example:81"));
        assert_eq!(domain_of_key("go.example/a"), None);
        assert!(key.parse::<crate::LinkKey>().is_err());
    }
}
