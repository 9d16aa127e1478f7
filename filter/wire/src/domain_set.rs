//! Lookup of domains by the `Host` of requests.

use crate::domain::{Domain, MAX_DOMAIN_LENGTH, without_defaults};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::ops::Deref;

/// Up to this many domains are compared one by one, which is faster than a hash.
const FEW: usize = 8;

/// A host in lower case, without heap allocation.
#[derive(Clone, Copy, Debug)]
pub struct FoldedHost {
    bytes: [u8; MAX_DOMAIN_LENGTH],
    length: usize,
}

impl FoldedHost {
    /// Folds a host; `None` if it is longer than any domain.
    #[must_use]
    pub fn of(host: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_DOMAIN_LENGTH];
        let folded = bytes.get_mut(..host.len())?;
        folded.copy_from_slice(host);
        folded.make_ascii_lowercase();
        let length = host.len();
        Some(Self { bytes, length })
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// An ordered set of domains with lookup by host in constant time.
#[derive(Clone, Debug)]
pub struct DomainSet {
    domains: Box<[Domain]>,
    /// The indices of the domains by their names; empty if they are few. The hash has no secret, because clients choose hosts and
    /// not domains.
    places: HashTable<u32>,
}

impl DomainSet {
    /// A set of these domains in their order.
    #[must_use]
    pub fn new(domains: impl Into<Box<[Domain]>>) -> Self {
        let domains = domains.into();
        let mut places = HashTable::new();
        if domains.len() > FEW {
            for (place, domain) in (0..).zip(&*domains) {
                let rehash = |place: &u32| {
                    let domain = domains.get(*place as usize);
                    hash(domain.map_or(&[][..], |domain| domain.as_str().as_bytes()))
                };
                places.insert_unique(hash(domain.as_str().as_bytes()), place, rehash);
            }
        }
        Self { domains, places }
    }

    /// The domain that the value of a `Host` header names, `None` if it names none of them.
    ///
    /// The default ports 80 and 443 and one trailing dot of the name make no difference (RFC 3986, section 6.2.3; RFC
    /// 1034, section 3.1), unless a domain is configured with them.
    #[must_use]
    pub fn of_host(&self, host: &[u8]) -> Option<&Domain> {
        self.named(host).or_else(|| {
            let bare = without_defaults(host);
            (bare.len() < host.len())
                .then(|| self.named(bare))
                .flatten()
        })
    }

    /// The domain of a request, by the value of its `Host` header. For an unknown host it is `default`, which is a member of the
    /// set; `None` if there is no default.
    #[must_use]
    pub fn requested<'a>(&'a self, host: &[u8], default: Option<&'a Domain>) -> Option<&'a Domain> {
        match (&*self.domains, default) {
            // Regardless of the host.
            ([_], Some(only)) => Some(only),
            _ => self.of_host(host).or(default),
        }
    }

    fn named(&self, host: &[u8]) -> Option<&Domain> {
        if self.places.is_empty() {
            return self.domains.iter().find(|domain| domain.matches(host));
        }
        let host = FoldedHost::of(host)?;
        let host = host.as_bytes();
        self.hashed(host, |domain| domain.as_str().as_bytes() == host)
    }

    /// Finds the domain that satisfies `is_it` among those with the hash of a host.
    fn hashed(&self, host: &[u8], mut is_it: impl FnMut(&Domain) -> bool) -> Option<&Domain> {
        let domain = |place: &u32| self.domains.get(*place as usize);
        let place = self
            .places
            .find(hash(host), |place| domain(place).is_some_and(&mut is_it))?;
        domain(place)
    }
}

fn hash(name: &[u8]) -> u64 {
    FixedState::default().hash_one(name)
}

impl Deref for DomainSet {
    type Target = [Domain];

    fn deref(&self) -> &[Domain] {
        &self.domains
    }
}

impl PartialEq for DomainSet {
    fn eq(&self, other: &Self) -> bool {
        self.domains == other.domains
    }
}

impl Eq for DomainSet {}

impl Default for DomainSet {
    fn default() -> Self {
        Self::new([])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A set of these domains, and one with enough others around them to be hashed.
    fn sets(names: &[&str]) -> [DomainSet; 2] {
        let domains = |others: usize| {
            let other = |number: usize| format!("{number}.other.example");
            let before = (0..others / 2).map(other);
            let behind = (others / 2..others).map(other);
            let names = names.iter().map(|name| (*name).to_owned());
            let all = before.chain(names).chain(behind);
            let all = all.map(|name| Domain::parse(&name).unwrap());
            DomainSet::new(all.collect::<Vec<_>>())
        };
        [domains(0), domains(1000 - names.len())]
    }

    #[test]
    fn host_when_it_has_default_port_or_final_dot_is_found() {
        let long = "a".repeat(300);
        for domains in sets(&["a.example", "b.example", "b.example:80", "[::1]"]) {
            for (host, domain) in [
                ("b.example", Some("b.example")),
                ("B.example:443", Some("b.example")),
                ("b.example.", Some("b.example")),
                ("b.example.:443", Some("b.example")),
                ("b.example:80", Some("b.example:80")),
                ("a.example:80", Some("a.example")),
                ("[::1]:443", Some("[::1]")),
                ("a.example:8080", None),
                ("a.example..", None),
                ("c.example", None),
                ("", None),
                (".", None),
                (":443", None),
                (&long, None),
            ] {
                let found = domains.of_host(host.as_bytes());
                assert_eq!(found.map(Domain::as_str), domain, "{host:?}");
            }
            assert_eq!(domains.of_host(b"a.example\xff"), None);
        }
    }

    #[test]
    fn request_when_host_is_unknown_is_for_default_domain() {
        let [several, _] = sets(&["a.example", "b.example"]);
        let [one, _] = sets(&["a.example"]);
        for domains in [several, one] {
            let [first, last] = [domains.first(), domains.last()];
            for (host, named) in [("b.example.:443", last), ("c.example", None), ("", None)] {
                let requested = |default| domains.requested(host.as_bytes(), default);
                assert_eq!(requested(first), named.or(first), "{host:?}");
                let named = named.filter(|named| named.matches(b"b.example"));
                assert_eq!(requested(None), named, "{host:?}");
            }
        }
    }

    #[test]
    fn domain_set_when_large_compares_few_domains() {
        let [few, many] = sets(&["b.example"]);
        assert_eq!((few.places.len(), few.len()), (0, 1));
        assert_eq!((many.places.len(), many.len()), (1000, 1000));
        let compared = |host: &str| {
            let mut compared = 0;
            many.hashed(host.as_bytes(), |domain| {
                compared += 1;
                domain.matches(host.as_bytes())
            });
            compared
        };
        let most = many.iter().map(|domain| compared(domain.as_str())).max();
        assert!(most <= Some(4), "{most:?} of 1000");
        assert!(compared("unknown.example") <= 4);
    }

    proptest! {
        #[test]
        fn domain_set_when_large_finds_as_a_small_one(host in "(A|[a-d]\\.example|[0-9]{1,3}\\.other\\.example)(\\.|:80|:443|:81|\u{fc})?") {
            let [few, many] = sets(&["a", "b.example", "c.example:80", "d.example"]);
            let is_other = |domain: &&Domain| domain.as_str().ends_with(".other.example");
            let found = many.of_host(host.as_bytes());
            prop_assert_eq!(found.filter(|domain| !is_other(domain)), few.of_host(host.as_bytes()));
            let compared = many.iter().find(|domain| domain.matches(host.as_bytes()));
            prop_assert!(compared.is_none() || compared == found);
        }
    }
}
