//! Links with a limit of visits.

use super::*;
use crate::control_plane::BackgroundKind;
use crate::request::HeaderMap;
use edgelink_wire::record::Extension;
use edgelink_wire::visits::{
    RETURNS_MEDIA_TYPE, ReturnOutcome, SettledBlock, VisitReturn, VisitReturns, worker_text,
};
use edgelink_wire::{LinkRecord, VisitsAnswer, VisitsRequest};

const TARGET: &str = "https://a/";

fn extension() -> Vec<u8> {
    let max_visits = Some(1_000);
    Extension {
        max_visits,
        ..Extension::default()
    }
    .to_bytes()
}

fn limited(extension: &[u8], rev: u64) -> Record<&str> {
    match link(TARGET, rev) {
        Record::Link(link) => Record::Link(LinkRecord { extension, ..link }),
        absent => absent,
    }
}

/// A request: its number, the block that it settles with its spent visits, and a flag that it wants another block.
type Read = (u64, Option<(u64, u64)>, bool);

fn read(body: &[u8]) -> Read {
    let request = VisitsRequest::decode(body).unwrap();
    assert_eq!(request.worker, [7; 16]);
    let settled = request.settled;
    let settled = settled.map(|SettledBlock { number, spent }| (number, spent));
    (request.number, settled, request.wants)
}

/// A request for visits that was sent.
#[derive(Debug)]
struct Request {
    token: Token,
    number: u64,
    settled: Option<(u64, u64)>,
}

impl World {
    /// A link of which the worker has a record, and a visitor who waits for its first visit.
    fn limited(&mut self, code: &str) -> Request {
        let token = self.ask(&format!("/{code}"));
        let extension = extension();
        let body = aged(&format!("go.example/{code}"), limited(&extension, 1), 0);
        let response = Response {
            status: b"200",
            content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
            body: &body,
        };
        let now = Moment::from_millis(self.now);
        let mut actions = self
            .edge
            .on_callout_end(&mut self.host, token, response, now);
        assert_eq!(actions.len(), 1, "{actions:?}");
        let Some(Action::Send(Callout::Lookup(callout))) = actions.pop() else {
            panic!("{actions:?}");
        };
        self.send_request(&callout, code)
    }

    fn send_request(&mut self, callout: &LookupCallout, code: &str) -> Request {
        assert_eq!(callout.path, format!("/edge/v1/visits/go.example/{code}"));
        assert_eq!(callout.media_type(), VisitsRequest::MEDIA_TYPE);
        let (number, settled, wants) = read(&callout.body);
        assert!(wants);
        let token = self.send(callout);
        Request {
            token,
            number,
            settled,
        }
    }

    /// A visitor who waits for a requested block.
    fn ask_visit(&mut self, code: &str) -> Request {
        self.last_stream += 1;
        let path = format!("/{code}");
        let callout = match self.request(self.last_stream, &get(&path)) {
            Step::Wait(Some(callout)) => callout,
            other => panic!("{other:?}"),
        };
        self.send_request(&callout, code)
    }

    fn visits(&mut self, request: &Request, visits: u64, millis: u64) -> Vec<Action> {
        let number = request.number;
        let answer = VisitsAnswer {
            number,
            visits,
            millis,
        };
        let response = Response {
            status: b"200",
            content_type: VisitsAnswer::MEDIA_TYPE.as_bytes(),
            body: &answer.to_bytes(),
        };
        let now = Moment::from_millis(self.now);
        self.edge
            .on_callout_end(&mut self.host, request.token, response, now)
    }

    /// The control plane leases visits, for 5 s.
    fn lease(&mut self, request: &Request, visits: u64) -> Vec<Seen> {
        let actions = self.visits(request, visits, 5_000);
        self.act_on(actions)
    }

    /// The returns of a request in flight: their keys, numbers, and the blocks that they settle.
    fn returns(&mut self) -> (Token, Vec<Returned>) {
        let (token, callout) = self.callouts.pop().expect("a return");
        let about = (callout.kind, callout.method, &*callout.path);
        assert_eq!(about, (BackgroundKind::Visits, "POST", "/edge/v1/visits"));
        let returns = VisitReturns::decode(&callout.body).unwrap();
        assert_eq!(returns.worker, [7; 16]);
        let returned = |it: &VisitReturn<'_>| {
            let pair = |SettledBlock { number, spent }| (number, spent);
            let key = String::from_utf8(it.key.to_vec()).unwrap();
            (key, it.number, it.settled.map(pair))
        };
        (token, returns.returns.iter().map(returned).collect())
    }

    /// The return in flight.
    fn returned(&mut self) -> (Token, Read) {
        let (token, mut returns) = self.returns();
        let (_, number, settled) = returns.pop().unwrap();
        assert!(returns.is_empty(), "{returns:?}");
        (token, (number, settled, false))
    }

    fn end_returns(&mut self, token: Token, outcomes: &[ReturnOutcome]) -> Vec<Seen> {
        let response = Response {
            status: b"200",
            content_type: RETURNS_MEDIA_TYPE.as_bytes(),
            body: &ReturnOutcome::to_bytes(outcomes),
        };
        self.end(token, response)
    }

    fn end_return(&mut self, token: Token) {
        let ended = self.end_returns(token, &[ReturnOutcome::Settled]);
        assert!(ended.is_empty());
    }

    fn fail_return(&mut self, token: Token, status: &'static [u8]) {
        let response = Response {
            status,
            ..Response::default()
        };
        assert!(self.end(token, response).is_empty());
    }

    /// A link of which the worker has spent the only visit of its block, which is leased for the given milliseconds.
    fn spend(&mut self, code: &str, millis: u64) {
        let asked = self.limited(code);
        let actions = self.visits(&asked, 1, millis);
        self.act_on(actions);
    }
}

/// A return: the key, its number, and the block with its spent visits.
type Returned = (String, u64, Option<(u64, u64)>);

fn served() -> Seen {
    redirect(TARGET, "lru")
}

#[test]
fn block_when_spent_is_followed_by_a_request_for_the_next() {
    let mut world = World::new();
    let first = world.limited("a");
    assert_eq!((first.number, first.settled), (1, None));
    assert_eq!(world.lease(&first, 3), [redirect(TARGET, "control-plane")]);
    for _ in 0..2 {
        assert_eq!(world.visit("/a"), Answered(served()));
    }
    let second = world.ask_visit("a");
    assert_eq!((second.number, second.settled), (2, Some((1, 3))));
    assert_eq!(world.lease(&second, 1).len(), 1);
    assert_eq!(world.counted("visits.leased"), 2);
    assert_eq!(world.lookups, 3, "a lookup and two requests");
}

#[test]
fn waiters_when_the_block_is_too_small_wait_for_the_next() {
    let mut world = World::new();
    let first = world.limited("a");
    for _ in 0..3 {
        assert!(matches!(world.visit_and_send("/a"), (Waiting(_), None)));
    }
    let actions = world.visits(&first, 2, 5_000);
    let (mut served, mut next) = (Vec::new(), None);
    for action in actions {
        match action {
            Action::Resume(resumed) => served.extend(world.answers(&resumed)),
            Action::Send(Callout::Lookup(callout)) => {
                next = Some(world.send_request(&callout, "a"));
            }
            Action::Send(_) | Action::EndForm(_) => panic!(),
        }
    }
    assert_eq!(served, [(); 2].map(|()| redirect(TARGET, "control-plane")));
    let next = next.unwrap();
    assert_eq!(next.settled, Some((1, 2)));
    let gone = [(); 2].map(|()| page(410, "control-plane"));
    assert_eq!(world.lease(&next, 0), gone);
}

#[test]
fn link_when_it_has_no_uses_left_is_410_until_asked_again() {
    let mut world = World::new();
    let first = world.limited("a");
    assert_eq!(world.lease(&first, 0), [page(410, "control-plane")]);
    assert_eq!(world.visit("/a"), Answered(page(410, "lru")));
    assert_eq!(world.counted("visits.used_up"), 1);
    // The record is fresh for 5 s as well.
    world.pass(4_999);
    assert_eq!(world.visit("/a"), Answered(page(410, "lru")));
    let (extension, now) = (extension(), Moment::from_millis(world.now));
    let update = crate::cache::Update {
        record: encoded(&limited(&extension, 2)),
        is_hot: false,
        at: now,
    };
    let World { edge, host, .. } = &mut world;
    edge.caches.apply_update(host, b"go.example/a", update, now);
    let second = world.ask_visit("a");
    assert_eq!(world.lease(&second, 1).len(), 1);
}

#[test]
fn uses_when_their_time_ends_are_returned() {
    let mut world = World::new();
    let first = world.limited("a");
    world.lease(&first, 9);
    world.pass(4_999);
    assert!(world.callouts.is_empty());
    world.pass(1);
    let (token, request) = world.returned();
    assert_eq!(request, (2, Some((1, 1)), false));
    world.fail_return(token, b"503");
    assert_eq!(world.counted("visit_return.failed"), 1);
    world.pass(200);
    let (token, request) = world.returned();
    assert_eq!(request, (3, Some((1, 1)), false), "until it has come");
    world.end_return(token);
    world.pass(10_000);
    assert!(world.callouts.is_empty(), "once");
    assert_eq!(world.edge.background.visits.leases.len(), 0);
}

#[test]
fn return_when_refused_with_its_token_fails_once() {
    let mut world = World::new();
    world.spend("a", 5_000);
    world.pass(100);
    let (token, request) = world.returned();
    assert_eq!(request, (2, Some((1, 1)), false));
    let refused = (BackgroundKind::Visits, Some(token));
    for _ in 0..2 {
        let now = Moment::from_millis(world.now);
        world
            .edge
            .on_background_refused(&mut world.host, refused, now);
    }
    assert_eq!(world.counted("visit_return.failed"), 1);
    world.pass(200);
    let (token, request) = world.returned();
    assert_eq!(request, (3, Some((1, 1)), false));
    world.end_return(token);
    world.pass(10_000);
    assert_eq!(world.counted("visit_return.failed"), 1);
}

#[test]
fn block_when_used_up_is_reported_at_the_next_tick() {
    let mut world = World::new();
    let first = world.limited("a");
    world.lease(&first, 1);
    world.pass(100);
    let (token, request) = world.returned();
    assert_eq!(request, (2, Some((1, 1)), false));
    // A visitor comes first: both report it, and the control plane counts it once.
    let second = world.ask_visit("a");
    assert_eq!((second.number, second.settled), (3, Some((1, 1))));
    world.end_return(token);
    assert_eq!(world.lease(&second, 2).len(), 1);
    assert_eq!(world.visit("/a"), Answered(served()));
}

#[test]
fn uses_request_when_failed_keeps_its_number() {
    let mut world = World::new();
    let first = world.limited("a");
    assert_eq!(world.time_out(first.token), [unavailable()]);
    assert_eq!(world.counted("visits.failed"), 1);
    let again = world.callouts.pop();
    assert!(again.is_some(), "a return makes an end of it");
    let mut world = World::new();
    let first = world.limited("a");
    assert_eq!(world.time_out(first.token), [unavailable()]);
    let again = world.ask_visit("a");
    assert_eq!((again.number, again.settled), (1, None));
    assert_eq!(world.lease(&again, 1).len(), 1);
}

#[test]
fn stale_record_when_served_takes_no_more_than_the_block() {
    let mut world = World::new();
    let first = world.limited("a");
    world.lease(&first, 2);
    world.stand_still(4_000);
    world
        .edge
        .caches
        .mark_all_stale(Moment::from_millis(world.now));
    let lookup = world.ask("/a");
    assert_eq!(world.time_out(lookup), [redirect(TARGET, "stale")]);
    let (became, token) = world.visit_and_send("/a");
    assert!(matches!(became, Waiting(_)), "{became:?}");
    assert_eq!(world.time_out(token.unwrap()), [unavailable()]);
}

#[test]
fn use_when_its_visitor_has_left_goes_to_another() {
    let mut world = World::new();
    let first = world.limited("a");
    let mut actions = world.visits(&first, 1, 5_000);
    let Some(Action::Resume(resumed)) = actions.pop() else {
        panic!("{actions:?}");
    };
    world.edge.on_unanswered(&resumed);
    assert_eq!(world.visit("/a"), Answered(served()));
    let second = world.ask_visit("a");
    assert_eq!(second.settled, Some((1, 1)));
}

#[test]
fn head_request_when_the_link_is_limited_takes_no_use() {
    let mut world = World::new();
    let first = world.limited("a");
    world.lease(&first, 1);
    let head = Head {
        method: b"HEAD",
        ..get("/a")
    };
    let status = |world: &mut World| match world.request(1, &head) {
        Step::Answer(answer, None) => answer.status,
        other => panic!("{other:?}"),
    };
    assert_eq!(status(&mut world), 302);
    let second = world.ask_visit("a");
    assert_eq!(status(&mut world), 302, "while it is asked");
    world.lease(&second, 0);
    assert_eq!(status(&mut world), 410);
}

#[test]
fn uses_when_of_too_many_links_are_rejected() {
    let mut world = World::with(settings_with(r#","visits":{"maxLinks":1}"#));
    let first = world.limited("a");
    world.lease(&first, 2);
    let lookup = world.ask("/b");
    let extension = extension();
    let answers = world.end_with(lookup, "go.example/b", limited(&extension, 1));
    assert_eq!(answers, [unavailable()]);
    assert_eq!(world.counted("visits.rejected"), 1);
    assert_eq!(world.visit("/a"), Answered(served()));
    world.pass(100);
    let (token, _) = world.returned();
    world.end_return(token);
    world.pass(0);
    world.ask_visit("b");
}

#[test]
fn block_when_it_comes_too_late_is_not_spent() {
    let mut world = World::new();
    let first = world.limited("a");
    world.stand_still(5_000);
    assert_eq!(world.lease(&first, 3), [unavailable()]);
}

#[test]
fn uses_when_no_requests_come_any_more_are_returned_at_once() {
    let mut world = World::new();
    let first = world.limited("a");
    world.lease(&first, 9);
    world.pass(100);
    assert!(world.callouts.is_empty());
    world.edge.retire();
    assert!(world.edge.holds_visits());
    world.pass(100);
    let (token, request) = world.returned();
    assert_eq!(request, (2, Some((1, 1)), false));
    world.end_return(token);
    world.pass(100);
    assert!(!world.edge.holds_visits());
}

#[test]
fn uses_request_when_the_proxy_forgets_it_is_given_up() {
    let mut world = World::new();
    let first = world.limited("a");
    assert_eq!(world.pass(1_800), [unavailable()]);
    assert!(world.lease(&first, 3).is_empty());
}

#[test]
fn returns_when_many_are_sent_together_in_order_of_end() {
    let mut world = World::new();
    for number in 0..300 {
        world.spend(&format!("l{number}"), 5_000 + (number * 7) % 300);
    }
    world.pass(100);
    let (second, late) = world.returns();
    let (first, early) = world.returns();
    assert!(world.callouts.is_empty());
    assert_eq!((early.len(), late.len()), (256, 44));
    let end = |(key, ..): &Returned| {
        let number: u64 = key.strip_prefix("go.example/l").unwrap().parse().unwrap();
        (number * 7) % 300
    };
    let ends: Vec<_> = early.iter().chain(&late).map(end).collect();
    assert!(ends.is_sorted(), "{ends:?}");
    world.end_returns(second, &[ReturnOutcome::Settled; 44]);
    world.pass(100);
    assert!(world.callouts.is_empty(), "the others are under way");
    world.end_returns(first, &[ReturnOutcome::Settled; 256]);
    world.pass(100);
    assert!(world.callouts.is_empty());
    assert_eq!(world.edge.background.visits.leases.len(), 0);
}

#[test]
fn return_when_not_taken_is_repeated_and_delays_no_other() {
    let mut world = World::new();
    world.spend("a", 5_000);
    world.spend("b", 5_000);
    world.pass(100);
    let (token, mut returns) = world.returns();
    let outcomes = [ReturnOutcome::Later, ReturnOutcome::Settled];
    world.end_returns(token, &outcomes);
    let (key, _, settled) = returns.swap_remove(0);
    world.pass(900);
    assert!(world.callouts.is_empty());
    world.pass(100);
    let (token, again) = world.returns();
    assert_eq!(again.len(), 1);
    assert_eq!((&again[0].0, again[0].2), (&key, settled));
    world.end_returns(token, &[ReturnOutcome::Settled; 2]);
    assert_eq!(world.counted("visit_return.failed"), 1, "of another number");
    world.pass(200);
    let (token, _) = world.returns();
    world.end_return(token);
    world.pass(100);
    assert_eq!(world.edge.background.visits.leases.len(), 0);
}

#[test]
fn returns_when_refused_together_are_sent_one_by_one() {
    for refusal in [b"404", b"405"] {
        let mut world = World::new();
        world.spend("a", 5_000);
        world.spend("b", 5_000);
        world.pass(100);
        let (token, _) = world.returns();
        world.fail_return(token, refusal);
        assert_eq!(world.counted("visit_return.failed"), 0);
        world.pass(100);
        let singles: Vec<_> = world.callouts.drain(..).collect();
        assert_eq!(singles.len(), 2);
        let mut paths = Vec::new();
        for ((token, callout), status) in singles.into_iter().zip([b"200", b"409"]) {
            paths.push(callout.path);
            let (_, settled, wants) = read(&callout.body);
            assert_eq!((settled.map(|(_, spent)| spent), wants), (Some(1), false));
            world.fail_return(token, status);
        }
        paths.sort_unstable();
        let expected = ["a", "b"].map(|code| format!("/edge/v1/visits/go.example/{code}"));
        assert_eq!(paths, expected);
        world.pass(100);
        assert_eq!(world.edge.background.visits.leases.len(), 0);
        world.stand_still(60_000);
        world.spend("c", 5_000);
        world.pass(100);
        assert_eq!(world.returns().1.len(), 1, "it may have been replaced");
    }
}

#[test]
fn return_requests_when_too_many_wait_for_one_to_end() {
    let mut world = World::new();
    for round in 0..6 {
        world.spend(&format!("l{round}"), 5_000);
        world.pass(100);
    }
    assert_eq!(world.callouts.len(), 4);
    let (token, _) = world.returns();
    // The next goes out when one ends, with everything due by then.
    world.end_return(token);
    assert_eq!(world.callouts.len(), 4);
    assert_eq!(world.returns().1.len(), 2);
}

#[test]
fn links_when_used_up_give_way_oldest_first() {
    let mut world = World::with(settings_with(r#","visits":{"maxLinks":2}"#));
    for code in ["a", "b"] {
        let asked = world.limited(code);
        let actions = world.visits(&asked, 0, 60_000);
        assert_eq!(world.act_on(actions), [page(410, "control-plane")]);
    }
    let third = world.limited("c");
    assert_eq!(world.lease(&third, 2).len(), 1);
    assert_eq!(world.counted("visits.rejected"), 0);
    assert_eq!(world.visit("/b"), Answered(page(410, "lru")), "it is newer");
    let first = world.ask_visit("a");
    let actions = world.visits(&first, 0, 60_000);
    assert_eq!(world.act_on(actions), [page(410, "control-plane")]);
    // A block is not evicted: it has something to report.
    assert_eq!(world.visit("/c"), Answered(served()));
    world.ask_visit("b");
    assert_eq!(world.visit("/a"), Answered(unavailable()));
}

#[test]
fn uses_requests_when_they_time_out_delay_no_lookups() {
    let mut world = World::with(settings_with(r#","retryAfterSeconds":3600"#));
    let a = world.limited("a");
    assert_eq!(world.time_out(a.token), [unavailable()]);
    let again = world.ask_visit("a");
    assert_eq!(world.time_out(again.token), [unavailable()]);
    for _ in 0..20 {
        assert_eq!(world.visit("/a"), Answered(unavailable()), "it rests");
    }
    assert_eq!(world.lookups, 3);
    let asked = world.limited("b");
    assert_eq!(world.lease(&asked, 1).len(), 1);
    for number in 0..8 {
        let asked = world.limited(&format!("l{number}"));
        assert_eq!(world.time_out(asked.token), [unavailable()]);
    }
    let before = world.lookups;
    let lookup = world.ask("/c");
    let extension = extension();
    let answers = world.end_with(lookup, "go.example/c", limited(&extension, 1));
    assert_eq!(answers, [unavailable()], "the circuit of visits is open");
    assert_eq!(world.lookups, before + 1);
    let lookup = world.ask("/d");
    let answers = world.end_with(lookup, "go.example/d", link(TARGET, 1));
    assert_eq!(answers, [redirect(TARGET, "control-plane")]);
}

#[test]
fn worker_when_it_holds_uses_names_itself() {
    let mut world = World::with_background(r#","poll":{}"#);
    let first = world.limited("a");
    world.answer_poll(&super::background::gap(5));
    let named = |world: &World| {
        let mut callouts = world.callouts.iter();
        let poll = callouts.find(|(_, callout)| callout.kind == BackgroundKind::Poll);
        poll.expect("a poll").1.worker.clone()
    };
    world.pass(100);
    assert_eq!(named(&world), Some(worker_text(&[7; 16])));
    world.lease(&first, 1);
    world.pass(100);
    let (token, callout) = world.take_background(BackgroundKind::Visits);
    assert_eq!(callout.worker, Some(worker_text(&[7; 16])));
    world.end_return(token);
    world.pass(2_000);
    world.answer_poll(&super::background::batch(5, &[]));
    world.pass(100);
    assert_eq!(named(&world), None);
}

/// A request with these headers.
fn with_headers<'h>(path: &'h str, headers: &'h [u8]) -> Head<'h> {
    Head {
        headers: HeaderMap::new(headers),
        ..get(path)
    }
}

fn headers(name: &str, value: &str) -> Vec<u8> {
    super::events::map(&[(name, value.as_bytes())])
}

impl World {
    fn status(&mut self, head: &Head<'_>) -> (u16, Option<Token>) {
        self.last_stream += 1;
        let stream = self.last_stream;
        match self.request(stream, head) {
            Step::Answer(answer, None) => (answer.status, None),
            Step::Wait(Some(callout)) => (0, Some(self.send(&callout))),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn prefetch_when_the_link_is_limited_is_withheld() {
    let mut world = World::new();
    let first = world.limited("a");
    world.lease(&first, 2);
    let headers = headers("sec-purpose", "prefetch;prerender");
    for _ in 0..3 {
        assert_eq!(world.status(&with_headers("/a", &headers)), (503, None));
    }
    assert_eq!(world.counted("requests.lru.withheld"), 3);
    assert_eq!(world.visit("/a"), Answered(served()), "it is there");
    let second = world.ask_visit("a");
    assert_eq!(second.settled, Some((1, 2)));
    world.lease(&second, 0);
    assert_eq!(world.status(&with_headers("/a", &headers)), (410, None));
    // A link without a limit is redirected, ahead or not.
    world.know("b", link(TARGET, 1));
    assert_eq!(world.status(&with_headers("/b", &headers)), (302, None));
}

#[test]
fn prefetch_when_it_waits_for_its_link_asks_for_no_use() {
    let mut world = World::new();
    let headers = headers("purpose", "prefetch");
    let (_, token) = world.status(&with_headers("/a", &headers));
    let extension = extension();
    let body = aged("go.example/a", limited(&extension, 1), 0);
    let response = Response {
        status: b"200",
        content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
        body: &body,
    };
    let now = Moment::from_millis(world.now);
    let token = token.unwrap();
    let mut actions = world
        .edge
        .on_callout_end(&mut world.host, token, response, now);
    let Some(Action::Resume(resumed)) = actions.pop() else {
        panic!("{actions:?}");
    };
    let head = with_headers("/a", &headers);
    let waiter = resumed.waiters[0];
    let answer = world.edge.answer(&world.host, waiter, &resumed, &head);
    assert_eq!(answer.unwrap().status, 503);
    assert!(actions.is_empty());
    assert_eq!(world.edge.background.visits.leases.len(), 0);
}

#[test]
fn bot_when_the_link_spares_bots_takes_no_use() {
    const BOT: &str = "Slackbot-LinkExpanding 1.0";
    let bot = headers("user-agent", BOT);
    let mut world = World::new();
    let sparing = Extension {
        max_visits: Some(1_000),
        spares_bots: true,
        ..Extension::default()
    };
    let lookup = world.ask("/a");
    world.end_with(lookup, "go.example/a", limited(&sparing.to_bytes(), 1));
    world.host.user_agent = BOT.into();
    assert_eq!(world.status(&with_headers("/a", &bot)), (503, None));
    assert_eq!(world.counted("requests.lru.withheld"), 1);
    world.host.user_agent = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Firefox/127.0".into();
    let first = world.ask_visit("a");
    assert_eq!(world.lease(&first, 1).len(), 1);
    let first = world.limited("b");
    world.lease(&first, 2);
    world.host.user_agent = BOT.into();
    assert_eq!(world.status(&with_headers("/b", &bot)), (302, None));
}
