//! The answer to a visitor: status, headers and page.

use crate::host::Clients;
use crate::metrics::Tier;
use crate::request::Headers;
use crate::settings::Settings;
use crate::visit::LinkVisit;
use edgelink_wire::password::{Notice, PAGE_HEADERS};
use edgelink_wire::redirect::{ALLOW, Decision, NO_STORE, SentTo, headers_of_plain};
use edgelink_wire::{Outcome, Record, RedirectStatus};
use std::borrow::Cow;
use std::sync::Arc;

/// A local response.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    location: Option<Cow<'a, [u8]>>,
    page: Option<&'a Arc<str>>,
    retry_after: Option<&'a str>,
    tier: Tier,
    shows_tier: bool,
    /// Headers that few answers have.
    more: &'static [(&'static str, &'static str)],
    /// True if the visitor has given the password of the link.
    is_private: bool,
    outcome: Outcome,
}

impl<'a> Answer<'a> {
    /// The answer for a record, at `now` in unix seconds. `has_more` comes from [`crate::flights::Waiter`]; `visit` is called only
    /// where the answer depends on it.
    #[inline(always)]
    pub(crate) fn of<'v, C: Clients + 'v, H: Headers + 'v>(
        record: Record<&'a [u8]>,
        (now, has_more): (u64, bool),
        visit: impl FnOnce() -> LinkVisit<'v, C, H>,
        tier: Tier,
        settings: &'a Settings,
    ) -> Self {
        if !has_more && let Some(sent_to) = SentTo::plain(&record, now) {
            return Self::redirect(sent_to, tier, settings);
        }
        Self::decided(record, &visit(), tier, settings)
    }

    /// The answer that depends on attributes which few links have, or is no redirect. Kept out of line so that others do not pay
    /// for it.
    #[cold]
    #[inline(never)]
    fn decided(
        record: Record<&'a [u8]>,
        visit: &LinkVisit<'_, impl Clients, impl Headers>,
        tier: Tier,
        settings: &'a Settings,
    ) -> Self {
        let decision = Decision::of(&record, visit.key, visit);
        visit.note(&decision);
        let more = decision.headers(settings.noindex);
        match (decision.sent_to, decision.outcome) {
            (Some(sent_to), outcome) => Self {
                outcome,
                is_private: decision.is_unlocked,
                more,
                ..Self::redirect(sent_to, tier, settings)
            },
            (None, Outcome::Gone) => Self {
                status: 410,
                page: Some(&settings.pages.gone),
                outcome: Outcome::Gone,
                ..Self::not_found(tier, settings)
            },
            (None, Outcome::Locked) => Self {
                status: Notice::Locked.status(),
                page: Some(&settings.pages.password),
                outcome: Outcome::Locked,
                more: &PAGE_HEADERS,
                ..Self::not_found(tier, settings)
            },
            (None, Outcome::NotAllowed) => Self {
                status: 405,
                page: None,
                outcome: Outcome::NotAllowed,
                more: &[("allow", ALLOW)],
                ..Self::not_found(tier, settings)
            },
            (None, Outcome::Withheld) => Self {
                retry_after: None,
                outcome: Outcome::Withheld,
                ..Self::unavailable(tier, settings)
            },
            (None, _) => Self::not_found(tier, settings),
        }
    }

    #[inline(always)]
    fn redirect(sent_to: SentTo<'a>, tier: Tier, settings: &'a Settings) -> Self {
        Self {
            status: sent_to.status.code(),
            location: Some(sent_to.location),
            page: None,
            retry_after: None,
            tier,
            shows_tier: settings.tier_header,
            more: headers_of_plain(settings.noindex),
            is_private: false,
            outcome: Outcome::Redirect,
        }
    }

    /// The answer if there is no link, or it is not valid yet.
    pub(crate) fn not_found(tier: Tier, settings: &'a Settings) -> Self {
        Self {
            status: 404,
            location: None,
            page: Some(&settings.pages.not_found),
            retry_after: None,
            tier,
            shows_tier: settings.tier_header,
            more: &[],
            is_private: false,
            outcome: Outcome::NotFound,
        }
    }

    /// The answer to a request for the root of a domain that has a target for it.
    pub(crate) fn root(target: &'a str, settings: &'a Settings) -> Self {
        let outcome = Outcome::Redirect;
        let page = Self {
            outcome,
            ..Self::not_found(Tier::Domain, settings)
        };
        page.instead(Some(target))
    }

    /// Replaces the page by a redirect to `target`, if given. The outcome stays.
    pub(crate) fn instead(self, target: Option<&'a (impl AsRef<str> + ?Sized)>) -> Self {
        match target {
            Some(target) if self.location.is_none() => Self {
                status: RedirectStatus::Found.code(),
                location: Some(Cow::Borrowed(target.as_ref().as_bytes())),
                page: None,
                ..self
            },
            _ => self,
        }
    }

    /// The answer to a probe while the worker is not ready.
    pub(crate) fn not_ready(settings: &'a Settings) -> Self {
        Self {
            page: None,
            ..Self::unavailable(Tier::Domain, settings)
        }
    }

    /// The answer to a request beyond the limit of its address, which gains a token within a second.
    pub(crate) fn limited(settings: &'a Settings) -> Self {
        Self {
            status: 429,
            page: None,
            retry_after: Some("1"),
            outcome: Outcome::Limited,
            ..Self::unavailable(Tier::Domain, settings)
        }
    }

    /// The answer if no tier could determine whether the link exists.
    pub(crate) fn unavailable(tier: Tier, settings: &'a Settings) -> Self {
        Self {
            status: 503,
            location: None,
            page: Some(&settings.pages.unavailable),
            retry_after: Some(&settings.retry_after),
            tier,
            shows_tier: settings.tier_header,
            more: &[],
            is_private: false,
            outcome: Outcome::Unavailable,
        }
    }

    /// The headers except `:status`, `content-length` and those in [`Self::more`].
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &[u8])> + Clone {
        let cache_control = if self.is_private {
            NO_STORE
        } else {
            self.outcome.cache_control()
        };
        let html = self.page.map(|_| "text/html; charset=utf-8");
        let tier = self.shows_tier.then(|| self.tier.name());
        [
            ("location", self.location.as_deref()),
            ("cache-control", Some(cache_control.as_bytes())),
            ("content-type", html.map(str::as_bytes)),
            ("retry-after", self.retry_after.map(str::as_bytes)),
            ("x-edgelink-tier", tier.map(str::as_bytes)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// Further headers, which few answers have.
    #[must_use]
    pub fn more(&self) -> &'static [(&'static str, &'static str)] {
        self.more
    }

    /// The target of a redirect whose only headers are `Location` and `Cache-Control`, as in nearly every answer: the shortcut
    /// around [`Self::headers`].
    #[must_use]
    pub fn plain_redirect(&self) -> Option<&[u8]> {
        let is_plain = !self.shows_tier && !self.is_private && self.more.is_empty();
        self.location.as_deref().filter(|_| is_plain)
    }

    /// The body.
    #[must_use]
    pub fn page(&self) -> Option<&Arc<str>> {
        self.page
    }

    /// The outcome of the request.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The tier that has answered.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Host, settings};
    use crate::request::{Head, HeaderMap};
    use edgelink_wire::redirect::CACHE_CONTROL;
    use edgelink_wire::{LinkRecord, LinkState};

    fn changed(change: impl FnOnce(&mut LinkRecord<&'static [u8]>)) -> Record<&'static [u8]> {
        let mut record = LinkRecord::ordinary(&b"https://e.com/?a=1"[..], 1);
        change(&mut record);
        Record::Link(record)
    }

    fn answer<'a>(
        record: Record<&'a [u8]>,
        query: &[u8],
        now: u64,
        tier: Tier,
        settings: &'a Settings,
    ) -> Answer<'a> {
        let host = Host::default();
        let visit = || LinkVisit {
            key: b"go.example/a",
            head: Head::<HeaderMap<'_>>::default(),
            below: b"",
            query,
            now,
            geo: &settings.geo,
            is_used_up: false,
            is_other: false,
            client: &host,
            events: None,
        };
        let has_more = !query.is_empty();
        Answer::of(record, (now, has_more), visit, tier, settings)
    }

    fn status_at(now: u64, record: Record<&[u8]>) -> u16 {
        answer(record, b"", now, Tier::Lru, &settings()).status
    }

    #[test]
    fn link_when_outside_its_validity_is_404_or_410() {
        let limited = changed(|link| {
            link.valid_since = Some(10);
            link.valid_until = Some(20);
        });
        for (seconds, status) in [(9, 404), (10, 302), (19, 302), (20, 410)] {
            assert_eq!(status_at(seconds, limited), status, "{seconds}");
        }
        assert_eq!(
            status_at(0, changed(|link| link.state = LinkState::Disabled)),
            410
        );
        assert_eq!(status_at(0, Record::Absent { rev: 1 }), 404);
    }

    #[test]
    fn redirect_when_of_any_status_carries_it_and_forbids_caching() {
        for code in [301, 302, 307, 308] {
            let record = changed(|link| link.redirect = RedirectStatus::from_code(code).unwrap());
            let settings = settings();
            let answer = answer(record, b"", 0, Tier::Lru, &settings);
            assert_eq!(answer.status, code);
            let headers: Vec<_> = answer.headers().collect();
            assert_eq!(
                headers,
                [
                    ("location", &b"https://e.com/?a=1"[..]),
                    ("cache-control", b"private, max-age=0"),
                    ("x-edgelink-tier", b"lru")
                ]
            );
            assert_eq!(answer.plain_redirect(), None, "there is a third header");
        }
    }

    #[test]
    fn query_when_link_forwards_it_is_merged_into_target() {
        for (forward_query, location) in [
            (true, &b"https://e.com/?a=2"[..]),
            (false, b"https://e.com/?a=1"),
        ] {
            let record = changed(|link| link.forward_query = forward_query);
            let settings = settings();
            let answer = answer(record, b"a=2", 0, Tier::Lru, &settings);
            assert_eq!(answer.headers().next(), Some(("location", location)));
        }
    }

    #[test]
    fn plain_redirect_when_tier_is_hidden_covers_redirects_only() {
        let mut plain = settings();
        plain.tier_header = false;
        let answer = |record, query| answer(record, query, 0, Tier::Lru, &plain);
        let redirect = answer(changed(|_| {}), b"a=2");
        let headers: Vec<_> = redirect.headers().collect();
        let expected = [
            ("location", redirect.plain_redirect().unwrap()),
            ("cache-control", CACHE_CONTROL.as_bytes()),
        ];
        assert_eq!(headers, expected);
        for record in [
            Record::Absent { rev: 1 },
            changed(|link| link.state = LinkState::Disabled),
        ] {
            assert_eq!(answer(record, b"").plain_redirect(), None);
        }
        assert_eq!(
            Answer::unavailable(Tier::Lru, &plain).plain_redirect(),
            None
        );
    }

    #[test]
    fn answer_when_not_a_redirect_has_a_page() {
        let settings = settings();
        let absent = answer(Record::Absent { rev: 1 }, b"", 0, Tier::Stale, &settings);
        let unavailable = Answer::unavailable(Tier::ControlPlane, &settings);
        for (answer, cache_control) in [(&absent, CACHE_CONTROL), (&unavailable, "no-store")] {
            let headers: Vec<_> = answer.headers().collect();
            assert!(headers.contains(&("content-type", b"text/html; charset=utf-8")));
            assert!(headers.contains(&("cache-control", cache_control.as_bytes())));
            assert!(answer.page().unwrap().starts_with("<!doctype html>"));
        }
        assert!(
            unavailable
                .headers()
                .any(|header| header == ("retry-after", b"1"))
        );
    }
}
