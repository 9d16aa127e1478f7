//! Domains created through the API.

use super::background::{BOUND, batch, gap, path};
use super::rules::map;
use super::*;
use crate::control_plane::BackgroundKind;
use crate::request::HeaderMap;
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

/// A snapshot at `at` in the feed, with these domains, and the alias `sale`.
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
        record: encoded(&record.as_deref()),
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
        self.request_of(stream, |edge, host, stream, head, now| {
            edge.on_request(host, stream, head, now)
        })
    }

    /// Decides again the requests that have waited for the domains.
    pub(super) fn decide_again(&mut self, resumed: &Resumed, again: Again) {
        for waiter in &resumed.waiters {
            let became = self.request_of(waiter.stream, |edge, host, stream, head, now| {
                edge.on_request_again(host, stream, head, now, again)
            });
            self.decided.push(became);
        }
    }

    fn request_of(
        &mut self,
        stream: StreamId,
        decide: impl for<'e> FnOnce(
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
fn domain_when_in_the_snapshot_has_links_of_its_own() {
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
    let nowhere = to("https://brand/none", "domain");
    for path in ["/a/b", "/sale.", "/sale)", "/a/b?c"] {
        assert_eq!(world.visit_host("brand.example", path), nowhere, "{path}");
    }
    for path in ["/robots.txt", "/.well-known/x", "/api/v1/links"] {
        assert_eq!(world.visit_host("brand.example", path), Passed, "{path}");
    }
    assert_eq!(world.visit_host("go.example", "/a/b"), Passed);
    assert_eq!(world.counted("requests.domain.redirect"), 2);
    assert_eq!(world.counted("requests.domain.not_found"), 4);
    assert_eq!(
        world.counted("lru_entries"),
        1,
        "the record of a domain is none of a link"
    );
}

#[test]
fn request_when_without_a_link_goes_where_the_domain_says() {
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
fn domain_when_put_or_deleted_by_the_feed_comes_and_goes() {
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
fn domain_when_configured_has_the_targets_of_the_api() {
    let go = record("go.example", TARGETS, 1);
    let mut world = World::with_domains("", &[("go.example", go)]);
    for host in ["go.example", "unknown.example"] {
        assert_eq!(world.visit_host(host, "/"), to("https://brand/", "domain"));
        let elsewhere = to("https://brand/none", "admission");
        assert_eq!(world.visit_host(host, &path(BOUND + 1)), elsewhere);
    }
}

/// A worker that has neither snapshot nor feed.
fn without_domains(more: &str) -> World {
    World::with_background(&format!("{SECTIONS}{more}"))
}

const NONE: Record<&str> = Record::Absent { rev: 0 };

#[test]
fn host_when_it_may_be_a_domain_is_looked_up() {
    let mut world = without_domains("");
    assert!(matches!(
        world.visit_host("Unknown.example:443", "/sale"),
        Waiting(_)
    ));
    let token = world.last_token;
    assert!(matches!(
        world.visit_host("unknown.example:443", "/sale"),
        Waiting(_)
    ));
    assert_eq!(world.lookups, 1, "they share it");
    assert!(
        world
            .end_with(token, "unknown.example:443/", NONE)
            .is_empty()
    );
    // Both wait for the link of the default domain now.
    let [Waiting(_), Waiting(_)] = world.decided[..] else {
        panic!("{:?}", world.decided);
    };
    let answers = world.end_with(world.last_token, "go.example/sale", link("https://e/", 1));
    assert_eq!(answers.len(), 2);
    assert_eq!(world.lookups, 2);
}

#[test]
fn host_when_found_to_be_a_domain_stays_one() {
    let mut world = without_domains("");
    world.visit_host("brand.example:443", "/sale");
    let (_, brand) = brand(3);
    world.end_with(world.last_token, "brand.example:443/", brand.as_deref());
    assert!(matches!(world.decided[..], [Waiting(_)]));
    let answers = world.end_with(
        world.last_token,
        "brand.example/sale",
        link("https://e/", 1),
    );
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(
        world.visit_host("brand.example", "/"),
        to("https://brand/", "domain")
    );
    assert_eq!(world.lookups, 2);
}

#[test]
fn host_when_made_a_domain_during_its_lookup_is_one() {
    let mut world = without_domains("");
    world.visit_host("brand.example", &path(BOUND + 1));
    let token = world.last_token;
    world.answer_snapshot(&snapshot(5, &[brand(1)]));
    world.end_with(token, "brand.example/", NONE);
    assert!(matches!(world.decided[..], [Waiting(_)]));
    let answers = world.end_with(
        world.last_token,
        &format!("brand.example{}", path(BOUND + 1)),
        NONE,
    );
    assert_eq!(answers, [redirect("https://brand/none", "control-plane")]);
}

#[test]
fn request_when_host_lookup_and_snapshot_fail_is_503() {
    let mut world = without_domains("");
    world.visit_host("brand.example", "/sale");
    world.time_out(world.last_token);
    assert!(
        matches!(world.decided[..], [Waiting(_)]),
        "for the snapshot"
    );
    // The control plane has just not answered: this one waits for the snapshot at once.
    assert!(matches!(
        world.visit_host("other.example", "/sale"),
        Waiting(_)
    ));
    assert_eq!(world.lookups, 1);
    world.decided.clear();
    world.fail_background(BackgroundKind::Snapshot);
    let unavailable = || Answered(unavailable());
    assert_eq!(world.decided, [unavailable(), unavailable()]);
    world.decided.clear();
    let again = world.visit_host("other.example", "/sale");
    assert!(matches!(again, Waiting(_)));
    for _ in 0..20 {
        world.pass(100);
    }
    assert_eq!(world.decided, [unavailable()]);
    world.visit_host("other.example", "/sale");
    assert_eq!(world.lookups, 2, "it is asked again after a pause");
}

#[test]
fn waiter_when_the_snapshot_comes_is_decided_by_it() {
    let mut world = without_domains("");
    world.visit_host("brand.example", "/sale");
    world.time_out(world.last_token);
    let Waiting(left) = world.visit_host("unknown.example", "/sale") else {
        panic!("it waits");
    };
    world.edge.on_stream_end(left);
    assert_eq!(world.visit_host("brand.example", "/"), Passed);
    world.decided.clear();
    world.answer_snapshot(&snapshot(5, &[brand(1)]));
    assert!(matches!(world.decided[..], [Waiting(_)]), "for its link");
    let answers = world.end_with(
        world.last_token,
        "brand.example/sale",
        link("https://e/", 1),
    );
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
}

#[test]
fn host_when_its_answer_is_too_old_waits_for_the_snapshot() {
    let mut world = without_domains("");
    world.visit_host("unknown.example", "/sale");
    world.end_with_age(world.last_token, "unknown.example/", NONE, 5_000);
    assert!(
        matches!(world.decided[..], [Waiting(_)]),
        "for the snapshot"
    );
    assert_eq!(world.lookups, 1);
}

#[test]
fn host_when_not_a_domain_name_is_unknown() {
    let mut world = without_domains("");
    for host in ["", "no_domain", "a..b", "\u{fc}.example"] {
        world.visit_host(host, "/sale");
    }
    assert_eq!(world.lookups, 1, "that of the link");
    let mut refusing = without_domains(r#","unknownHosts":"notFound""#);
    let none = Answered(page(404, "unknown-host"));
    assert_eq!(refusing.visit_host("no_domain", "/sale"), none);
}

#[test]
fn host_lookups_when_many_leave_room_for_links() {
    let mut world = without_domains("");
    let most = world.edge.settings().control_plane.max_pending as u32 / 8;
    let most = most.max(1);
    for number in 0..most {
        let host = format!("{number}.example");
        assert!(matches!(world.visit_host(&host, "/sale"), Waiting(_)));
    }
    assert_eq!(world.lookups, most);
    world.visit_host("one-more.example", "/sale");
    assert_eq!(world.lookups, most);
    world.visit_host("go.example", "/sale");
    assert_eq!(world.lookups, most + 1, "that of a link");
}

#[test]
fn domains_when_a_gap_comes_stay_until_a_newer_snapshot() {
    let mut world = World::with_domains("", &[brand(1)]);
    world.answer_poll(&gap(9));
    assert_eq!(
        world.visit_host("brand.example", "/"),
        to("https://brand/", "domain")
    );
    for _ in 0..10 {
        world.pass(100);
    }
    let new = ("new.example", record("new.example", TARGETS, 1));
    world.answer_snapshot(&snapshot(8, std::slice::from_ref(&new)));
    assert!(
        matches!(
            world.visit_host("new.example", &path(BOUND + 1)),
            Waiting(_)
        ),
        "it is older: the control plane is asked"
    );
    for _ in 0..9 {
        world.pass(100);
    }
    world.answer_snapshot(&snapshot(9, &[new]));
    assert_eq!(
        world.visit_host("new.example", &path(BOUND + 1)),
        to("https://brand/none", "admission")
    );
    assert_eq!(world.visit_host("brand.example", "/"), Passed);
}

#[test]
fn domains_when_a_change_is_not_understood_are_fetched_again() {
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

/// A worker whose feed is silent for 6 s, with a link of the default domain.
fn silent(more: &str) -> World {
    let mut world = World::with_domains(more, &[brand(1)]);
    world.visit_host("go.example", "/sale");
    let key = "go.example/sale";
    world.end_with(world.last_token, key, link("https://e/", 1));
    world.fail_background(BackgroundKind::Poll);
    world.pass(6_000);
    world.lookups = 0;
    world
}

#[test]
fn unknown_host_when_the_feed_is_silent_is_looked_up() {
    let mut world = silent("");
    assert_eq!(
        world.visit_host("brand.example", "/"),
        to("https://brand/", "domain")
    );
    assert!(matches!(
        world.visit_host("unknown.example", "/sale"),
        Waiting(_)
    ));
    assert_eq!(world.lookups, 1);
    world.end_with(world.last_token, "unknown.example/", NONE);
    assert!(matches!(world.decided[..], [Waiting(_)]), "for its link");
    let answers = world.end_with(world.last_token, "go.example/sale", link("https://new/", 2));
    assert_eq!(answers, [redirect("https://new/", "control-plane")]);
    let known = to("https://new/", "lru");
    assert_eq!(world.visit_host("unknown.example", "/sale"), known);
    assert_eq!(world.lookups, 2);
    // It is looked up again once the answer is no longer fresh.
    world.pass(6_000);
    world.visit_host("unknown.example", "/sale");
    assert_eq!(world.lookups, 3);
}

#[test]
fn unknown_host_when_its_lookup_fails_is_served_stale() {
    let mut world = silent("");
    world.visit_host("unknown.example", "/sale");
    world.time_out(world.last_token);
    let stale = to("https://e/", "stale");
    assert_eq!(world.decided, [stale]);
    // For a while no visitor waits for a control plane that has just not answered, for any host.
    for host in ["unknown.example", "other.example"] {
        let stale = to("https://e/", "stale");
        assert_eq!(world.visit_host(host, "/sale"), stale, "{host}");
    }
    assert_eq!(world.lookups, 1);
    let unavailable = Answered(unavailable());
    assert_eq!(world.visit_host("other.example", "/none"), unavailable);
    assert_eq!(
        world.visit_host("unknown.example", "/"),
        Passed,
        "the default domain has no target"
    );
}

#[test]
fn link_when_fresh_on_a_doubtful_host_is_served_as_stale() {
    let mut world = silent("");
    world.visit_host("go.example", "/sale");
    world.end_with(world.last_token, "go.example/sale", link("https://new/", 2));
    assert_eq!(
        world.visit_host("go.example", "/sale"),
        to("https://new/", "lru")
    );
    world.visit_host("unknown.example", "/sale");
    world.decided.clear();
    world.time_out(world.last_token);
    assert_eq!(world.decided, [to("https://new/", "stale")]);
}

#[test]
fn unknown_host_when_its_lookup_fails_is_503_not_404() {
    let mut world = silent(r#","unknownHosts":"notFound""#);
    world.visit_host("unknown.example", "/sale");
    world.time_out(world.last_token);
    assert_eq!(world.decided, [Answered(unavailable())]);
    world.pass(2_000);
    world.visit_host("unknown.example", "/sale");
    world.decided.clear();
    world.end_with(world.last_token, "unknown.example/", NONE);
    assert_eq!(world.decided, [Answered(page(404, "unknown-host"))]);
}

impl World {
    /// A form that is sent to `/sale` of a host, or continues after it has waited.
    fn form_to(&mut self, host: &str, again: Option<Again>) -> Became {
        let headers = map(&[
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-length", "15"),
        ]);
        let head = Head {
            method: b"POST",
            authority: host.as_bytes(),
            headers: HeaderMap::new(&headers),
            ..get("/sale")
        };
        self.last_stream += u32::from(again.is_none());
        let (stream, now) = (self.last_stream, Moment::from_millis(self.now));
        let World { edge, host, .. } = self;
        let step = match again {
            None => edge.on_request(host, stream, &head, now),
            Some(again) => edge.on_request_again(host, stream, &head, now, again),
        };
        let (became, callout) = match step {
            Step::Pass => (Passed, None),
            Step::Answer(answer, callout) => (Answered(seen(&answer)), callout),
            Step::Wait(callout) | Step::Hold(callout, _) => (Waiting(stream), callout),
        };
        if let Some(callout) = callout {
            self.send(&callout);
        }
        became
    }

    /// The outcome of a form that waits for its host, once the control plane gives that answer.
    fn form_after(&mut self, host: &str, status: &[u8], record: Record<&str>) -> Became {
        let Waiting(stream) = self.form_to(host, None) else {
            panic!("the control plane is asked for {host}");
        };
        assert!(!self.edge.holds_form(stream), "it may be none");
        let response = Response {
            status,
            content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
            body: &aged(&format!("{host}/"), record, 0),
        };
        let (token, now) = (self.last_token, Moment::from_millis(self.now));
        let mut actions = self
            .edge
            .on_callout_end(&mut self.host, token, response, now);
        let Some(Action::Resume(resumed)) = actions.pop() else {
            panic!("{actions:?}");
        };
        assert!(!resumed.waiters[0].is_form);
        self.form_to(host, resumed.again())
    }
}

#[test]
fn form_when_its_doubtful_host_is_no_domain_passes() {
    let unknown = r#","unknownHosts":"notFound""#;
    let mut world = silent(unknown);
    let passed = world.form_after("unknown.example", b"404", NONE);
    assert_eq!(passed, Passed);
    let known = world.form_to("unknown.example", None);
    assert_eq!((known, world.lookups), (Passed, 1), "it is kept");
    let passed = without_domains(unknown).form_after("unknown.example", b"404", NONE);
    assert_eq!(passed, Passed, "before the first snapshot");
}

#[test]
fn form_when_its_host_stays_in_doubt_is_503() {
    let mut world = silent(r#","unknownHosts":"notFound""#);
    let after = world.form_after("unknown.example", b"503", NONE);
    assert_eq!(after, Answered(unavailable()));
    let at_once = world.form_to("other.example", None);
    assert_eq!(at_once, Answered(unavailable()));
}

#[test]
fn form_when_its_host_is_found_a_domain_is_503_then_held() {
    let mut world = silent(r#","unknownHosts":"notFound""#);
    let made = record("made.example", TARGETS, 3);
    let after = world.form_after("made.example", b"200", made.as_deref());
    assert_eq!(after, Answered(unavailable()));
    let Waiting(next) = world.form_to("made.example", None) else {
        panic!("its link is looked up");
    };
    assert!(world.edge.holds_form(next));
}

#[test]
fn link_when_too_old_on_a_doubtful_host_is_not_served() {
    let mut world = silent(r#","staleSeconds":10"#);
    world.pass(5_000);
    world.visit_host("unknown.example", "/sale");
    world.time_out(world.last_token);
    assert!(matches!(world.decided[..], [Waiting(_)]), "for a snapshot");
}

#[test]
fn domains_when_switched_off_are_unknown_hosts() {
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
