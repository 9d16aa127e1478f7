//! The rules of the redirect, which edge and control plane share.

use crate::query;
use crate::record::{Extension, LinkRecord, LinkState, Record};
use crate::rules::{self, Visitor};
use std::borrow::Cow;

/// The `Cache-Control` of every answer that is no failure: shared caches do not keep it, and browsers ask again at every
/// visit, for links change.
pub const CACHE_CONTROL: &str = "private, max-age=0";

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
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [
        Self::Redirect,
        Self::NotFound,
        Self::Gone,
        Self::Unavailable,
    ];

    /// The outcome for a record at `now`, unix time in seconds.
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

    /// What becomes of it if the link has a limit of visits and none are left: as after its validity.
    #[must_use]
    pub fn without_visits(self) -> Self {
        match self {
            Self::Redirect => Self::Gone,
            other => other,
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
        }
    }

    /// The value of `Cache-Control`.
    #[must_use]
    pub fn cache_control(self) -> &'static str {
        match self {
            Self::Redirect | Self::NotFound | Self::Gone => CACHE_CONTROL,
            Self::Unavailable => "no-store",
        }
    }
}

impl<'a, U: AsRef<[u8]> + ?Sized> LinkRecord<&'a U> {
    /// Where a visitor with that query is sent: the target, with the query merged into it if the link forwards queries.
    #[must_use]
    pub fn location(&self, visitor_query: &[u8]) -> Cow<'a, [u8]> {
        let url = self.url.as_ref();
        if !self.forward_query || visitor_query.is_empty() {
            return Cow::Borrowed(url);
        }
        match std::str::from_utf8(url).map(|url| query::merge(url, visitor_query)) {
            Ok(Cow::Owned(merged)) => Cow::Owned(merged.into_bytes()),
            Ok(Cow::Borrowed(_)) | Err(_) => Cow::Borrowed(url),
        }
    }
}

impl<'a> Extension<'a> {
    /// The target of the first rule that a visitor of `key` (`{domain}/{code}`) meets; `None` if there is none.
    #[must_use]
    pub fn target_for(&self, key: &[u8], visitor: &impl Visitor) -> Option<&'a [u8]> {
        let chosen = rules::evaluate(self.rules?, key, visitor)?;
        Some(chosen.target)
    }
}

impl LinkRecord<&[u8]> {
    /// The same link, for a visitor of `key` (`{domain}/{code}`): with the target of the first rule that he meets, if there is
    /// one.
    #[must_use]
    pub fn for_visitor(self, key: &[u8], visitor: &impl Visitor) -> Self {
        let target = Extension::decode_again(self.extension).target_for(key, visitor);
        let url = target.unwrap_or(self.url);
        Self { url, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RedirectStatus;

    fn link(change: impl FnOnce(&mut LinkRecord<&'static str>)) -> LinkRecord<&'static str> {
        let mut link = LinkRecord {
            url: "https://e.com/?a=1",
            redirect: RedirectStatus::Found,
            state: LinkState::Active,
            valid_since: Some(10),
            valid_until: Some(20),
            forward_query: true,
            rev: 1,
            extension: &[][..],
        };
        change(&mut link);
        link
    }

    #[test]
    fn a_link_redirects_from_its_first_second_up_to_the_one_before_its_last() {
        let link = Record::Link(link(|_| {}));
        for (now, expected) in [
            (9, Outcome::NotFound),
            (10, Outcome::Redirect),
            (19, Outcome::Redirect),
            (20, Outcome::Gone),
        ] {
            assert_eq!(Outcome::of(&link, now), expected, "{now}");
        }
        let absent = Record::<&str>::Absent { rev: 1 };
        assert_eq!(Outcome::of(&absent, 10), Outcome::NotFound);
    }

    #[test]
    fn a_disabled_link_is_gone_whatever_its_validity() {
        for (since, until) in [(None, None), (Some(99), None), (None, Some(1))] {
            let link = link(|link| {
                link.state = LinkState::Disabled;
                (link.valid_since, link.valid_until) = (since, until);
            });
            assert_eq!(Outcome::of(&Record::Link(link), 10), Outcome::Gone);
        }
    }

    #[test]
    fn the_query_is_forwarded_where_the_link_says_so() {
        for (forward_query, query, location) in [
            (true, "a=2", "https://e.com/?a=2"),
            (true, "", "https://e.com/?a=1"),
            (false, "a=2", "https://e.com/?a=1"),
        ] {
            let link = link(|link| link.forward_query = forward_query);
            assert_eq!(*link.location(query.as_bytes()), *location.as_bytes());
        }
    }
}
