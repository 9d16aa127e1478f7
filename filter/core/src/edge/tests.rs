//! The edge against a scripted proxy.

use super::*;
use crate::fake::{Host, entry, link, settings, settings_with};
use edgelink_wire::Entry;
use proptest::prelude::*;

const START: u64 = 1_000_000_000;

/// A worker in its proxy. Callouts are kept until a test ends them.
struct World {
    edge: Edge,
    host: Host,
    now: u64,
    last_stream: StreamId,
    last_token: Token,
}

/// What a visitor saw.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    location: Option<String>,
    tier: String,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Became {
    Passed,
    Answered(Seen),
    Waiting(StreamId),
}

use Became::{Answered, Passed, Waiting};

fn seen(answer: &Answer<'_>) -> Seen {
    let header = |name| {
        let mut headers = answer.headers();
        headers
            .find(|(each, _)| *each == name)
            .map(|(_, value)| value.to_owned())
    };
    Seen {
        status: answer.status,
        location: header("location"),
        tier: header("x-edgelink-tier").unwrap(),
    }
}

fn redirect(location: &str, tier: &str) -> Seen {
    Seen {
        status: 302,
        location: Some(location.to_owned()),
        tier: tier.to_owned(),
    }
}

fn page(status: u16, tier: &str) -> Seen {
    Seen {
        status,
        location: None,
        tier: tier.to_owned(),
    }
}

fn unavailable() -> Seen {
    page(503, "control-plane")
}

impl World {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        let mut host = Host::default();
        host.headers.insert(":method", b"GET".to_vec());
        Self {
            edge: Edge::new(Rc::new(settings), 7, Moment::from_millis(START)),
            host,
            now: START,
            last_stream: 100,
            last_token: 0,
        }
    }

    /// A second worker of the same proxy.
    fn other_worker(&self) -> Self {
        let mut other = Self::with(settings());
        other.host.store = self.host.store.clone();
        other.pass(self.now - START);
        other
    }

    /// A request; a callout that it makes is sent.
    fn visit(&mut self, path: &str) -> Became {
        self.visit_and_send(path).0
    }

    fn visit_and_send(&mut self, path: &str) -> (Became, Option<Token>) {
        self.last_stream += 1;
        let stream = self.last_stream;
        let (became, callout) = match self
            .edge
            .on_request(&mut self.host, stream, path.as_bytes())
        {
            Step::Pass => (Passed, None),
            Step::Answer(answer, callout) => (Answered(seen(&answer)), callout),
            Step::Wait(callout) => (Waiting(stream), callout),
        };
        let token = callout.map(|callout| {
            self.last_token += 1;
            self.edge.on_sent(
                callout.flight,
                self.last_token,
                Moment::from_millis(self.now),
            );
            self.last_token
        });
        (became, token)
    }

    /// A request that must wait for a callout of its own.
    fn ask(&mut self, path: &str) -> Token {
        match self.visit_and_send(path) {
            (Waiting(_), Some(token)) => token,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, token: Token, response: Response<'_>) -> Vec<Seen> {
        let now = Moment::from_millis(self.now);
        let resumed = self
            .edge
            .on_callout_end(&mut self.host, token, response, now);
        resumed.map_or_else(Vec::new, |resumed| self.answers(&resumed))
    }

    fn answers(&mut self, resumed: &Resumed) -> Vec<Seen> {
        let streams = resumed.streams.iter();
        streams
            .map(|_| seen(&self.edge.answer(resumed, b"/x")))
            .collect()
    }

    fn end_with(&mut self, token: Token, key: &str, record: Record<&str>) -> Vec<Seen> {
        let body = entry(key, record);
        let status = match record {
            Record::Link(_) => b"200",
            Record::Absent { .. } => b"404",
        };
        let response = Response {
            status,
            content_type: Entry::MEDIA_TYPE.as_bytes(),
            body: &body,
        };
        self.end(token, response)
    }

    fn time_out(&mut self, token: Token) -> Vec<Seen> {
        let response = Response {
            status: b"504",
            ..Response::default()
        };
        self.end(token, response)
    }

    /// Makes a link known.
    fn know(&mut self, code: &str, record: Record<&str>) {
        let token = self.ask(&format!("/{code}"));
        assert_eq!(
            self.end_with(token, &format!("go.example/{code}"), record)
                .len(),
            1
        );
    }

    fn pass(&mut self, millis: u64) -> Vec<Seen> {
        self.set_clock(self.now + millis)
    }

    fn set_clock(&mut self, now: u64) -> Vec<Seen> {
        self.now = now;
        let resumed = self.edge.on_tick(&mut self.host, Moment::from_millis(now));
        resumed
            .iter()
            .flat_map(|resumed| self.answers(resumed))
            .collect()
    }

    fn counted(&mut self, name: &str) -> i64 {
        self.pass(0);
        self.host
            .stats
            .get(&format!("edgelink.{name}"))
            .copied()
            .unwrap_or_default()
    }
}

#[test]
fn a_link_comes_from_the_control_plane_and_then_from_the_lru() {
    let mut world = World::new();
    let token = world.ask("/a?b=1");
    let answers = world.end_with(token, "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    assert_eq!(
        world.visit("/a?b=2"),
        Answered(redirect("https://e/?b=2", "lru"))
    );
    assert_eq!(world.counted("requests.control_plane.redirect"), 1);
    assert_eq!(world.counted("requests.lru.redirect"), 2);
    assert_eq!(world.counted("callouts.ok"), 1);
    assert_eq!(world.counted("lru_entries"), 1);
}

#[test]
fn an_absence_is_known_too_and_its_life_is_its_own() {
    let mut world = World::with(settings_with(r#","absentFreshSeconds":2"#));
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", Record::Absent { rev: 0 });
    assert_eq!(answers, [page(404, "control-plane")]);
    world.pass(1_999);
    assert_eq!(world.visit("/a"), Answered(page(404, "lru")));
    world.pass(1);
    world.ask("/a");
    assert_eq!(world.counted("callouts.absent"), 1);
}

#[test]
fn what_one_worker_knows_the_other_finds_in_shared_data_and_at_no_later_age() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    world.pass(4_000);
    let mut other = world.other_worker();
    assert_eq!(
        other.visit("/a"),
        Answered(redirect("https://e/", "shared-data"))
    );
    assert_eq!(other.visit("/a"), Answered(redirect("https://e/", "lru")));
    other.pass(1_000);
    other.ask("/a");
}

#[test]
fn a_record_that_the_lru_does_not_keep_is_served_from_shared_data() {
    let mut world = World::with(settings_with(r#","lru":{"maxBytes":0}"#));
    world.know("a", link("https://e/", 1));
    for _ in 0..2 {
        assert_eq!(
            world.visit("/a"),
            Answered(redirect("https://e/", "shared-data"))
        );
    }
    world.pass(5_000);
    let token = world.ask("/a");
    assert_eq!(
        world.end(token, Response::default()),
        [redirect("https://e/", "stale")]
    );
    let token = world.ask("/b");
    assert_eq!(
        world.end(token, Response::default()),
        [unavailable()],
        "not the record of another key"
    );
}

#[test]
fn requests_that_are_none_of_ours_pass_without_another_look() {
    let mut world = World::new();
    for path in ["/", "/a/b", "/console", "/%61", "/a/"] {
        assert_eq!(world.visit(path), Passed, "{path}");
    }
    for method in ["POST", "OPTIONS", "get", ""] {
        world.host.headers.insert(":method", method.into());
        assert_eq!(world.visit("/a"), Passed, "{method}");
    }
    world.host.headers.remove(":method");
    assert_eq!(world.visit("/a"), Passed);
    world.host.headers.insert(":method", b"HEAD".to_vec());
    assert!(matches!(world.visit("/a"), Waiting(_)));
}

#[test]
fn the_host_names_the_domain_and_an_unknown_one_the_first() {
    let mut world = World::new();
    for (host, path) in [
        (&b"[::1]:80"[..], "/edge/v1/links/%5B::1%5D:80/a"),
        (b"go.example", "/edge/v1/links/go.example/a"),
        (b"GO.example:81", "/edge/v1/links/go.example/b"),
        (b"\xff\0", "/edge/v1/links/go.example/c"),
    ] {
        world.host.headers.insert(":authority", host.to_vec());
        let code = &path[path.len() - 2..];
        match world.edge.on_request(&mut world.host, 1, code.as_bytes()) {
            Step::Wait(Some(callout)) => assert_eq!(callout.path, path),
            other => panic!("{other:?}"),
        }
        world.edge.on_stream_end(1);
    }
}

#[test]
fn those_who_ask_for_the_same_link_share_a_callout_and_leaving_harms_nobody() {
    let mut world = World::new();
    let (first, token) = world.visit_and_send("/a");
    let Waiting(first) = first else { panic!() };
    assert_eq!(world.visit_and_send("/a"), (Waiting(first + 1), None));
    assert_eq!(world.visit_and_send("/a"), (Waiting(first + 2), None));
    world.edge.on_stream_end(first);
    world.edge.on_stream_end(first + 2);
    let answers = world.end_with(token.unwrap(), "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(
        world.end_with(token.unwrap(), "go.example/a", link("https://e/2", 2)),
        []
    );
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
}

#[test]
fn a_callout_that_nobody_waits_for_any_longer_still_teaches() {
    let mut world = World::new();
    let token = world.ask("/a");
    world.edge.on_stream_end(world.last_stream);
    assert_eq!(
        world.end_with(token, "go.example/a", link("https://e/", 1)),
        []
    );
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
}

#[test]
fn a_failure_is_503_and_never_remembered_as_anything_else() {
    let mut world = World::new();
    for response in [
        Response::default(),
        Response {
            status: b"404",
            ..Response::default()
        },
        Response {
            status: b"500",
            ..Response::default()
        },
    ] {
        let token = world.ask("/a");
        assert_eq!(world.end(token, response), [unavailable()]);
    }
    let token = world.ask("/a");
    assert_eq!(
        world.end_with(token, "go.example/b", link("https://e/", 1)),
        [unavailable()]
    );
    assert_eq!(world.counted("callouts.failed"), 4);
    assert_eq!(world.counted("requests.control_plane.unavailable"), 4);
    world.know("a", link("https://e/", 1));
    assert_eq!(world.host.log.len(), 2, "{:?}", world.host.log);
}

#[test]
fn after_a_failure_a_stale_record_is_served_at_once_and_asked_for_by_nobody_who_waits() {
    let mut world = World::new();
    let stale = redirect("https://e/", "stale");
    world.know("a", link("https://e/", 1));
    world.pass(5_000);
    let token = world.ask("/a");
    assert_eq!(world.time_out(token), std::slice::from_ref(&stale));
    assert_eq!(world.visit_and_send("/a"), (Answered(stale.clone()), None));
    world.pass(1_000);
    let (became, token) = world.visit_and_send("/a");
    assert_eq!(became, Answered(stale.clone()));
    assert_eq!(
        world.visit_and_send("/a"),
        (Answered(stale.clone()), None),
        "one is under way"
    );
    assert_eq!(world.time_out(token.unwrap()), []);
    world.pass(1_000);
    let (_, token) = world.visit_and_send("/a");
    assert_eq!(
        world.end_with(token.unwrap(), "go.example/a", link("https://e/2", 2)),
        []
    );
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/2", "lru")));
    assert_eq!(world.counted("requests.stale.redirect"), 5);
}

#[test]
fn a_record_older_than_stale_seconds_is_never_served() {
    let mut world = World::with(settings_with(r#","staleSeconds":60"#));
    world.know("a", link("https://e/", 1));
    world.pass(59_999);
    let token = world.ask("/a");
    assert_eq!(
        world.end(token, Response::default()),
        [redirect("https://e/", "stale")]
    );
    world.pass(1);
    let token = world.ask("/a");
    assert_eq!(world.end(token, Response::default()), [unavailable()]);
}

#[test]
fn a_stale_absence_is_503_for_somebody_may_have_made_the_link() {
    let mut world = World::new();
    world.know("a", Record::Absent { rev: 0 });
    world.pass(5_000);
    let token = world.ask("/a");
    assert_eq!(world.end(token, Response::default()), [unavailable()]);
}

#[test]
fn an_older_rev_replaces_nothing_and_the_newer_one_is_served() {
    let mut world = World::new();
    world.know("a", link("https://e/7", 7));
    world.pass(5_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", Record::Absent { rev: 6 });
    assert_eq!(answers, [redirect("https://e/7", "stale")]);
    assert_eq!(
        world.visit_and_send("/a"),
        (Answered(redirect("https://e/7", "stale")), None)
    );
    world.pass(86_400_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", Record::Absent { rev: 6 });
    assert_eq!(
        answers,
        [page(404, "control-plane")],
        "the newer one is dead"
    );
}

#[test]
fn a_newer_rev_in_shared_data_is_not_undone_by_an_older_answer() {
    let mut world = World::new();
    let mut other = World::new();
    let token = other.ask("/a");
    world.know("a", link("https://e/7", 7));
    other.host.store = world.host.store.clone();
    let answers = other.end_with(token, "go.example/a", link("https://e/6", 6));
    assert_eq!(answers, [redirect("https://e/7", "shared-data")]);
}

#[test]
fn beyond_the_bounds_stale_is_served_and_else_503() {
    let mut world = World::new();
    world.know("known", link("https://e/", 1));
    world.pass(5_000);
    let tokens: Vec<_> = ["/a", "/b", "/c", "/d"].map(|path| world.ask(path)).into();
    assert_eq!(world.visit("/e"), Answered(unavailable()), "lookups");
    assert_eq!(
        world.visit("/known"),
        Answered(redirect("https://e/", "stale")),
        "lookups"
    );
    assert_eq!(world.visit("/a"), Waiting(world.last_stream));
    assert_eq!(world.visit("/a"), Waiting(world.last_stream));
    assert_eq!(world.visit("/a"), Answered(unavailable()), "those who wait");
    assert_eq!(world.counted("callouts.rejected"), 3);
    let answers = world.end_with(tokens[0], "go.example/a", link("https://e/", 1));
    assert_eq!(answers.len(), 3);
    world.ask("/e");
}

#[test]
fn a_callout_that_the_proxy_does_not_send_is_answered_at_once() {
    let mut world = World::new();
    let callout = match world.edge.on_request(&mut world.host, 1, b"/a") {
        Step::Wait(Some(callout)) => callout,
        other => panic!("{other:?}"),
    };
    let resumed = world
        .edge
        .on_refused(&mut world.host, callout.flight)
        .unwrap();
    assert_eq!(resumed.streams, [1]);
    assert_eq!(world.answers(&resumed), [unavailable()]);
    assert_eq!(world.counted("callouts.rejected"), 1);
    world.ask("/a");
}

#[test]
fn a_callout_that_never_ends_is_given_up_and_its_late_end_is_nothing() {
    let mut world = World::new();
    let token = world.ask("/a");
    assert_eq!(world.pass(1_799), []);
    assert_eq!(world.pass(1), [unavailable()]);
    assert_eq!(world.counted("callouts.timeout"), 1);
    assert_eq!(
        world.end_with(token, "go.example/a", link("https://e/", 1)),
        []
    );
    world.ask("/a");
}

#[test]
fn a_silent_control_plane_is_left_alone_but_for_one_lookup_in_a_while() {
    let mut world = World::new();
    world.know("known", link("https://e/", 1));
    world.pass(5_000);
    for code in 0..8 {
        let token = world.ask(&format!("/x{code}"));
        world.time_out(token);
    }
    assert_eq!(world.visit("/y"), Answered(unavailable()));
    assert_eq!(
        world.visit_and_send("/known"),
        (Answered(redirect("https://e/", "stale")), None)
    );
    assert_eq!(world.counted("callouts.rejected"), 1);
    world.pass(1_000);
    let (became, token) = world.visit_and_send("/known");
    assert_eq!(became, Answered(redirect("https://e/", "stale")));
    assert_eq!(
        world.visit("/y"),
        Answered(unavailable()),
        "one is under way"
    );
    world.end_with(token.unwrap(), "go.example/known", link("https://e/", 1));
    world.ask("/y");
}

#[test]
fn latency_is_measured_by_the_exact_clock() {
    let mut world = World::new();
    let token = world.ask("/a");
    world.now += 37;
    world.end_with(token, "go.example/a", link("https://e/", 1));
    assert_eq!(world.host.millis, [37]);
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_immortal_and_loses_nothing() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    world.set_clock(START - 500_000);
    let token = world.ask("/a");
    assert_eq!(
        world.end(token, Response::default()),
        [redirect("https://e/", "stale")]
    );
    world.pass(1_000);
    let (_, token) = world.visit_and_send("/a");
    world.end_with(token.unwrap(), "go.example/a", link("https://e/2", 2));
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/2", "lru")));
    world.pass(5_000);
    world.ask("/a");
}

#[test]
fn a_clock_that_leaps_ahead_and_back_only_makes_the_worker_ask_again() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    world.set_clock(START + 1_000_000_000_000);
    world.know("a", link("https://e/", 1));
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    world.set_clock(START + 1_000);
    world.know("a", link("https://e/", 1));
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
}

#[test]
fn new_settings_keep_what_is_known_and_who_waits() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    let token = world.ask("/b");
    world.edge.configure(Rc::new(settings_with(
        r#","freshSeconds":50,"staleSeconds":60"#,
    )));
    world.pass(49_000);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    // Given up by the tick, as one whose root context is gone would be.
    assert_eq!(
        world.end_with(token, "go.example/b", link("https://e/", 1)),
        []
    );
}

#[test]
fn a_worker_that_ends_hands_over_what_it_counted_and_leaves_the_gauges() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    assert_eq!(world.counted("lru_entries"), 1);
    world.visit("/a");
    world.edge.on_end(&mut world.host);
    assert_eq!(world.host.stats["edgelink.lru_entries"], 0);
    assert_eq!(world.host.stats["edgelink.lru_bytes"], 0);
    assert_eq!(world.host.stats["edgelink.requests.lru.redirect"], 1);
}

#[derive(Clone, Debug)]
enum Event {
    Visit(u8),
    Leave(u8),
    End(u8, u64),
    Absent(u8, u64),
    Fail(u8),
    TimeOut(u8),
    Refuse(u8),
    Pass(u64),
    Back(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0u8..6).prop_map(Event::Visit),
        2 => (0u8..12).prop_map(Event::Leave),
        3 => (0u8..8, 0u64..9).prop_map(|(at, rev)| Event::End(at, rev)),
        1 => (0u8..8, 0u64..9).prop_map(|(at, rev)| Event::Absent(at, rev)),
        1 => (0u8..8).prop_map(Event::Fail),
        1 => (0u8..8).prop_map(Event::TimeOut),
        1 => (0u8..8).prop_map(Event::Refuse),
        2 => (0u64..7_000).prop_map(Event::Pass),
        1 => (0u64..9_000).prop_map(Event::Back),
    ];
    prop::collection::vec(event, 0..120)
}

proptest! {
    /// Whatever happens in whatever order: everybody who waits and stays is answered exactly once, at the latest by
    /// the tick after the timeout, and nobody else is.
    #[test]
    fn everybody_who_waits_is_answered_exactly_once(events in events()) {
        let mut world = World::new();
        let mut waiting: Vec<StreamId> = Vec::new();
        let mut sent: Vec<(Token, String)> = Vec::new();
        let answered = |waiting: &mut Vec<StreamId>, resumed: &Resumed| {
            for stream in &resumed.streams {
                let at = waiting.iter().position(|each| each == stream);
                waiting.remove(at.expect("somebody who waits"));
            }
        };
        for event in events {
            let pick = |at: u8, of: usize| usize::from(at) % of.max(1);
            let mut ended = None;
            match event {
                Event::Visit(code) => {
                    let (became, token) = world.visit_and_send(&format!("/c{code}"));
                    if let Waiting(stream) = became { waiting.push(stream); }
                    if let Some(token) = token { sent.push((token, format!("go.example/c{code}"))); }
                }
                Event::Leave(at) if !waiting.is_empty() => {
                    let stream = waiting.remove(pick(at, waiting.len()));
                    world.edge.on_stream_end(stream);
                }
                Event::End(at, rev) if !sent.is_empty() => {
                    let (token, key) = sent.remove(pick(at, sent.len()));
                    ended = Some((token, entry(&key, link("https://e/", rev)), "200"));
                }
                Event::Absent(at, rev) if !sent.is_empty() => {
                    let (token, key) = sent.remove(pick(at, sent.len()));
                    ended = Some((token, entry(&key, Record::Absent { rev }), "404"));
                }
                Event::Fail(at) if !sent.is_empty() => {
                    ended = Some((sent.remove(pick(at, sent.len())).0, Vec::new(), ""));
                }
                Event::TimeOut(at) if !sent.is_empty() => {
                    ended = Some((sent.remove(pick(at, sent.len())).0, Vec::new(), "504"));
                }
                Event::Refuse(code) => {
                    world.last_stream += 1;
                    let stream = world.last_stream;
                    let path = format!("/c{code}");
                    let callout = match world.edge.on_request(&mut world.host, stream, path.as_bytes()) {
                        Step::Wait(callout) => { waiting.push(stream); callout }
                        Step::Answer(_, callout) => callout,
                        Step::Pass => None,
                    };
                    if let Some(callout) = callout
                        && let Some(resumed) = world.edge.on_refused(&mut world.host, callout.flight)
                    {
                        answered(&mut waiting, &resumed);
                    }
                }
                Event::Pass(millis) | Event::Back(millis) => {
                    world.now = match event {
                        Event::Back(_) => world.now - millis,
                        _ => world.now + millis,
                    };
                    let now = Moment::from_millis(world.now);
                    for resumed in world.edge.on_tick(&mut world.host, now) {
                        answered(&mut waiting, &resumed);
                    }
                }
                _ => {}
            }
            if let Some((token, body, status)) = ended {
                let response = Response {
                    status: status.as_bytes(),
                    content_type: Entry::MEDIA_TYPE.as_bytes(),
                    body: &body,
                };
                let now = Moment::from_millis(world.now);
                if let Some(resumed) = world.edge.on_callout_end(&mut world.host, token, response, now) {
                    answered(&mut waiting, &resumed);
                }
            }
            prop_assert!(waiting.len() <= 6, "the bound of those who wait");
        }
        // The clock may have been set back by less than its skew, and then a lookup counts as new for that much longer.
        let now = Moment::from_millis(world.now + 100_000_000);
        for resumed in world.edge.on_tick(&mut world.host, now) {
            answered(&mut waiting, &resumed);
        }
        prop_assert!(waiting.is_empty());
    }
}
