//! Clicks with attributes, and orphan visits.

use super::*;
use crate::control_plane::BackgroundKind;
use crate::request::HeaderMap;
use edgelink_wire::clicks::events::{Event, Events, Kind, OrphanKind};
use edgelink_wire::clicks::{VisitorKey, VisitorKeys, decode, visitor_token};
use edgelink_wire::record::Extension;
use edgelink_wire::{ClickBatch, LinkRecord};

const ALL: &str = r#","clicks":{"orphans":true,
    "attributes":["country","city","userAgent","referrer","language","utm","rule","visitor"]},
    "geo":{"countryHeader":"X-Country","cityHeader":"x-city"}"#;
const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0";

/// A header map in the form of the proxy.
pub(super) fn map(headers: &[(&str, &[u8])]) -> Vec<u8> {
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap().to_le_bytes();
    let count = u32::try_from(headers.len()).unwrap().to_le_bytes().to_vec();
    let lengths = headers
        .iter()
        .flat_map(|(name, value)| [length(name.as_bytes()), length(value)].concat());
    let text = headers
        .iter()
        .flat_map(|(name, value)| [name.as_bytes(), b"\0", value, b"\0"].concat());
    count.into_iter().chain(lengths).chain(text).collect()
}

/// A batch of a report: its counts, the clicks without attributes that it states, and its events.
struct Reported {
    counts: u64,
    sum: u64,
    undescribed: u64,
    events: Vec<Event<String>>,
}

fn owned(event: Event<&str>) -> Event<String> {
    let attributes = event.attributes;
    Event {
        key: event.key.to_owned(),
        at: event.at,
        kind: event.kind,
        rule: event.rule,
        attributes: edgelink_wire::clicks::events::Attributes {
            country: attributes.country.to_owned(),
            city: attributes.city.to_owned(),
            user_agent: attributes.user_agent.to_owned(),
            referrer: attributes.referrer.to_owned(),
            language: attributes.language.to_owned(),
            utm: attributes.utm.map(str::to_owned),
        },
        visitor: event.visitor,
        id: event.id,
    }
}

fn read(body: &[u8]) -> Reported {
    let batches = decode(body).unwrap();
    let events = batches.iter().flat_map(|batch| {
        let events = Events::decode(batch.events.bytes).unwrap();
        events.map(|event| owned(event.unwrap()))
    });
    Reported {
        counts: batches
            .iter()
            .flat_map(|batch| &batch.clicks)
            .map(|(_, clicks)| clicks)
            .sum(),
        sum: batches.iter().map(ClickBatch::sum).sum(),
        undescribed: batches.iter().map(|batch| batch.undescribed).sum(),
        events: events.collect(),
    }
}

impl World {
    /// A request with headers that is answered at once; returns the location, if there is one.
    fn follow(&mut self, path: &str, headers: &[(&str, &[u8])]) -> Option<String> {
        let map = map(headers);
        let head = Head {
            headers: HeaderMap::new(&map),
            authority: b"go.example",
            ..get(path)
        };
        self.last_stream += 1;
        let stream = self.last_stream;
        match self.hit(stream, &head) {
            Some(Answered(seen)) => return seen.location,
            Some(_) => return None,
            None => {}
        }
        match self.request(stream, &head) {
            Step::Answer(answer, _) => seen(&answer).location,
            Step::Pass => None,
            other => panic!("{other:?}"),
        }
    }

    /// The batches reported within a second; the report is acknowledged with the given answer.
    fn reported(
        &mut self,
        status: &'static [u8],
        content_type: &'static [u8],
        body: &[u8],
    ) -> Reported {
        self.pass(1_000);
        let at = |(_, callout): &(Token, BackgroundCallout)| callout.kind == BackgroundKind::Clicks;
        let place = self.callouts.iter().position(at).expect("a report");
        let (token, callout) = self.callouts.remove(place);
        let reported = read(&callout.body);
        let response = Response {
            status,
            content_type,
            body,
        };
        self.end(token, response);
        reported
    }

    fn acknowledged(&mut self) -> Reported {
        self.reported(b"204", b"", b"")
    }
}

/// A world that knows `a`, and has reported the clicks counted on the way.
fn world(more: &str) -> World {
    let mut world = World::with(settings_with(more));
    world.know("a", link("https://a/", 1));
    world.acknowledged();
    world
}

fn keys(until: u64) -> Vec<u8> {
    let key = VisitorKey {
        from: 0,
        until,
        secret: Box::new([9; 16].into()),
    };
    VisitorKeys::new(vec![key]).to_bytes().to_vec()
}

#[test]
fn click_when_attributes_are_configured_has_them() {
    let mut world = world(ALL);
    world.host.client = Some("192.0.2.7".parse().unwrap());
    let headers: [(&str, &[u8]); 6] = [
        ("user-agent", AGENT.as_bytes()),
        ("x-country", b"de"),
        ("x-city", b"Bonn"),
        ("referer", b"https://News.Example/today?x"),
        ("accept-language", b"de-DE,de;q=0.5"),
        ("user-agent", b"the first one counts"),
    ];
    world.follow("/a?utm_source=mail&utm_term=a+b", &headers);
    let reported = world.acknowledged();
    assert_eq!((reported.counts, reported.sum), (0, 1));
    let event = reported.events.into_iter().next().unwrap();
    assert_eq!(event.key, "go.example/a");
    assert_eq!(event.at, UNIX_START / 1_000 + 1);
    assert_eq!(
        event.kind,
        Kind::Redirect(edgelink_wire::RedirectStatus::Found)
    );
    assert_eq!((event.rule, event.visitor, event.id), (0, None, None));
    let attributes = event.attributes;
    assert_eq!(attributes.country, "DE");
    assert_eq!(attributes.city, "Bonn");
    assert_eq!(attributes.user_agent, AGENT);
    assert_eq!(attributes.referrer, "news.example");
    assert_eq!(attributes.language, "de-DE");
    assert_eq!(attributes.utm, ["mail", "", "", "a b", ""]);
    assert_eq!(world.counted("clicks.sent"), 2);
    assert_eq!(world.counted("clicks.acknowledged"), 2);
}

#[test]
fn attributes_when_not_configured_are_not_reported() {
    let mut world = world(r#","clicks":{"attributes":["language"]}"#);
    let headers: [(&str, &[u8]); 3] = [
        ("user-agent", b"curl"),
        ("referer", b"https://news.example/"),
        ("accept-language", b"de"),
    ];
    world.follow("/a?utm_source=mail", &headers);
    let event = world.acknowledged().events.remove(0);
    let attributes = event.attributes;
    assert_eq!(attributes.language, "de");
    let others = [
        attributes.user_agent,
        attributes.referrer,
        attributes.utm[0].clone(),
    ];
    assert_eq!(others, [""; 3]);
}

#[test]
fn visitor_when_opting_out_is_only_counted() {
    for header in ["dnt", "sec-gpc"] {
        let mut world = world(ALL);
        world.follow("/a", &[(header, b"1"), ("user-agent", b"curl")]);
        world.follow("/a", &[(header, b"0"), ("user-agent", b"curl")]);
        let reported = world.acknowledged();
        assert_eq!((reported.counts, reported.events.len()), (1, 1));
        assert_eq!((reported.sum, reported.undescribed), (2, 0));
    }
}

#[test]
fn prefetch_when_answered_is_no_click() {
    for more in [r#","clicks":{}"#, ALL] {
        let mut world = world(more);
        for headers in [
            [("sec-purpose", &b"prefetch;prerender"[..])],
            [("purpose", b"prefetch")],
            [("x-moz", b"prefetch")],
        ] {
            assert_eq!(world.follow("/a", &headers).as_deref(), Some("https://a/"));
            world.follow("/nothing/here", &headers);
            world.follow("/", &headers);
        }
        world.follow("/a", &[("sec-purpose", b"?")]);
        assert_eq!(world.acknowledged().sum, 1);
        assert_eq!(world.counted("clicks.sent"), 2);
    }
}

#[test]
fn orphan_visit_when_reported_has_its_kind_and_is_no_click() {
    let mut world = world(ALL);
    world.know("none", Record::Absent { rev: 1 });
    for path in [
        "/none?a",
        "/?x",
        "/wp/login.php?x",
        "/api/v1/links",
        "/.env",
        "/favicon.ico",
    ] {
        world.follow(path, &[("user-agent", b"scan")]);
    }
    let mut reported = world.acknowledged();
    reported
        .events
        .sort_by(|one, other| one.key.cmp(&other.key));
    let seen: Vec<_> = reported
        .events
        .iter()
        .map(|event| {
            (
                event.key.as_str(),
                event.kind,
                event.attributes.user_agent.as_str(),
            )
        })
        .collect();
    let orphan = Kind::Orphan;
    assert_eq!(
        seen,
        [
            ("go.example/", orphan(OrphanKind::BaseUrl), "scan"),
            (
                "go.example/none",
                orphan(OrphanKind::InvalidShortUrl),
                "scan"
            ),
            (
                "go.example/wp/login.php",
                orphan(OrphanKind::Regular404),
                "scan"
            ),
            // The waiter, whose request the fixture gives a path and no headers.
            ("go.example/x", orphan(OrphanKind::InvalidShortUrl), ""),
        ]
    );
    assert_eq!(reported.sum, 0);
}

#[test]
fn orphan_visits_when_not_configured_are_not_reported() {
    let mut world = world(r#","clicks":{"attributes":["userAgent"]}"#);
    world.know("none", Record::Absent { rev: 1 });
    for path in ["/none", "/", "/x/y"] {
        world.follow(path, &[]);
    }
    world.follow("/a", &[]);
    assert_eq!(world.acknowledged().events.len(), 1);
}

#[test]
fn orphan_visits_when_a_scan_floods_displace_no_clicks() {
    let mut world = world(&ALL.replace(
        r#""orphans":true"#,
        r#""orphans":true,"maxOrphanBytes":16384"#,
    ));
    for number in 0..2_000 {
        world.follow(&format!("/wp/{number}"), &[]);
        world.follow("/a", &[]);
    }
    let reported = world.acknowledged();
    assert_eq!((reported.sum, reported.counts), (2_000, 0));
    let orphans = reported.events.len() as i64 - 2_000;
    assert!((100..2_000).contains(&orphans), "{orphans}");
    assert_eq!(world.counted("clicks.orphans_dropped"), 2_000 - orphans);
}

#[test]
fn clicks_when_attributes_have_no_room_are_undescribed() {
    let mut world = world(r#","clicks":{"attributes":["userAgent"],"maxEventBytes":16384}"#);
    for number in 0..1_000 {
        let agent = format!("agent number {number} of a thousand");
        world.follow("/a", &[("user-agent", agent.as_bytes())]);
    }
    let reported = world.acknowledged();
    assert_eq!(reported.sum, 1_000);
    assert!(reported.counts > 100 && reported.events.len() > 100);
    assert_eq!(reported.undescribed, reported.counts);
    assert_eq!(world.counted("clicks.undescribed"), reported.counts as i64);
    assert_eq!(world.counted("clicks.sent"), 1_001);
}

#[test]
fn events_when_their_room_is_nearly_full_are_batched() {
    let mut world =
        world(r#","clicks":{"attributes":["userAgent"],"maxEventBytes":16384,"flushMs":60000}"#);
    for number in 0..600 {
        let agent = format!("agent number {number} of six hundred");
        world.follow("/a", &[("user-agent", agent.as_bytes())]);
    }
    assert_eq!(world.acknowledged().sum, 600, "in one second");
}

#[test]
fn visitor_when_there_is_a_secret_has_a_token() {
    let more = [ALL, r#","freshSeconds":3600"#].concat();
    let mut world = World::with(settings_with(&more));
    world.host.client = Some("192.0.2.7".parse().unwrap());
    world.visit("/");
    world.pass(100);
    let (token, callout) = world.callouts.pop().expect("a report without clicks");
    assert_eq!(callout.path, "/edge/v1/clicks?visitorKeys=0");
    assert_eq!(callout.accept, VisitorKeys::MEDIA_TYPE);
    let until = UNIX_START / 1_000 + 60;
    let body = keys(until);
    let response = Response {
        status: b"200",
        content_type: VisitorKeys::MEDIA_TYPE.as_bytes(),
        body: &body,
    };
    world.end(token, response);
    world.know("a", link("https://a/", 1));
    world.acknowledged();

    world.follow("/a", &[("user-agent", b"curl")]);
    world.pass(1_000);
    let (token, callout) = world.callouts.pop().expect("a report");
    assert_eq!(callout.path, format!("/edge/v1/clicks?visitorKeys={until}"));
    let address = "192.0.2.7".parse().unwrap();
    let expected = visitor_token(&[9; 16], address, b"curl");
    assert_eq!(read(&callout.body).events[0].visitor, Some(expected));
    world.end(
        token,
        Response {
            status: b"204",
            ..Response::default()
        },
    );

    world.pass(60_000);
    let forgotten = VisitorKeys::default();
    assert_eq!(world.edge.event_rules.keys(), Some(&forgotten));
    world.callouts.clear();
    world.follow("/a", &[("user-agent", b"curl")]);
    world.follow("/a", &[("user-agent", b"curl")]);
    world.edge.end_hits(&mut [&mut world.notes]);
    world.edge.gathered.push(world.edge.events.take());
    for gathered in &world.edge.gathered {
        let mut events = Events::decode(&gathered.clicks.bytes).unwrap();
        assert_eq!(events.next().unwrap().unwrap().visitor, None);
    }
}

#[test]
fn worker_when_its_secret_is_for_later_asks_for_the_current() {
    let mut world = world(ALL);
    let now = UNIX_START / 1_000;
    let later = VisitorKey {
        from: now + 3_600,
        until: now + 90_000,
        secret: Box::new([9; 16].into()),
    };
    let later = VisitorKeys::new(vec![later]);
    world.edge.event_rules.add_keys(later);
    world.follow("/a", &[]);
    world.pass(1_000);
    let (_, callout) = world.callouts.pop().expect("a report");
    assert_eq!(callout.path, "/edge/v1/clicks?visitorKeys=0");
}

#[test]
fn secret_when_there_are_no_clicks_is_fetched_rarely() {
    let mut world = World::with(settings_with(ALL));
    world.visit("/a/b");
    let mut asked = 0;
    for _ in 0..200 {
        world.pass(100);
        while let Some((token, _)) = world.callouts.pop() {
            asked += 1;
            world.end(
                token,
                Response {
                    status: b"204",
                    ..Response::default()
                },
            );
        }
    }
    assert!((3..=6).contains(&asked), "{asked} in 20 seconds");
}

#[test]
fn target_when_link_tracks_conversions_gets_the_event_id() {
    for more in [r#","clicks":{}"#, ALL] {
        let mut world = World::with(settings_with(more));
        let extension = Extension {
            track_conversions: true,
            ..Extension::default()
        };
        let extension = extension.to_bytes();
        let Record::Link(plain) = link("https://a/?b#c", 1) else {
            panic!("a link");
        };
        let tracked = LinkRecord {
            extension: &extension[..],
            ..plain
        };
        world.know("a", Record::Link(tracked));
        world.acknowledged();
        let location = world.follow("/a", &[]).unwrap();
        let other = world.follow("/a", &[]).unwrap();
        assert_ne!(location, other);
        let opted_out = world.follow("/a", &[("dnt", b"1")]);
        assert_eq!(opted_out.as_deref(), Some("https://a/?b#c"));
        let reported = world.acknowledged();
        assert_eq!((reported.sum, reported.counts), (3, 1));
        let id = reported.events[0].id.unwrap();
        let text = edgelink_wire::click_id::to_text(id);
        assert_eq!(location, format!("https://a/?b&el_click={text}#c"));
    }
}

/// A world that knows a link `a` that tracks conversions, and has reported the clicks counted on the way.
fn tracking(more: &str, url: &str) -> World {
    let mut world = World::with(settings_with(more));
    let extension = Extension {
        track_conversions: true,
        ..Extension::default()
    };
    let extension = extension.to_bytes();
    let Record::Link(plain) = link(url, 1) else {
        panic!("a link");
    };
    let tracked = LinkRecord {
        extension: &extension[..],
        ..plain
    };
    world.know("a", Record::Link(tracked));
    world.acknowledged();
    world
}

#[test]
fn click_when_its_id_has_no_room_is_undescribed() {
    let mut world = tracking(r#","clicks":{"maxEventBytes":16384}"#, "https://a/");
    for _ in 0..2_000 {
        world.follow("/a", &[]);
    }
    let reported = world.acknowledged();
    assert_eq!(
        (reported.sum, reported.undescribed),
        (2_000, reported.counts)
    );
    assert!(reported.counts > 0 && reported.events.iter().all(|event| event.id.is_some()));
}

#[test]
fn click_id_when_the_target_has_no_room_is_not_reported() {
    let mut world = tracking(r#","clicks":{}"#, "https://a/");
    // The merged target may have 16,000 bytes.
    let query = "y".repeat(15_980);
    let location = world.follow(&format!("/a?{query}"), &[]);
    assert_eq!(location, Some(format!("https://a/?{query}")));
    let reported = world.acknowledged();
    assert_eq!(
        (reported.sum, reported.counts, reported.undescribed),
        (1, 1, 0)
    );
}

#[test]
fn headers_when_hostile_are_taken_within_bounds() {
    let hostile: [&[u8]; 5] = [b"\xff\xfe", b"\0", &[b'x'; 8_192], b"https://\xff/", b"1"];
    let mut world = world(ALL);
    for value in hostile {
        for name in [
            "user-agent",
            "referer",
            "accept-language",
            "x-country",
            "x-city",
            "dnt",
            "sec-purpose",
        ] {
            let location = world.follow("/a", &[(name, value)]);
            assert_eq!(location.as_deref(), Some("https://a/"));
        }
    }
    let reported = world.acknowledged();
    assert_eq!((reported.sum, reported.counts), (35, 1), "one opts out");
    for event in reported.events {
        assert!(event.attributes.user_agent.len() <= 512);
        assert_eq!(event.attributes.country, "");
    }
}
