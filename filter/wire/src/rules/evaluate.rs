//! Evaluation of rules for a visitor.

use super::criterion::Criterion;
use super::encoded::Rules;
use super::words::{Browser, Device};
use super::written::{MAX_HEADER_BYTES, MAX_QUERY_BYTES};
use super::{city, language, user_agent};
use crate::click_id::ClickId;
use crate::query::{decoded, last_value};
use siphasher::sip::SipHasher24;
use std::cell::OnceCell;
use std::hash::Hasher;
use std::net::IpAddr;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The properties of a visitor that links depend on. A property is only read if a condition needs it.
pub trait Visitor {
    /// The header `User-Agent`; empty without one.
    fn user_agent(&self) -> &[u8];
    /// The header `Accept-Language`; empty without one.
    fn accept_language(&self) -> &[u8];
    /// The query without its `?`; empty without one.
    fn query(&self) -> &[u8];
    /// The path behind the code, from its slash on; empty if there is none.
    fn below(&self) -> &[u8] {
        b""
    }
    /// True if the link has a limit of uses, and none is left for this request.
    fn is_used_up(&self) -> bool {
        false
    }

    /// True if the request is a prefetch ([`attributes::is_prefetch`](crate::clicks::attributes::is_prefetch)).
    fn is_prefetch(&self) -> bool {
        false
    }

    /// True if the method is neither GET nor HEAD: links of 307 and 308 redirect these too.
    fn has_other_method(&self) -> bool {
        false
    }

    /// An id for this click, for links that track conversions; `None` if it is not a click, or the visitor opted out of tracking.
    fn click_id(&self) -> Option<ClickId> {
        None
    }

    /// The header `Cookie`; empty without one.
    fn cookies(&self) -> &[u8] {
        b""
    }
    /// The address of the client; `None` if it is not known.
    fn address(&self) -> Option<IpAddr>;
    /// The country, two letters; empty if it is not known.
    fn country(&self) -> &[u8];
    /// The name of the city; empty if it is not known.
    fn city(&self) -> &[u8];
    /// Unix seconds.
    fn now(&self) -> u64;
}

/// The evaluation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRule {
    /// True if all conditions hold.
    pub holds: bool,
    /// Each condition, in order.
    pub conditions: Vec<ExplainedCondition>,
}

/// The evaluation of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedCondition {
    /// True if the condition holds.
    pub holds: bool,
    /// The property of the visitor that was compared; `None` if it is unknown or missing.
    pub saw: Option<String>,
}

/// The rule that matches a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen<'a> {
    /// Its index among the rules, from 0.
    pub index: usize,
    /// Its target.
    pub target: &'a [u8],
}

/// The first of `rules` all of whose conditions hold, for a visitor of the link `key` (`{domain}/{code}`); `None` if there
/// is none.
#[must_use]
pub fn evaluate<'a>(rules: Rules<'a>, key: &[u8], visitor: &impl Visitor) -> Option<Chosen<'a>> {
    let facts = Facts::new(key, visitor);
    rules.iter().enumerate().find_map(|(index, rule)| {
        let holds = rule
            .criteria
            .into_iter()
            .all(|each| facts.meets(&each, index));
        let target = rule.target;
        holds.then_some(Chosen { index, target })
    })
}

/// Evaluates each of `rules` for a visitor of the link `key`; the first one that holds is the result of [`evaluate`].
#[must_use]
pub fn explain(rules: Rules<'_>, key: &[u8], visitor: &impl Visitor) -> Vec<ExplainedRule> {
    let facts = Facts::new(key, visitor);
    let rules = rules.iter().enumerate().map(|(index, rule)| {
        let conditions = rule.criteria.into_iter().map(|each| ExplainedCondition {
            holds: facts.meets(&each, index),
            saw: facts.saw(&each, index),
        });
        let conditions: Vec<_> = conditions.collect();
        ExplainedRule {
            holds: conditions.iter().all(|condition| condition.holds),
            conditions,
        }
    });
    rules.collect()
}

/// A visitor with derived properties, which are computed once.
struct Facts<'v, V> {
    key: &'v [u8],
    visitor: &'v V,
    device: OnceCell<Option<Device>>,
    browser: OnceCell<Option<Browser>>,
    address: OnceCell<Option<IpAddr>>,
}

impl<'v, V: Visitor> Facts<'v, V> {
    fn new(key: &'v [u8], visitor: &'v V) -> Self {
        Self {
            key,
            visitor,
            device: OnceCell::new(),
            browser: OnceCell::new(),
            address: OnceCell::new(),
        }
    }

    /// True if the visitor meets a criterion of the rule at `index`.
    fn meets(&self, criterion: &Criterion<'_>, index: usize) -> bool {
        match *criterion {
            Criterion::Device(wanted) => {
                self.device().is_some_and(|device| wanted.includes(device))
            }
            Criterion::Browser(wanted) => self.browser() == Some(wanted),
            Criterion::Language(wanted) => language::accepts(self.accept_language(), wanted),
            Criterion::QueryParam { name, value } => self
                .parameter(name)
                .is_some_and(|found| decoded(found).eq(value.iter().copied())),
            Criterion::AnyValueQueryParam(name) => self.parameter(name).is_some(),
            Criterion::ValuelessQueryParam(name) => {
                self.parameter(name).is_some_and(<[u8]>::is_empty)
            }
            Criterion::IpAddress(pattern) => self
                .address()
                .is_some_and(|address| pattern.includes(address)),
            Criterion::Country(wanted) => self.visitor.country().eq_ignore_ascii_case(&wanted),
            Criterion::City(wanted) => city::is_same(self.visitor.city(), wanted),
            Criterion::BeforeDate(time) => self.visitor.now() < time,
            Criterion::AfterDate(time) => self.visitor.now() >= time,
            Criterion::Weight(per_cent) => self.draw(index) < per_cent,
        }
    }

    /// The property of the visitor that a criterion of the rule at `index` compares.
    fn saw(&self, criterion: &Criterion<'_>, index: usize) -> Option<String> {
        match *criterion {
            Criterion::Device(_) => self.device().map(|device| device.word().to_owned()),
            Criterion::Browser(_) => self.browser().map(|browser| browser.word().to_owned()),
            Criterion::Language(_) => shown(self.accept_language()),
            Criterion::QueryParam { name, .. }
            | Criterion::AnyValueQueryParam(name)
            | Criterion::ValuelessQueryParam(name) => {
                let value: Vec<u8> = decoded(self.parameter(name)?).collect();
                Some(String::from_utf8_lossy(&value).into_owned())
            }
            Criterion::IpAddress(_) => self.address().map(|address| address.to_string()),
            Criterion::Country(_) => shown(self.visitor.country()),
            Criterion::City(_) => shown(self.visitor.city()),
            Criterion::BeforeDate(_) | Criterion::AfterDate(_) => {
                let seconds = i64::try_from(self.visitor.now()).ok()?;
                OffsetDateTime::from_unix_timestamp(seconds)
                    .ok()?
                    .format(&Rfc3339)
                    .ok()
            }
            Criterion::Weight(_) => Some(self.draw(index).to_string()),
        }
    }

    fn user_agent(&self) -> &'v [u8] {
        first(self.visitor.user_agent(), MAX_HEADER_BYTES)
    }

    fn accept_language(&self) -> &'v [u8] {
        first(self.visitor.accept_language(), MAX_HEADER_BYTES)
    }

    fn parameter(&self, name: &[u8]) -> Option<&'v [u8]> {
        last_value(first(self.visitor.query(), MAX_QUERY_BYTES), name)
    }

    fn device(&self) -> Option<Device> {
        *self
            .device
            .get_or_init(|| user_agent::device(self.user_agent()))
    }

    fn browser(&self) -> Option<Browser> {
        *self
            .browser
            .get_or_init(|| user_agent::browser(self.user_agent()))
    }

    fn address(&self) -> Option<IpAddr> {
        let address = || self.visitor.address().map(|address| address.to_canonical());
        *self.address.get_or_init(address)
    }

    /// A number of 0 to 99 that is stable for a visitor and a rule: a hash of link, index of the rule, address and `User-Agent`.
    fn draw(&self, index: usize) -> u8 {
        // SipHash-2-4 with the key 0. It need not be secret: a visitor who wants another result can send another header.
        let mut hasher = SipHasher24::new();
        hasher.write(self.key);
        hasher.write(&[0, index as u8]);
        match self.address() {
            None => hasher.write(&[0]),
            Some(IpAddr::V4(address)) => {
                hasher.write(&[4]);
                hasher.write(&address.octets());
            }
            Some(IpAddr::V6(address)) => {
                hasher.write(&[6]);
                hasher.write(&address.octets());
            }
        }
        hasher.write(self.user_agent());
        (hasher.finish() % 100) as u8
    }
}

fn first(text: &[u8], bytes: usize) -> &[u8] {
    text.get(..bytes).unwrap_or(text)
}

fn shown(text: &[u8]) -> Option<String> {
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}
