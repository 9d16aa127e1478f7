//! Links with rules: targets by visitor.

use super::*;
use crate::flights::Waiter;
use crate::request::HeaderMap;
use edgelink_wire::LinkRecord;
use edgelink_wire::record::Extension;
use edgelink_wire::rules::{self, Rule, Rules};

/// An encoded header map.
pub(super) fn map(headers: &[(&str, &str)]) -> Vec<u8> {
    let length = |text: &str| u32::try_from(text.len()).unwrap().to_le_bytes();
    let mut out = u32::try_from(headers.len()).unwrap().to_le_bytes().to_vec();
    for (name, value) in headers {
        out.extend(length(name));
        out.extend(length(value));
    }
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        out.extend(text.as_bytes());
        out.push(0);
    }
    out
}

/// The extension with a rule that leads to `https://rule/` on one condition.
fn rule(condition: &str) -> Vec<u8> {
    let json = format!(r#"[{{"longUrl":"https://rule/","conditions":[{condition}]}}]"#);
    let rules: Vec<Rule> = serde_json::from_str(&json).unwrap();
    let encoded = rules::encode(&rules).unwrap();
    let rules = Rules::of_encoded(&encoded);
    Extension {
        rules,
        ..Extension::default()
    }
    .to_bytes()
}

fn with_rule(extension: &[u8], rev: u64) -> Record<&str> {
    let Record::Link(link) = link("https://own/?own=1", rev) else {
        unreachable!()
    };
    Record::Link(LinkRecord { extension, ..link })
}

impl World {
    /// The control plane answers; returns the resumed waiters.
    pub(super) fn resume(&mut self, token: Token, key: &str, record: Record<&str>) -> Resumed {
        let response = Response {
            status: match record {
                Record::Link(_) => b"200",
                Record::Absent { .. } => b"404",
            },
            content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
            body: &aged(key, record, 0),
        };
        let now = Moment::from_millis(self.now);
        let mut actions = self
            .edge
            .on_callout_end(&mut self.host, token, response, now);
        match actions.pop() {
            Some(Action::Resume(resumed)) => resumed,
            other => panic!("{other:?}"),
        }
    }

    /// The control plane answers, and so do the waiters' requests, each by its path.
    pub(super) fn answer_waiters(
        &mut self,
        token: Token,
        key: &str,
        record: Record<&str>,
        path_of: impl Fn(StreamId) -> &'static str,
    ) -> Vec<Seen> {
        let resumed = self.resume(token, key, record);
        let waiters = resumed.waiters.iter();
        let answer = |waiter: &Waiter| {
            let head = get(path_of(waiter.stream));
            seen(
                &self
                    .edge
                    .answer(&self.host, *waiter, &resumed, &head)
                    .unwrap(),
            )
        };
        waiters.map(answer).collect()
    }

    /// The target from the caches for a visitor with those headers.
    fn sent_to(&mut self, path: &str, headers: &[(&str, &str)]) -> String {
        let map = map(headers);
        let head = Head {
            headers: HeaderMap::new(&map),
            ..get(path)
        };
        self.last_stream += 1;
        if let Some(Answered(seen)) = self.hit(self.last_stream, &head) {
            return seen.location.unwrap();
        }
        match self.request(self.last_stream, &head) {
            Step::Answer(answer, _) => seen(&answer).location.unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn rule_when_its_conditions_hold_sends_to_its_target() {
    let geo = r#","geo":{"countryHeader":"X-Country","cityHeader":"x-city"}"#;
    let mut world = World::with(settings_with(geo));
    for (index, (condition, headers)) in [
        (
            r#"{"type":"device","matchKey":null,"matchValue":"android"}"#,
            ("user-agent", "Android"),
        ),
        (
            r#"{"type":"language","matchKey":null,"matchValue":"de"}"#,
            ("accept-language", "de-AT"),
        ),
        (
            r#"{"type":"geolocation-country-code","matchKey":null,"matchValue":"ES"}"#,
            ("x-country", "ES"),
        ),
        (
            r#"{"type":"geolocation-city-name","matchKey":null,"matchValue":"Bonn"}"#,
            ("x-city", "Bonn"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (code, path) = (format!("r{index}"), format!("/r{index}"));
        let extension = rule(condition);
        world.know(&code, with_rule(&extension, 1));
        assert_eq!(
            world.sent_to(&path, &[headers]),
            "https://rule/",
            "{condition}"
        );
        assert_eq!(
            world.sent_to(&path, &[("x-other", headers.1)]),
            "https://own/?own=1"
        );
        let query = format!("{path}?a=1");
        assert_eq!(world.sent_to(&query, &[headers]), "https://rule/?a=1");
        assert_eq!(world.sent_to(&query, &[]), "https://own/?own=1&a=1");
    }
}

#[test]
fn rule_when_about_addresses_believes_the_proxy_only() {
    let mut world = World::new();
    let extension = rule(r#"{"type":"ip-address","matchKey":null,"matchValue":"192.0.2.0/24"}"#);
    world.know("a", with_rule(&extension, 1));
    let forged = [("x-forwarded-for", "192.0.2.7")];
    assert_eq!(world.sent_to("/a", &forged), "https://own/?own=1");
    world.host.client = Some("192.0.2.9".parse().unwrap());
    assert_eq!(world.sent_to("/a", &[]), "https://rule/");
}

#[test]
fn country_rule_when_geo_is_not_configured_never_matches() {
    let mut world = World::new();
    let extension =
        rule(r#"{"type":"geolocation-country-code","matchKey":null,"matchValue":"ES"}"#);
    world.know("a", with_rule(&extension, 1));
    assert_eq!(
        world.sent_to("/a", &[("", "ES"), ("x-country", "ES")]),
        "https://own/?own=1"
    );
}

#[test]
fn waiters_when_the_link_has_rules_are_matched_by_own_headers() {
    let mut world = World::new();
    let extension = rule(r#"{"type":"device","matchKey":null,"matchValue":"android"}"#);
    let record = with_rule(&extension, 1);
    let token = world.ask("/a");
    let Waiting(second) = world.visit("/a") else {
        panic!("it waits");
    };
    let resumed = world.resume(token, "go.example/a", record);
    assert!(resumed.needs_headers());
    let android = map(&[("user-agent", "Android")]);
    let sent_to: Vec<_> = resumed
        .waiters
        .iter()
        .map(|waiter| {
            let headers = HeaderMap::new(if waiter.stream == second {
                &android
            } else {
                &[]
            });
            let head = Head {
                headers,
                ..get("/a")
            };
            seen(
                &world
                    .edge
                    .answer(&world.host, *waiter, &resumed, &head)
                    .unwrap(),
            )
            .location
            .unwrap()
        })
        .collect();
    assert_eq!(sent_to, ["https://own/?own=1", "https://rule/"]);
    let token = world.ask("/b");
    let plain = world.resume(token, "go.example/b", link("https://b/", 1));
    assert!(!plain.needs_headers());
}

#[test]
fn rules_when_the_feed_changes_them_take_effect() {
    let mut world = World::with_feed();
    let android = [("user-agent", "Android")];
    let key = "go.example/a";
    world.know("a", link("https://own/?own=1", 1));
    assert_eq!(world.sent_to("/a", &android), "https://own/?own=1");
    let extension = rule(r#"{"type":"device","matchKey":null,"matchValue":"android"}"#);
    for (record, target) in [
        (with_rule(&extension, 2), "https://rule/"),
        (link("https://own/?own=1", 3), "https://own/?own=1"),
    ] {
        let (record, hot) = (encoded(&record), false);
        world.receive(&[FeedMessage::Put { key, record, hot }]);
        assert_eq!(world.sent_to("/a", &android), target);
    }
    assert_eq!(world.lookups, 1);
}
