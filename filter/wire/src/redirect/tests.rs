use super::*;
use crate::password::{UnlockKey, cookie_name};

fn link(change: impl FnOnce(&mut LinkRecord<&'static str>)) -> LinkRecord<&'static str> {
    let mut link = LinkRecord {
        valid_since: Some(10),
        valid_until: Some(20),
        ..LinkRecord::ordinary("https://e.com/?a=1", 1)
    };
    change(&mut link);
    link
}

#[test]
fn link_when_within_validity_redirects() {
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
fn link_when_disabled_is_gone() {
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
    cookies: &'v str,
    click_id: Option<ClickId>,
}

impl Visitor for At<'_> {
    fn click_id(&self) -> Option<ClickId> {
        self.click_id
    }

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

    fn cookies(&self) -> &[u8] {
        self.cookies.as_bytes()
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
    cookies: "",
    click_id: None,
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
fn query_when_link_forwards_it_is_merged() {
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
fn link_when_expired_redirects_to_its_expired_url() {
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
fn path_when_link_does_not_forward_it_is_not_found() {
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
fn link_when_locked_redirects_with_cookie_only() {
    let unlock_key = UnlockKey::new("hash", b"go.example/a");
    let extension = Extension {
        unlock_key: Some(unlock_key),
        forward_path: true,
        ..Extension::default()
    };
    let name = cookie_name(b"go.example/a");
    let cookie = |end| format!("{name}={}", unlock_key.cookie(b"go.example/a", end));
    let (good, expired) = (cookie(16), cookie(15));
    let to = |location: &str| (Outcome::Redirect, Some((302, location.to_owned())));
    let locked = (Outcome::Locked, None);
    for (cookies, below, expected) in [
        ("", "", locked.clone()),
        ("", "/x", locked.clone()),
        (&expired, "", locked),
        (&good, "", to("https://e.com/?a=1")),
        (&good, "/x", to("https://e.com/x?a=1")),
    ] {
        let visitor = At {
            cookies,
            below,
            ..WITHIN
        };
        assert_eq!(decided(link(|_| {}), &extension, visitor), expected);
    }
    let off = link(|link| link.state = LinkState::Disabled);
    assert_eq!(decided(off, &extension, WITHIN), (Outcome::Gone, None));
    let over = At { now: 30, ..WITHIN };
    assert_eq!(
        decided(link(|_| {}), &extension, over),
        (Outcome::Gone, None)
    );
}

#[test]
fn target_when_link_tracks_conversions_gets_click_id() {
    let id = *b"fedcba9876543210";
    let text = click_id::to_text(id);
    for (url, query, tracks, id, location) in [
        (
            "https://e.com/?a=1#x",
            "",
            true,
            Some(id),
            "https://e.com/?a=1&el_click=ID#x",
        ),
        (
            "https://e.com",
            "",
            true,
            Some(id),
            "https://e.com?el_click=ID",
        ),
        (
            "https://e.com/",
            "b=2",
            true,
            Some(id),
            "https://e.com/?b=2&el_click=ID",
        ),
        (
            "https://e.com/?el_click=1&a",
            "el_click=2",
            true,
            Some(id),
            "https://e.com/?a&el_click=ID",
        ),
        ("https://e.com/?a=1", "", true, None, "https://e.com/?a=1"),
        (
            "https://e.com/?a=1",
            "",
            false,
            Some(id),
            "https://e.com/?a=1",
        ),
    ] {
        let extension = Extension {
            track_conversions: tracks,
            crawlable: true,
            ..Extension::default()
        };
        let extension = extension.to_bytes();
        let link = link(|_| {});
        let link = Record::Link(link.held_as(url.as_bytes(), &extension[..]));
        let visitor = At {
            query,
            click_id: id,
            ..WITHIN
        };
        let decision = Decision::of(&link, b"go.example/a", &visitor);
        assert_eq!(decision.click_id, id.filter(|_| tracks));
        let sent_to = decision.sent_to.unwrap().location;
        let sent_to = String::from_utf8_lossy(&sent_to);
        assert_eq!(sent_to, location.replace("ID", &text), "{url}");
    }
}

#[test]
fn decision_when_rule_applies_names_it() {
    let rules: Vec<rules::Rule> = serde_json::from_str(
        r#"[{"longUrl":"https://a.example/","conditions":[{"type":"device","matchValue":"ios"}]},
            {"longUrl":"https://b.example/","conditions":[{"type":"valueless-query-param","matchKey":"b"}]}]"#,
    )
    .unwrap();
    let rules = rules::encode(&rules).unwrap();
    let extension = Extension {
        rules: rules::Rules::of_encoded(&rules),
        ..Extension::default()
    };
    let extension = extension.to_bytes();
    let link = link(|_| {});
    let link = Record::Link(link.held_as(link.url.as_bytes(), &extension[..]));
    for (query, rule) in [("b", 2), ("c", 0)] {
        let visitor = At { query, ..WITHIN };
        assert_eq!(Decision::of(&link, b"go.example/a", &visitor).rule, rule);
    }
}

#[test]
fn decision_when_link_has_further_headers_says_so() {
    let expired_url = Some(&b"https://example.com/over"[..]);
    let noindex = ("x-robots-tag", "noindex");
    let no_referrer = ("referrer-policy", "no-referrer");
    for (crawlable, hide_referrer, with_noindex, without) in [
        (false, false, &[noindex][..], &[][..]),
        (true, false, &[], &[]),
        (false, true, &[no_referrer, noindex], &[no_referrer]),
        (true, true, &[no_referrer], &[no_referrer]),
    ] {
        let extension = Extension {
            crawlable,
            hide_referrer,
            expired_url,
            ..Extension::default()
        };
        let bytes = extension.to_bytes();
        let plain = link(|_| {});
        let record = Record::Link(plain.held_as(plain.url.as_bytes(), &bytes[..]));
        for now in [15, 30] {
            let decision = Decision::of(&record, b"go.example/a", &At { now, ..WITHIN });
            assert_eq!(decision.headers(true), with_noindex, "at {now}");
            assert_eq!(decision.headers(false), without, "at {now}");
        }
    }
}

#[test]
fn domain_target_when_link_is_gone_is_used() {
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
        (Outcome::Withheld, None),
    ] {
        assert_eq!(targets.instead_of(outcome).copied(), target, "{outcome:?}");
    }
}
