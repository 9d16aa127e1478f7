//! Dry runs: the outcome for a described visitor, and the reasons. Used by the API, and by the console's pages while rules are
//! being edited.

use crate::password::{Notice, UnlockKey, cookie_name};
use crate::record::{self, Record};
use crate::redirect::{Decision, Outcome};
use crate::rules::{self, ExplainedRule, Visitor};
use std::net::IpAddr;

/// A description of a visitor. Empty fields are unknown.
#[derive(Clone, Debug, Default)]
pub struct DescribedVisitor {
    /// The header `User-Agent`.
    pub user_agent: String,
    /// The header `Accept-Language`.
    pub accept_language: String,
    /// The path behind the code, see [`read_below`].
    pub path: String,
    /// True if the visitor has entered the password of the link.
    pub has_password: bool,
    /// The header `Cookie`, which [`DescribedVisitor::unlock`] writes.
    pub cookies: String,
    /// The query without its `?`.
    pub query: String,
    /// The address.
    pub ip: Option<IpAddr>,
    /// The country, two letters.
    pub country: String,
    /// The name of the city.
    pub city: String,
    /// The time of the request, unix seconds.
    pub at: u64,
    /// True if the link has a limit of uses, and none are left.
    pub is_used_up: bool,
}

impl DescribedVisitor {
    /// Adds the cookie for a link to a visitor who has the password; `hash` is the hash of its password, if it has one.
    pub fn unlock(&mut self, key: &[u8], hash: Option<&str>) {
        let Some(hash) = hash.filter(|_| self.has_password) else {
            return;
        };
        let value = UnlockKey::new(hash, key).cookie(key, self.at.saturating_add(1));
        self.cookies = format!("{}={value}", cookie_name(key));
    }
}

/// Parses the path behind the code.
///
/// # Errors
/// A message that says what is required.
pub fn read_below(path: &str) -> Result<String, &'static str> {
    if path.is_empty() || path.starts_with('/') {
        Ok(path.to_owned())
    } else {
        Err("must be what follows the code, from its slash on")
    }
}

/// Parses the time of the request, in unix seconds.
///
/// # Errors
/// A message that says what is required.
pub fn read_time(text: &str) -> Result<u64, &'static str> {
    rules::unix_seconds(text).ok_or(rules::TIME)
}

/// Parses the address of a visitor.
///
/// # Errors
/// A message that says what is required.
pub fn read_address(text: &str) -> Result<IpAddr, &'static str> {
    let address = text.parse();
    address.map_err(|_| "must be an IPv4 or IPv6 address")
}

impl Visitor for DescribedVisitor {
    fn user_agent(&self) -> &[u8] {
        self.user_agent.as_bytes()
    }

    fn accept_language(&self) -> &[u8] {
        self.accept_language.as_bytes()
    }

    fn query(&self) -> &[u8] {
        self.query.as_bytes()
    }

    fn below(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn is_used_up(&self) -> bool {
        self.is_used_up
    }

    fn cookies(&self) -> &[u8] {
        self.cookies.as_bytes()
    }

    fn address(&self) -> Option<IpAddr> {
        self.ip
    }

    fn country(&self) -> &[u8] {
        self.country.as_bytes()
    }

    fn city(&self) -> &[u8] {
        self.city.as_bytes()
    }

    fn now(&self) -> u64 {
        self.at
    }
}

/// The result of a dry run: the outcome for the visitor, and the rules that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRun {
    /// The outcome.
    pub outcome: Outcome,
    /// The status that the visitor would get.
    pub status: u16,
    /// The target of the redirect; `None` if the answer is a page.
    pub location: Option<String>,
    /// The evaluation of each rule of the link.
    pub rules: Vec<ExplainedRule>,
}

impl DryRun {
    /// Evaluates the link `key` (`{domain}/{code}`) for a visitor. The record was decoded before.
    #[must_use]
    pub fn of(record: &Record<&[u8]>, key: &[u8], visitor: &DescribedVisitor) -> Self {
        let decision = Decision::of(record, key, visitor);
        let outcome = decision.outcome;
        let status = match (outcome, &decision.sent_to) {
            (_, Some(sent_to)) => sent_to.status.code(),
            (Outcome::NotFound, _) => 404,
            (Outcome::Gone, _) => 410,
            (Outcome::Locked, _) => Notice::Locked.status(),
            (Outcome::NotAllowed, _) => 405,
            (Outcome::Limited, _) => 429,
            (
                Outcome::Redirect | Outcome::Expired | Outcome::Unavailable | Outcome::Withheld,
                None,
            ) => 503,
        };
        let location = decision.sent_to.as_ref();
        let location = location.map(|to| String::from_utf8_lossy(&to.location).into_owned());
        let mut explained = Vec::new();
        if let Record::Link(link) = record {
            let rules = record::Extension::decode_again(link.extension).rules;
            explained = rules.map_or(explained, |rules| rules::explain(rules, key, visitor));
        }
        Self {
            outcome,
            status,
            location,
            rules: explained,
        }
    }

    /// The index of the rule that chose the target, from 1; `None` if none did.
    #[must_use]
    pub fn matched_rule(&self) -> Option<usize> {
        let matched = self.rules.iter().position(|rule| rule.holds);
        matched.map(|index| index + 1)
    }
}
