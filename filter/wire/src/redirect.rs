//! The rules of the redirect, which edge and control plane share.

use crate::path;
use crate::query;
use crate::record::{DomainTargets, Extension, LinkRecord, LinkState, Record, RedirectStatus};
use crate::rules::{self, Visitor};
use std::borrow::Cow;

/// The `Cache-Control` of every answer that is no failure: shared caches do not keep it, and browsers ask again at every
/// visit, for links change.
pub const CACHE_CONTROL: &str = "private, max-age=0";

/// The `X-Robots-Tag` of redirects of links that search engines are not to list.
pub const NOINDEX: &str = "noindex";

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
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 5] = [
        Self::Redirect,
        Self::NotFound,
        Self::Gone,
        Self::Unavailable,
        Self::Expired,
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
        }
    }

    /// The value of `Cache-Control`.
    #[must_use]
    pub fn cache_control(self) -> &'static str {
        match self {
            Self::Redirect | Self::NotFound | Self::Gone | Self::Expired => CACHE_CONTROL,
            Self::Unavailable => "no-store",
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
    /// Whether search engines may list the link.
    pub is_crawlable: bool,
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
            Outcome::Redirect | Outcome::Expired | Outcome::Unavailable => None,
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
                Outcome::Redirect if visitor.is_used_up() => Self::over(&extension),
                Outcome::Redirect => Self::redirect_extended(link, &extension, key, visitor),
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
        }
    }

    fn redirect(sent_to: SentTo<'a>) -> Self {
        Self {
            outcome: Outcome::Redirect,
            sent_to: Some(sent_to),
            is_crawlable: false,
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
        let ruled = rules_target(extension, key, visitor);
        let url = ruled.unwrap_or(link.url);
        let (status, query) = (link.redirect, visitor.query());
        let query = if link.forward_query { query } else { b"" };
        if visitor.below().is_empty() {
            let location = with_query(url, query);
            return Self::redirect(SentTo { status, location });
        }
        let target = std::str::from_utf8(url).unwrap_or_default();
        let Some(joined) = path::append(target, visitor.below()) else {
            return Self::page(Outcome::NotFound);
        };
        let location = with_query(joined.as_bytes(), query).into_owned();
        let location = Cow::Owned(location);
        Self::redirect(SentTo { status, location })
    }

    fn page(outcome: Outcome) -> Self {
        Self {
            outcome,
            sent_to: None,
            is_crawlable: false,
        }
    }
}

/// The target of the first rule that a visitor of `key` meets; `None` if there is none.
fn rules_target<'a>(
    extension: &Extension<'a>,
    key: &[u8],
    visitor: &impl Visitor,
) -> Option<&'a [u8]> {
    Some(rules::evaluate(extension.rules?, key, visitor)?.target)
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

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A visitor at second 15, between the first and the last of [`link`], or at 30.
    #[derive(Clone, Copy)]
    struct At<'v> {
        now: u64,
        below: &'v str,
        query: &'v str,
    }

    impl Visitor for At<'_> {
        fn user_agent(&self) -> &[u8] {
            b"curl"
        }

        fn accept_language(&self) -> &[u8] {
            b""
        }

        fn query(&self) -> &[u8] {
            self.query.as_bytes()
        }

        fn below(&self) -> &[u8] {
            self.below.as_bytes()
        }

        fn address(&self) -> Option<std::net::IpAddr> {
            None
        }

        fn country(&self) -> &[u8] {
            b""
        }

        fn city(&self) -> &[u8] {
            b""
        }

        fn now(&self) -> u64 {
            self.now
        }
    }

    const WITHIN: At<'static> = At {
        now: 15,
        below: "",
        query: "",
    };

    /// The outcome, and status and location of a redirect.
    fn decided(
        link: LinkRecord<&str>,
        extension: &Extension<'_>,
        visitor: At<'_>,
    ) -> (Outcome, Option<(u16, String)>) {
        let extension = extension.to_bytes();
        let link = link.held_as(link.url.as_bytes(), &extension[..]);
        let decision = Decision::of(&Record::Link(link), b"go.example/a", &visitor);
        let sent_to = decision.sent_to.map(|sent_to| {
            let location = String::from_utf8(sent_to.location.into_owned()).unwrap();
            (sent_to.status.code(), location)
        });
        (decision.outcome, sent_to)
    }

    #[test]
    fn the_query_is_forwarded_where_the_link_says_so() {
        for (forward_query, query, location) in [
            (true, "a=2", "https://e.com/?a=2"),
            (true, "", "https://e.com/?a=1"),
            (false, "a=2", "https://e.com/?a=1"),
        ] {
            let link = link(|link| link.forward_query = forward_query);
            let visitor = At { query, ..WITHIN };
            let decided = decided(link, &Extension::default(), visitor);
            let expected = (302, location.to_owned());
            assert_eq!(decided, (Outcome::Redirect, Some(expected)));
        }
    }

    #[test]
    fn a_link_that_is_over_leads_to_where_its_owner_says() {
        let extension = Extension {
            expired_url: Some(b"https://e.com/over"),
            ..Extension::default()
        };
        let over = At {
            now: 30,
            query: "a=2",
            ..WITHIN
        };
        let moved = |link: &mut LinkRecord<&str>| link.redirect = RedirectStatus::MovedPermanently;
        let expected = Some((302, "https://e.com/over".to_owned()));
        assert_eq!(
            decided(link(moved), &extension, over),
            (Outcome::Expired, expected)
        );
        let gone = (Outcome::Gone, None);
        assert_eq!(decided(link(|_| {}), &Extension::default(), over), gone);
        let disabled = |link: &mut LinkRecord<&str>| link.state = LinkState::Disabled;
        assert_eq!(decided(link(disabled), &extension, over), gone);
        let early = At { now: 5, ..WITHIN };
        assert_eq!(
            decided(link(|_| {}), &extension, early),
            (Outcome::NotFound, None)
        );
    }

    #[test]
    fn a_path_below_a_code_is_that_of_a_link_that_forwards_it() {
        let forwarding = Extension {
            forward_path: true,
            ..Extension::default()
        };
        let not_found = (Outcome::NotFound, None);
        let to = |location: &str| (Outcome::Redirect, Some((302, location.to_owned())));
        for (below, query, expected) in [
            ("", "", to("https://e.com/?a=1")),
            ("/x/y", "", to("https://e.com/x/y?a=1")),
            ("/x", "a=2", to("https://e.com/x?a=2")),
            ("/..", "", not_found.clone()),
        ] {
            let visitor = At {
                below,
                query,
                ..WITHIN
            };
            assert_eq!(
                decided(link(|_| {}), &forwarding, visitor),
                expected,
                "{below}"
            );
        }
        let below = At {
            below: "/x",
            ..WITHIN
        };
        let crawlable = Extension {
            crawlable: true,
            ..Extension::default()
        };
        for extension in [Extension::default(), crawlable] {
            for change in [
                |_: &mut _| {},
                |link: &mut LinkRecord<&str>| link.state = LinkState::Disabled,
            ] {
                assert_eq!(decided(link(change), &extension, below), not_found);
            }
        }
    }

    #[test]
    fn a_link_is_crawlable_where_it_says_so() {
        let crawlable = Extension {
            crawlable: true,
            ..Extension::default()
        };
        let bytes = crawlable.to_bytes();
        for extension in [&[][..], &bytes] {
            for now in [15, 30] {
                let plain = link(|_| {});
                let record = Record::Link(plain.held_as(plain.url.as_bytes(), extension));
                let decision = Decision::of(&record, b"go.example/a", &At { now, ..WITHIN });
                assert_eq!(decision.is_crawlable, !extension.is_empty());
            }
        }
    }

    #[test]
    fn only_outcomes_without_a_link_that_redirects_have_a_target() {
        let targets = DomainTargets {
            root: Some("r"),
            not_found: None,
            expired: Some("https://brand.example/over"),
        };
        for (outcome, target) in [
            (Outcome::Redirect, None),
            (Outcome::NotFound, None),
            (Outcome::Gone, Some("https://brand.example/over")),
            (Outcome::Expired, None),
            (Outcome::Unavailable, None),
        ] {
            assert_eq!(targets.instead_of(outcome).copied(), target, "{outcome:?}");
        }
    }
}
