//! Domains, codes and short URLs.

use super::error::Checks;
use super::{Secret, text};
use edgelink_wire::{Code, CodeLength, CodeSpace, Domain, PermutationKey};
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

/// Domains, codes and short URLs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct LinksConfig {
    /// The hosts of short URLs, with their port where it is not the default of the scheme; at least one. The first is the
    /// default. A default port (80, 443) or a trailing dot in a request makes no difference. No link may point to any of
    /// them. Default `127.0.0.1:8080`, where `make run` has its edge.
    #[serde(deserialize_with = "text::parsed_list")]
    pub domains: Vec<Domain>,
    /// What visitors get who come by a host that is none of the domains: `default`, the links of the default domain, or
    /// `not_found`, 404. Default `default`.
    pub unknown_hosts: UnknownHosts,
    /// `http` or `https`: what `shortUrl` starts with. Default `https`.
    pub short_url_scheme: Scheme,
    /// How many characters generated codes have, 6 to 10. Default 7: 3.5 million million codes. Codes of another length
    /// that exist already go on working.
    pub code_length: u8,
    /// The secret that scatters codes: 32 hexadecimal digits. Default none: codes are plain counters, and whoever has one
    /// can guess the next. Must stay the same for as long as the links live: with another key, numbers not used so far
    /// may give codes that are taken.
    pub code_key: Option<Secret>,
    /// A file with that secret, in place of it. Default none.
    pub code_key_file: Option<PathBuf>,
    /// How often a link is tried to be created when its generated code is taken by an alias already, 1 to 100. Default 16.
    /// From the second time on free numbers are looked up, up to 512 at once. Past that a creation is answered 503.
    pub max_code_tries: u8,
}

/// What short URLs start with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    #[default]
    Https,
}

/// What visitors get who come by an unknown host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownHosts {
    /// The links of the default domain.
    #[default]
    Default,
    /// 404.
    NotFound,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

impl Default for LinksConfig {
    fn default() -> Self {
        Self {
            domains: "127.0.0.1:8080".parse().into_iter().collect(),
            unknown_hosts: UnknownHosts::default(),
            short_url_scheme: Scheme::default(),
            code_length: CodeLength::DEFAULT.get(),
            code_key: None,
            code_key_file: None,
            max_code_tries: 16,
        }
    }
}

impl LinksConfig {
    pub(super) fn complete(&mut self, checks: &mut Checks) {
        self.check_domains(checks);
        checks.range("links.code_length", self.code_length, &(6..=10));
        checks.range("links.max_code_tries", self.max_code_tries, &(1..=100));
        self.read_code_key(checks);
    }

    fn check_domains(&self, checks: &mut Checks) {
        if self.domains.is_empty() {
            checks.refuse("links.domains", "is empty, must name at least one domain");
        }
        let mut seen = HashSet::new();
        for domain in self.domains.iter().filter(|domain| !seen.insert(*domain)) {
            checks.refuse("links.domains", format!("holds '{domain}' twice"));
        }
    }

    fn read_code_key(&mut self, checks: &mut Checks) {
        if let Some(path) = &self.code_key_file {
            if self.code_key.is_some() {
                checks.refuse(
                    "links.code_key_file",
                    "must not be set together with links.code_key",
                );
                return;
            }
            match text::read_file(path) {
                Ok(key) => self.code_key = Some(Secret::new(key.trim())),
                Err(reason) => return checks.refuse("links.code_key_file", reason),
            }
        }
        if self.code_key.is_some() && self.permutation_key().is_none() {
            checks.refuse("links.code_key", "must be 32 hexadecimal digits");
        }
    }

    pub(crate) fn permutation_key(&self) -> Option<PermutationKey> {
        self.code_key.as_ref()?.expose().parse().ok()
    }

    pub(crate) fn code_space(&self) -> CodeSpace {
        let length = CodeLength::new(self.code_length).unwrap_or(CodeLength::DEFAULT);
        CodeSpace::new(length, self.permutation_key())
    }

    pub(crate) fn short_url(&self, domain: &Domain, code: &Code) -> String {
        format!("{}://{domain}/{code}", self.short_url_scheme)
    }

    /// The first of the domains. A configuration that was loaded has one.
    pub(crate) fn default_domain(&self) -> &Domain {
        &self.domains[0]
    }
}
