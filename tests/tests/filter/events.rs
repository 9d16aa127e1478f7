//! Clicks with attributes, in the compiled filter.

use crate::support::{answer, configuration_with, fleet, follow};
use edgelink_tests::abi::host::{Fleet, RequestBuilder, Response, Worker};
use edgelink_tests::scenario::{Reply, link, tracking};
use edgelink_wire::click_id;
use edgelink_wire::clicks::events::{Attributes, Event, Events};
use edgelink_wire::clicks::{self, VisitorKey, VisitorKeys, visitor_token};
use serde_json::{Value, json};
use std::time::Duration;

const SECRET: [u8; 16] = *b"a secret of one.";

fn all() -> Value {
    configuration_with(json!({
        "clicks": {
            "attributes": ["country", "city", "userAgent", "referrer", "language", "utm", "rule", "visitor"],
            "orphans": true,
        },
        "geo": {"countryHeader": "x-country", "cityHeader": "x-city"},
        "freshSeconds": 86_400,
    }))
}

/// The requests of a browser.
fn browse<'w>(worker: &'w mut Worker, path: &str) -> RequestBuilder<'w> {
    worker
        .request("GET", path)
        .header("user-agent", "curl/8")
        .header("x-country", "de")
        .header("referer", "https://news.example/")
        .header("accept-language", "de,en;q=0.5")
        .header("x-forwarded-for", "192.0.2.7")
}

/// The next report, which is acknowledged.
fn report(fleet: &mut Fleet, response: Response) -> Vec<u8> {
    fleet.pass(Duration::from_secs(2));
    let worker = fleet.worker(0);
    let report = worker.callout_to("/edge/v1/clicks");
    assert_eq!(report.header(clicks::EDGE_HEADER), Some("edgelink-edge"));
    worker.answer(&report, response);
    report.body
}

/// The events in a report.
fn events(body: &[u8]) -> Vec<Event<String>> {
    let batches = clicks::decode(body).expect("batches");
    let events = batches.iter().flat_map(|batch| {
        let events = Events::decode(batch.events.bytes).expect("events");
        events.map(|event| event.expect("an event"))
    });
    let owned = |event: Event<&str>| Event {
        key: event.key.to_owned(),
        at: event.at,
        kind: event.kind,
        rule: event.rule,
        attributes: Attributes {
            country: event.attributes.country.to_owned(),
            city: event.attributes.city.to_owned(),
            user_agent: event.attributes.user_agent.to_owned(),
            referrer: event.attributes.referrer.to_owned(),
            language: event.attributes.language.to_owned(),
            utm: event.attributes.utm.map(str::to_owned),
        },
        visitor: event.visitor,
        id: event.id,
    };
    events.map(owned).collect()
}

fn secrets(until: u64) -> Response {
    let secret = Box::new(SECRET.into());
    let key = VisitorKey {
        from: 0,
        until,
        secret,
    };
    let body = VisitorKeys::new(vec![key]).to_bytes();
    Response::ok(VisitorKeys::MEDIA_TYPE, body.to_vec())
}

#[test]
fn click_when_of_a_waiter_or_a_hit_has_the_same_attributes() {
    let mut fleet = fleet(&all());
    let worker = fleet.worker(0);
    let first = browse(worker, "/a?utm_source=mail").send();
    let callout = worker.callout();
    answer(worker, &callout, &Reply::Link(link("https://example.com/")));
    assert_eq!(worker.outcome(first).local_response().status(), 302);
    let second = browse(worker, "/a?utm_source=mail").send();
    assert_eq!(worker.outcome(second).local_response().status(), 302);
    let events = events(&report(&mut fleet, Response::new(204)));
    let [one, other] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(one.attributes, other.attributes);
    assert_eq!(one.attributes.country, "DE");
    assert_eq!(one.attributes.user_agent, "curl/8");
    assert_eq!(one.attributes.referrer, "news.example");
    assert_eq!(one.attributes.language, "de");
    assert_eq!(one.attributes.utm[0], "mail");
    fleet.assert_unharmed();
}

/// The day goes by on the clock of the host.
#[test]
fn visitor_secret_when_its_time_is_over_is_gone_from_memory() {
    let mut fleet = fleet(&all());
    let reply = Reply::Link(link("https://example.com/"));
    follow(fleet.worker(0), "a", &reply);
    let day = Duration::from_hours(24);
    let now = fleet.now();
    report(&mut fleet, secrets((now + day).as_secs()));
    assert!(fleet.worker(0).has_in_memory(&SECRET));

    let stream = browse(fleet.worker(0), "/a").send();
    assert_eq!(
        fleet.worker(0).outcome(stream).local_response().status(),
        302
    );
    let with_token = events(&report(&mut fleet, Response::new(204)));
    let token = visitor_token(&SECRET, "192.0.2.7".parse().unwrap(), b"curl/8");
    assert_eq!(with_token[0].visitor, Some(token));

    fleet.freeze(day);
    fleet.pass(Duration::from_secs(1));
    assert!(!fleet.worker(0).has_in_memory(&SECRET));
    let worker = fleet.worker(0);
    let stream = browse(worker, "/a").send();
    let callout = worker.callout_to("/edge/v1/links/");
    answer(worker, &callout, &reply);
    assert_eq!(worker.outcome(stream).local_response().status(), 302);
    let without = events(&report(&mut fleet, Response::new(204)));
    assert_eq!(without.last().unwrap().visitor, None);
    fleet.assert_unharmed();
}

#[test]
fn headers_when_hostile_do_no_harm() {
    let mut fleet = fleet(&all());
    follow(
        fleet.worker(0),
        "a",
        &Reply::Link(link("https://example.com/")),
    );
    let long = vec![b'x'; 8_192];
    let hostile: [&[u8]; 5] = [b"\xff\xfe\xc3", b"a\0b", &long, b"", b"https://\xff"];
    for value in hostile {
        let worker = fleet.worker(0);
        let request = worker.request("GET", "/a?utm_source=%ff%00&utm_term=%");
        let names = [
            "user-agent",
            "referer",
            "accept-language",
            "x-country",
            "x-city",
            "dnt",
        ];
        let request = names
            .iter()
            .fold(request, |request, name| request.header(name, value));
        let stream = request.send();
        assert_eq!(worker.outcome(stream).local_response().status(), 302);
    }
    let events = events(&report(&mut fleet, Response::new(204)));
    assert_eq!(events.len(), 6);
    fleet.assert_unharmed();
}

#[test]
fn attributes_when_of_a_hit_cost_no_hostcall_but_the_address() {
    for (attributes, more) in [
        (json!([]), 0),
        (
            json!(["userAgent", "referrer", "language", "utm", "rule"]),
            0,
        ),
        (json!(["visitor"]), 1),
    ] {
        let sections = json!({"clicks": {"attributes": attributes}, "tierHeader": false});
        let mut fleet = fleet(&configuration_with(sections));
        follow(
            fleet.worker(0),
            "a",
            &Reply::Link(link("https://example.com/")),
        );
        report(&mut fleet, secrets(u64::MAX));
        let worker = fleet.worker(0);
        let before = worker.usage();
        let stream = browse(worker, "/a").send();
        assert_eq!(worker.outcome(stream).local_response().status(), 302);
        let used = worker.usage().since(&before);
        assert_eq!(used.hostcall_total(), 3 + more, "{attributes}");
    }
}

#[test]
fn tracked_link_when_followed_reports_the_id_in_its_target() {
    let mut fleet = fleet(&configuration_with(json!({"clicks": {}})));
    let reply = Reply::Link(tracking("https://example.com/?a#b"));
    let mut locations = Vec::new();
    for _ in 0..3 {
        let answer = follow(fleet.worker(0), "a", &reply);
        locations.push(answer.get("location").unwrap().to_owned());
    }
    let events = events(&report(&mut fleet, Response::new(204)));
    let expected = events.iter().map(|event| {
        let id = click_id::to_text(event.id.unwrap());
        format!("https://example.com/?a&el_click={id}#b")
    });
    assert_eq!(locations, expected.collect::<Vec<_>>());
    fleet.assert_unharmed();
}
