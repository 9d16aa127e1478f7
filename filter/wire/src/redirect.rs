//! The rules of the redirect, which edge and control plane share.

use crate::click_id::{self, ClickId};
use crate::path;
use crate::query;
use crate::record::{DomainTargets, Extension, LinkRecord, LinkState, Record, RedirectStatus};
use crate::rules::{self, Visitor, is_bot};
use std::borrow::Cow;

/// The `Cache-Control` of every answer that is no failure: shared caches do not keep it, and browsers ask again at every
/// visit, for links change.
pub const CACHE_CONTROL: &str = "private, max-age=0";

/// The `Cache-Control` of what may not be kept at all.
pub const NO_STORE: &str = "no-store";

/// The `Allow` of 405.
pub const ALLOW: &str = "GET, HEAD";

/// The `X-Robots-Tag` of redirects of links that search engines are not to list.
pub const NOINDEX: &str = "noindex";

/// Whether a request of that method may be a visit: a click, or one of the visits that a link has. HEAD, OPTIONS and TRACE come from
/// programs that ask about a link, and from browsers before a visit of theirs.
#[must_use]
#[inline]
pub fn is_visit(method: &[u8]) -> bool {
    !matches!(method, b"HEAD" | b"OPTIONS" | b"TRACE")
}

/// What a visitor gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A redirect.
    Redirect,
    /// 404: there is no such link, or it is not valid yet.
    NotFound,
    /// 410: the link is switched off, no longer valid, or has no visits left.
    Gone,
    /// 503: no tier could say whether there is a link.
    Unavailable,
    /// A redirect to where the owner of a link that is over says.
    Expired,
    /// 200 with a form: the link has a password, which the visitor has not given yet.
    Locked,
    /// 405: the status of the link is one for GET and HEAD, and the request has another method.
    NotAllowed,
    /// 503: the link has a limit of visits, and the request is to use none: it is made before its visitor wants it, or by a bot where the
    /// link says so. Browsers that get it for what they load ahead ask again when the visitor wants it.
    Withheld,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 8] = [
        Self::Redirect,
        Self::NotFound,
        Self::Gone,
        Self::Unavailable,
        Self::Expired,
        Self::Locked,
        Self::NotAllowed,
        Self::Withheld,
    ];

    /// The outcome for a record at `now`, unix time in seconds, by state and validity alone: [`Decision`] is what counts.
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
        }
    }

    /// The value of `Cache-Control`.
    #[must_use]
    pub fn cache_control(self) -> &'static str {
        match self {
            Self::Redirect | Self::NotFound | Self::Gone | Self::Expired => CACHE_CONTROL,
            Self::Unavailable | Self::Locked | Self::NotAllowed | Self::Withheld => NO_STORE,
        }
    }
}

/// What a visitor of a link gets: the one place that decides, for edges, for the control plane's own redirects and for its dry
/// run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// What it is called.
    pub outcome: Outcome,
    /// Where the visitor is sent; `None` if a page is answered.
    pub sent_to: Option<SentTo<'a>>,
    /// The place of the rule that has chosen the target, from 1 on; 0 for none.
    pub rule: u8,
    /// The id of the click, which the target gets; `None` if the link does not track conversions.
    pub click_id: Option<ClickId>,
    /// Whether search engines may list the link.
    pub is_crawlable: bool,
    /// Whether the link has a password, which the visitor has given: the answer is for him alone, and says so by [`NO_STORE`] and
    /// [`crate::password::REFERRER_POLICY`].
    pub is_unlocked: bool,
}

/// Where a visitor is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTo<'a> {
    /// The status code.
    pub status: RedirectStatus,
    /// The value of `Location`.
    pub location: Cow<'a, [u8]>,
}

impl<'a> SentTo<'a> {
    /// Where visitors are sent who ask for nothing but the code, at `now`, unix seconds, of a link that has nothing but a target,
    /// status and validity. `None` if it has more, or does not redirect: [`Decision::of`] says what becomes of them.
    ///
    /// Inlined wherever it is called: on the hot path of an edge nothing else is to be decided.
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
    /// The target instead of the page for that outcome; `None` if the page is shown.
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
            | Outcome::Unavailable => None,
        }
    }
}

impl<'a> Decision<'a> {
    /// What a visitor of the link `key` (`{domain}/{code}`) gets. The record is one that was decoded before.
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
            ..decision
        }
    }

    /// What visitors get of a link that is over: 302 to where its owner says, or 410.
    #[must_use]
    pub fn over(extension: &Extension<'a>) -> Self {
        let Some(expired_url) = extension.expired_url else {
            return Self::page(Outcome::Gone);
        };
        Self {
            outcome: Outcome::Expired,
            sent_to: Some(SentTo {
                status: RedirectStatus::Found,
                location: Cow::Borrowed(expired_url),
            }),
            is_crawlable: extension.crawlable,
            ..Self::page(Outcome::Expired)
        }
    }

    /// The redirect, if the visitor has given the password, or the link has none.
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

    /// The redirect, if a visit is left for the visitor, or the link has no limit.
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

    /// The redirect to the target of the first rule that the visitor meets, or to the link's own, with the rest of the path and
    /// then the query.
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
        // An id that the target has not got is none.
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

    /// The target with the rest of the path and then the query; `None` if the path may not be appended.
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

    fn page(outcome: Outcome) -> Self {
        Self {
            outcome,
            sent_to: None,
            rule: 0,
            click_id: None,
            is_crawlable: false,
            is_unlocked: false,
        }
    }
}

/// Whether a link has a password, and redirects visitors who give it at `now`, unix seconds. `is_below` says whether they ask for a
/// path that goes on behind its code. The record is one that was decoded before.
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

/// The location with the id of the click, in the place of one that is there already; `None` if it would be too long.
fn with_click_id<'a>(location: &[u8], id: ClickId) -> Option<Cow<'a, [u8]>> {
    let parameter = [click_id::PARAMETER, "=", &click_id::to_text(id)].concat();
    match with_query(location, parameter.as_bytes()) {
        Cow::Owned(location) => Some(Cow::Owned(location)),
        Cow::Borrowed(_) => None,
    }
}

#[cfg(test)]
mod tests;
