//! Domains that the API has made.

use super::background::{BOUND, batch, gap, path};
use super::*;
use crate::control_plane::BackgroundKind;
use edgelink_wire::domain::Domain;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{CodeFilter, CodeLength, DomainTargets, Entry, FeedPosition, Snapshot};

const SECTIONS: &str = r#","snapshot":{},"poll":{},"admission":{},"apiDomains":true"#;

const TARGETS: DomainTargets<&str> = DomainTargets {
    root: Some("https://brand/"),
    not_found: Some("https://brand/none"),
    expired: Some("https://brand/over"),
};

fn record(name: &str, targets: DomainTargets<&str>, rev: u64) -> Record<String> {
    targets.record(&Domain::parse(name).unwrap(), rev)
}

/// As of `at` in the feed, with these domains, and the alias `sale`.
fn snapshot(at: u64, domains: &[(&str, Record<String>)]) -> Vec<u8> {
    let mut codes = CodeFilter::with_capacity(0).unwrap();
    codes.insert(b"sale");
    let keys: Vec<String> = domains.iter().map(|(name, _)| format!("{name}/")).collect();
    let entry = |(key, (_, record)): (&'_ String, &'_ (&str, Record<String>))| {
        let mut bytes = Vec::new();
        Entry {
            key: key.as_bytes(),
            record: record.as_deref(),
        }
        .encode(&mut bytes);
        bytes
    };
    let entries: Vec<Vec<u8>> = keys.iter().zip(domains).map(entry).collect();
    let hot = entries.iter().map(|bytes| Entry::decode(bytes).unwrap());
    Snapshot {
        generation: GENERATION,
        position: FeedPosition::new(at, 0),
        bound: BOUND,
        length: CodeLength::DEFAULT,
        key: None,
        domains: vec!["go.example"],
        codes,
        hot: hot.collect(),
    }
    .to_bytes()
}

fn brand(rev: u64) -> (&'static str, Record<String>) {
    ("brand.example", record("brand.example", TARGETS, rev))
}

fn put<'a>(key: &'a str, record: &'a Record<String>) -> FeedMessage<'a> {
    FeedMessage::Put {
        key,
        record: record.as_deref(),
        hot: false,
    }
}

fn to(location: &str, tier: &str) -> Became {
    Answered(redirect(location, tier))
}

impl World {
    /// A worker that knows these domains, and whose feed is current.
    fn with_domains(more: &str, domains: &[(&str, Record<String>)]) -> Self {
        let mut world = Self::with_background(&format!("{SECTIONS}{more}"));
        world.answer_snapshot(&snapshot(5, domains));
        world.pass(100);
        world.answer_poll(&batch(6, &[]));
        world.pass(100);
        world.answer_poll(&batch(6, &[]));
        world.pass(100);
        world
    }

    /// A request to a host.
    fn visit_host(&mut self, host: &str, path: &str) -> Became {
        self.last_stream += 1;
        let stream = self.last_stream;
        let request = (stream, host.to_owned(), path.to_owned());
        self.requests.push(request);
        self.request_of(stream, Edge::on_request)
    }

    /// Decides again about those that have waited until the domains are known.
    pub(super) fn decide_again(&mut self, resumed: &Resumed) {
        for waiter in &resumed.waiters {
            let became = self.request_of(waiter.stream, Edge::on_request_again);
            self.decided.push(became);
        }
    }

    fn request_of(
        &mut self,
        stream: StreamId,
        decide: for<'e> fn(
            &'e mut Edge,
            &mut Host,
            StreamId,
            &Head<'_>,
            Moment,
        ) -> Step<Answer<'e>>,
    ) -> Became {
        let mut requests = self.requests.iter();
        let (_, host, path) = requests.find(|(of, ..)| *of == stream).unwrap().clone();
        let head = Head {
            authority: host.as_bytes(),
            ..get(&path)
        };
        let now = Moment::from_millis(self.now);
        let (became, callout) = match decide(&mut self.edge, &mut self.host, stream, &head, now) {
            Step::Pass => (Passed, None),
            Step::Answer(answer, callout) => (Answered(seen(&answer)), callout),
            Step::Wait(callout) => (Waiting(stream), callout),
            Step::Hold(..) => unreachable!("a GET is no form"),
        };
        if let Some(callout) = callout {
            self.send(&callout);
        }
        became
    }
}

#[test]
fn a_domain_of_the_snapshot_has_links_of_its_own() {
    let mut world = World::with_domains("", &[brand(1)]);
    let waiting = world.visit_host("Brand.Example:443", "/sale");
    assert!(matches!(waiting, Waiting(_)), "{waiting:?}");
    let token = world.last_token;
    let answers = world.end_with(token, "brand.example/sale", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(
        world.visit_host("brand.example", "/sale"),
        to("https://e/", "lru")
    );
    assert_eq!(
        world.visit_host("brand.example", "/"),
        to("https://brand/", "domain")
    );
    assert_eq!(
        world.visit_host("brand.example", "/?a=b"),
        to("https://brand/", "domain")
    );
    assert_eq!(world.visit_host("go.example", "/"), Passed);
    assert_eq!(world.visit_host("brand.example", "/a/b"), Passed);
    assert_eq!(world.counted("requests.domain.redirect"), 2);
    assert_eq!(
        world.counted("lru_entries"),
        1,
        "the record of a domain is none of a link"
    );
}

#[test]
fn visitors_without_a_link_are_sent_where_the_domain_says() {
    let mut world = World::with_domains("", &[brand(1)]);
    let never = path(BOUND + 1);
    let elsewhere = to("https://brand/none", "admission");
    assert_eq!(world.visit_host("brand.example", &never), elsewhere);
    assert_eq!(world.lookups, 0);
    assert_eq!(world.counted("requests.admission.not_found"), 1);
    let page_of_default = Answered(page(404, "admission"));
    assert_eq!(world.visit_host("go.example", &never), page_of_default);
    assert_eq!(world.visit_host("unknown.example", &never), page_of_default);

    world.visit_host("brand.example", "/sale");
    let gone = Record::Link(edgelink_wire::LinkRecord {
        state: edgelink_wire::LinkState::Disabled,
        ..match link("https://e/", 1) {
            Record::Link(link) => link,
            Record::Absent { .. } => unreachable!(),
        }
    });
    let answers = world.end_with(world.last_token, "brand.example/sale", gone);
    assert_eq!(answers, [redirect("https://brand/over", "control-plane")]);
    assert_eq!(
        world.visit_host("brand.example", "/sale"),
        to("https://brand/over", "lru")
    );
    world.pass(100);
    let without = record("brand.example", DomainTargets::default(), 2);
    world.answer_poll(&batch(7, &[put("brand.example/", &without)]));
    assert_eq!(
        world.visit_host("brand.example", "/sale"),
        Answered(page(410, "lru"))
    );
    assert_eq!(world.visit_host("brand.example", "/"), Passed);
}

#[test]
fn a_domain_comes_and_goes_by_the_feed() {
    let unknown = r#","unknownHosts":"notFound""#;
    let mut world = World::with_domains(unknown, &[]);
    let none = Answered(page(404, "unknown-host"));
    assert_eq!(world.visit_host("brand.example", "/sale"), none);
    let (_, made) = brand(3);
    world.answer_poll(&batch(7, &[put("brand.example/", &made)]));
    assert_eq!(
        world.visit_host("brand.example", "/"),
        to("https://brand/", "domain")
    );
    assert!(matches!(
        world.visit_host("brand.example", "/sale"),
        Waiting(_)
    ));
    world.pass(100);
    let removed = FeedMessage::Del {
        key: "brand.example/",
        rev: 4,
    };
    world.answer_poll(&batch(8, &[removed, put("brand.example/", &made)]));
    assert_eq!(world.visit_host("brand.example", "/sale"), none);
    assert_eq!(world.visit_host("brand.example", "/"), Passed);
}

#[test]
fn a_configured_domain_has_what_the_api_has_set() {
    let go = record("go.example", TARGETS, 1);
    let mut world = World::with_domains("", &[("go.example", go)]);
    for host in ["go.example", "unknown.example"] {
        assert_eq!(world.visit_host(host, "/"), to("https://brand/", "domain"));
        let elsewhere = to("https://brand/none", "admission");
        assert_eq!(world.visit_host(host, &path(BOUND + 1)), elsewhere);
    }
}

#[test]
fn a_request_to_an_unknown_host_waits_for_the_snapshot() {
    let mut world = World::with_background(SECTIONS);
    assert!(matches!(
        world.visit_host("brand.example", "/sale"),
        Waiting(_)
    ));
    assert!(matches!(
        world.visit_host("gone.example", "/sale"),
        Waiting(_)
    ));
    let Waiting(left) = world.visit_host("unknown.example", "/sale") else {
        panic!("it waits");
    };
    world.edge.on_stream_end(left);
    assert_eq!(world.visit_host("brand.example", "/"), Passed);
    assert!(matches!(
        world.visit_host("go.example", "/sale"),
        Waiting(_)
    ));
    assert_eq!(world.lookups, 1, "of the configured domain");
    world.answer_snapshot(&snapshot(5, &[brand(1)]));
    let [first, second] = world.decided.as_slice() else {
        panic!("{:?}", world.decided);
    };
    // One for its own link, one with the visitors of the default domain.
    assert!(matches!((first, second), (Waiting(_), Waiting(_))));
    assert_eq!(world.lookups, 2);
}

#[test]
fn without_a_snapshot_an_unknown_host_is_503() {
    let mut world = World::with_background(SECTIONS);
    assert!(matches!(
        world.visit_host("brand.example", "/sale"),
        Waiting(_)
    ));
    world.fail_background(BackgroundKind::Snapshot);
    assert_eq!(world.decided, [Answered(unavailable())]);
    assert!(matches!(
        world.visit_host("brand.example", "/sale"),
        Waiting(_)
    ));
    world.decided.clear();
    for _ in 0..19 {
        world.pass(100);
    }
    assert!(world.decided.is_empty());
    world.pass(100);
    assert_eq!(world.decided, [Answered(unavailable())]);
}

#[test]
fn after_a_gap_the_domains_stay_and_others_wait_for_a_newer_snapshot() {
    let mut world = World::with_domains("", &[brand(1)]);
    world.answer_poll(&gap(9));
    assert_eq!(
        world.visit_host("brand.example", "/"),
        to("https://brand/", "domain")
    );
    assert!(matches!(
        world.visit_host("new.example", &path(BOUND + 1)),
        Waiting(_)
    ));
    for _ in 0..10 {
        world.pass(100);
    }
    let new = ("new.example", record("new.example", TARGETS, 1));
    world.answer_snapshot(&snapshot(8, std::slice::from_ref(&new)));
    assert!(world.decided.is_empty(), "it is older");
    for _ in 0..9 {
        world.pass(100);
    }
    world.answer_snapshot(&snapshot(9, &[new]));
    assert_eq!(world.decided, [to("https://brand/none", "admission")]);
    assert_eq!(world.visit_host("brand.example", "/"), Passed);
}

#[test]
fn a_change_that_is_not_understood_has_the_domains_fetched_again() {
    let mut world = World::with_domains("", &[brand(1)]);
    let changed = FeedMessage::Changed {
        key: "brand.example/",
    };
    world.answer_poll(&batch(9, &[changed]));
    for _ in 0..10 {
        world.pass(100);
    }
    let other = DomainTargets {
        root: Some("https://other/"),
        ..TARGETS
    };
    let other = ("brand.example", record("brand.example", other, 2));
    world.answer_snapshot(&snapshot(9, &[other]));
    assert_eq!(
        world.visit_host("brand.example", "/"),
        to("https://other/", "domain")
    );
}

#[test]
fn while_the_feed_is_silent_known_domains_stay_and_an_unknown_host_is_503() {
    let mut world = World::with_domains("", &[brand(1)]);
    world.fail_background(BackgroundKind::Poll);
    world.pass(6_000);
    assert_eq!(
        world.visit_host("unknown.example", "/sale"),
        Answered(unavailable())
    );
    assert_eq!(
        world.visit_host("brand.example", "/"),
        to("https://brand/", "domain")
    );
    assert!(matches!(
        world.visit_host("brand.example", "/sale"),
        Waiting(_)
    ));
}

#[test]
fn domains_that_are_switched_off_are_unknown_hosts() {
    let mut world = World::with_domains("", &[brand(1)]);
    let sections = r#","snapshot":{},"poll":{},"admission":{}"#;
    let settings = Arc::new(settings_with(sections));
    world.edge.configure(&mut world.host, settings);
    assert_eq!(world.visit_host("brand.example", "/"), Passed);
    let of_default = Answered(page(404, "admission"));
    assert_eq!(
        world.visit_host("brand.example", &path(BOUND + 1)),
        of_default
    );
}
