//! The rules of the redirect, shared by edge and control plane.

use crate::click_id::{self, ClickId};
use crate::password::REFERRER_POLICY;
use crate::path;
use crate::query;
use crate::record::{DomainTargets, Extension, LinkRecord, LinkState, Record, RedirectStatus};
use crate::rules::{self, Visitor, is_bot};
use std::borrow::Cow;

/// The `Cache-Control` of every answer that is not a failure: shared caches do not store it, and browsers repeat the request at
/// every click, because links change.
pub const CACHE_CONTROL: &str = "private, max-age=0";

/// The `Cache-Control` of answers that must not be stored at all.
pub const NO_STORE: &str = "no-store";

/// The `Allow` of 405.
pub const ALLOW: &str = "GET, HEAD";

/// The header that asks search engines not to list a link.
const NOINDEX: (&str, &str) = ("x-robots-tag", "noindex");

/// The header that keeps the page with the link out of the target's `Referer`.
const NO_REFERRER: (&str, &str) = ("referrer-policy", REFERRER_POLICY);

/// Further headers of the redirect of a link without an extension.
#[must_use]
#[inline]
pub fn headers_of_plain(noindex: bool) -> &'static [(&'static str, &'static str)] {
    if noindex { &[NOINDEX] } else { &[] }
}

/// True if a request with this method may be a click, or consume a use of a limited link. HEAD, OPTIONS and TRACE are sent by
/// programs that inspect a link, and by browsers ahead of the actual request.
#[must_use]
#[inline]
pub fn is_visit(method: &[u8]) -> bool {
    !matches!(method, b"HEAD" | b"OPTIONS" | b"TRACE")
}

/// The outcome of a request for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A redirect.
    Redirect,
    /// 404: there is no such link, or it is not valid yet.
    NotFound,
    /// 410: the link is disabled, expired, or has no uses left.
    Gone,
    /// 503: no tier could look up the link.
    Unavailable,
    /// A redirect to the target for expired links, set by the owner.
    Expired,
    /// 200 with a form: the link has a password, which the visitor has not entered yet.
    Locked,
    /// 405: the status of the link is one for GET and HEAD, and the request has another method.
    NotAllowed,
    /// 503: the link has a limit of uses, and the request must not consume one: it is a prefetch, or comes from a bot that the link
    /// spares. Browsers that get it for a prefetch repeat the request when the visitor navigates.
    Withheld,
    /// 429: the address asks too often.
    Limited,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 9] = [
        Self::Redirect,
        Self::NotFound,
        Self::Gone,
        Self::Unavailable,
        Self::Expired,
        Self::Locked,
        Self::NotAllowed,
        Self::Withheld,
        Self::Limited,
    ];

    /// The outcome for a record at `now`, unix time in seconds, by state and validity alone: [`Decision`] is authoritative.
    #[must_use]
    pub fn of<U, B>(record: &Record<U, B>, now: u64) -> Self {
        let Record::Link(link) = record else {
            return Self::NotFound;
        };
        if link.state == LinkState::Disabled || link.valid_until.is_some_and(|until| now >= until) {
            Self::Gone
        } else if link.valid_since.is_some_and(|since| now < since) {
            Self::NotFound
        } else {
            Self::Redirect
        }
    }

    /// The label in the metrics of edge and control plane.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redirect => "redirect",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Unavailable => "unavailable",
            Self::Expired => "expired",
            Self::Locked => "locked",
            Self::NotAllowed => "not_allowed",
            Self::Withheld => "withheld",
            Self::Limited => "limited",
        }
    }

    /// The value of `Cache-Control`.
    #[must_use]
    pub fn cache_control(self) -> &'static str {
        match self {
            Self::Redirect | Self::NotFound | Self::Gone | Self::Expired => CACHE_CONTROL,
            Self::Unavailable
            | Self::Locked
            | Self::NotAllowed
            | Self::Withheld
            | Self::Limited => NO_STORE,
        }
    }
}

/// The answer to a request for a link: the only place that decides it, for edges, the control plane's own redirects and its dry
/// runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The outcome.
    pub outcome: Outcome,
    /// The redirect; `None` if the answer is a page.
    pub sent_to: Option<SentTo<'a>>,
    /// The index of the rule that chose the target, from 1 on; 0 if none did.
    pub rule: u8,
    /// The id of the click, passed to the target; `None` if the link does not track conversions.
    pub click_id: Option<ClickId>,
    /// True if search engines may index the link.
    pub is_crawlable: bool,
    /// True if browsers keep the page with the link from the target.
    pub hides_referrer: bool,
    /// True if the link has a password, which the visitor has entered: the answer is private, and has [`NO_STORE`].
    pub is_unlocked: bool,
}

/// Status and target of a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTo<'a> {
    /// The status code.
    pub status: RedirectStatus,
    /// The value of `Location`.
    pub location: Cow<'a, [u8]>,
}

impl<'a> SentTo<'a> {
    /// The redirect of a link without an extension, at `now`, unix seconds, for a request with nothing behind the code. `None` if
    /// the link has an extension, or does not redirect: [`Decision::of`] decides then.
    ///
    /// Inlined into every caller: this is the whole decision on the hot path of an edge.
    #[must_use]
    #[inline(always)]
    pub fn plain(record: &Record<&'a [u8]>, now: u64) -> Option<Self> {
        match record {
            Record::Link(link)
                if link.extension.is_empty() && Outcome::of(record, now) == Outcome::Redirect =>
            {
                Some(Self {
                    status: link.redirect,
                    location: Cow::Borrowed(link.url),
                })
            }
            _ => None,
        }
    }
}

impl<T> DomainTargets<T> {
    /// The target that replaces the page for this outcome; `None` if the page is shown.
    #[must_use]
    pub fn instead_of(&self, outcome: Outcome) -> Option<&T> {
        match outcome {
            Outcome::NotFound => self.not_found.as_ref(),
            Outcome::Gone => self.expired.as_ref(),
            Outcome::Redirect
            | Outcome::Expired
            | Outcome::Locked
            | Outcome::NotAllowed
            | Outcome::Withheld
            | Outcome::Limited
            | Outcome::Unavailable => None,
        }
    }
}

impl<'a> Decision<'a> {
    /// Decides a request for the link `key` (`{domain}/{code}`). The record was decoded before.
    #[must_use]
    pub fn of(record: &Record<&'a [u8]>, key: &[u8], visitor: &impl Visitor) -> Self {
        let Record::Link(link) = record else {
            return Self::page(Outcome::NotFound);
        };
        let extension = Extension::decode_again(link.extension);
        let decision = if !visitor.below().is_empty() && !extension.forward_path {
            Self::page(Outcome::NotFound)
        } else {
            match Outcome::of(record, visitor.now()) {
                Outcome::Redirect | Outcome::Gone
                    if visitor.has_other_method() && !link.redirect.keeps_method() =>
                {
                    Self::page(Outcome::NotAllowed)
                }
                Outcome::Redirect => Self::unlocked(link, &extension, key, visitor),
                Outcome::Gone if link.state == LinkState::Active => Self::over(&extension),
                outcome => Self::page(outcome),
            }
        };
        Self {
            is_crawlable: extension.crawlable,
            hides_referrer: extension.hide_referrer,
            ..decision
        }
    }

    /// The answer for an expired link: 302 to the target set by its owner, or 410.
    fn over(extension: &Extension<'a>) -> Self {
        let Some(expired_url) = extension.expired_url else {
            return Self::page(Outcome::Gone);
        };
        Self {
            sent_to: Some(SentTo {
                status: RedirectStatus::Found,
                location: Cow::Borrowed(expired_url),
            }),
            ..Self::page(Outcome::Expired)
        }
    }

    /// The redirect, if the visitor has entered the password, or the link has none.
    fn unlocked(
        link: &LinkRecord<&'a [u8]>,
        extension: &Extension<'a>,
        key: &[u8],
        visitor: &impl Visitor,
    ) -> Self {
        let Some(unlock_key) = extension.unlock_key else {
            return Self::unless_used_up(link, extension, key, visitor);
        };
        if !unlock_key.is_opened_by(visitor.cookies(), key, visitor.now()) {
            return Self::page(Outcome::Locked);
        }
        let decision = Self::unless_used_up(link, extension, key, visitor);
        Self {
            is_unlocked: true,
            ..decision
        }
    }

    /// The redirect, if a use is left, or the link has no limit.
    fn unless_used_up(
        link: &LinkRecord<&'a [u8]>,
        extension: &Extension<'a>,
        key: &[u8],
        visitor: &impl Visitor,
    ) -> Self {
        if visitor.is_used_up() {
            return Self::over(extension);
        }
        let is_limited = extension.max_visits.is_some();
        let is_bot = || is_bot(visitor.user_agent());
        if is_limited && extension.withholds(visitor.is_prefetch(), is_bot) {
            Self::page(Outcome::Withheld)
        } else {
            Self::redirect_extended(link, extension, key, visitor)
        }
    }

    fn redirect(sent_to: SentTo<'a>) -> Self {
        Self {
            sent_to: Some(sent_to),
            ..Self::page(Outcome::Redirect)
        }
    }

    /// The redirect to the target of the first matching rule, or to the link's own, with the rest of the path and then the query.
    fn redirect_extended(
        link: &LinkRecord<&'a [u8]>,
        extension: &Extension<'a>,
        key: &[u8],
        visitor: &impl Visitor,
    ) -> Self {
        let chosen = extension.rules;
        let chosen = chosen.and_then(|rules| rules::evaluate(rules, key, visitor));
        let url = chosen.map_or(link.url, |chosen| chosen.target);
        let Some(location) = Self::location(url, link, visitor) else {
            return Self::page(Outcome::NotFound);
        };
        let tracks = extension.track_conversions;
        let click_id = tracks.then(|| visitor.click_id()).flatten();
        let with_id = click_id.and_then(|id| with_click_id(&location, id));
        // An id that was not passed to the target does not count.
        let click_id = click_id.filter(|_| with_id.is_some());
        let location = with_id.unwrap_or(location);
        let status = link.redirect;
        Self {
            rule: chosen.map_or(0, |chosen| {
                u8::try_from(chosen.index + 1).unwrap_or(u8::MAX)
            }),
            click_id,
            ..Self::redirect(SentTo { status, location })
        }
    }

    /// The target with the rest of the path and then the query; `None` if the path must not be appended.
    fn location(
        url: &'a [u8],
        link: &LinkRecord<&'a [u8]>,
        visitor: &impl Visitor,
    ) -> Option<Cow<'a, [u8]>> {
        let query = if link.forward_query {
            visitor.query()
        } else {
            b""
        };
        if visitor.below().is_empty() {
            return Some(with_query(url, query));
        }
        let target = std::str::from_utf8(url).unwrap_or_default();
        let joined = path::append(target, visitor.below())?;
        let location = with_query(joined.as_bytes(), query).into_owned();
        Some(Cow::Owned(location))
    }

    /// Further headers of the redirect. `noindex` is true if search engines are asked not to list links, unless they may.
    #[must_use]
    pub fn headers(&self, noindex: bool) -> &'static [(&'static str, &'static str)] {
        let hides_referrer = self.is_unlocked || self.hides_referrer;
        match (hides_referrer, noindex && !self.is_crawlable) {
            (false, noindex) => headers_of_plain(noindex),
            (true, false) => &[NO_REFERRER],
            (true, true) => &[NO_REFERRER, NOINDEX],
        }
    }

    fn page(outcome: Outcome) -> Self {
        Self {
            outcome,
            sent_to: None,
            rule: 0,
            click_id: None,
            is_crawlable: false,
            hides_referrer: false,
            is_unlocked: false,
        }
    }
}

/// True if a link has a password, and would redirect visitors who enter it at `now`, unix seconds. `is_below` is set for a path
/// that continues behind the code. The record was decoded before.
#[must_use]
pub fn is_locked(record: &Record<&[u8]>, is_below: bool, now: u64) -> bool {
    let Record::Link(link) = record else {
        return false;
    };
    let extension = Extension::decode_again(link.extension);
    let has_password = extension.unlock_key.is_some();
    has_password
        && (!is_below || extension.forward_path)
        && Outcome::of(record, now) == Outcome::Redirect
}

/// The target with the visitor's query merged into it.
fn with_query<'a>(url: &'a [u8], visitor_query: &[u8]) -> Cow<'a, [u8]> {
    if visitor_query.is_empty() {
        return Cow::Borrowed(url);
    }
    match std::str::from_utf8(url).map(|url| query::merge(url, visitor_query)) {
        Ok(Cow::Owned(merged)) => Cow::Owned(merged.into_bytes()),
        Ok(Cow::Borrowed(_)) | Err(_) => Cow::Borrowed(url),
    }
}

/// Adds the id of the click to the location, replacing one that is there already; `None` if the result would be too long.
fn with_click_id<'a>(location: &[u8], id: ClickId) -> Option<Cow<'a, [u8]>> {
    let parameter = [click_id::PARAMETER, "=", &click_id::to_text(id)].concat();
    match with_query(location, parameter.as_bytes()) {
        Cow::Owned(location) => Some(Cow::Owned(location)),
        Cow::Borrowed(_) => None,
    }
}

#[cfg(test)]
mod tests;
