//! Links that have a limit of visits.

use super::*;
use crate::control_plane::BackgroundKind;
use edgelink_wire::record::Extension;
use edgelink_wire::visits::SettledBlock;
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

/// A request: its number, the block that it settles and what was spent of that, and whether it asks for another one.
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
        let Some(Action::Send(callout)) = actions.pop() else {
            panic!("{actions:?}");
        };
        self.send_request(&callout, code)
    }

    fn send_request(&mut self, callout: &Callout, code: &str) -> Request {
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

    /// A visitor who waits for a block that is asked for.
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

    /// The return under way.
    fn returned(&mut self) -> (Token, Read) {
        let (token, callout) = self.callouts.pop().expect("a return");
        assert_eq!(
            (callout.kind, callout.method),
            (BackgroundKind::Visits, "POST")
        );
        (token, read(&callout.body))
    }

    fn end_return(&mut self, token: Token, status: &'static [u8]) {
        let response = Response {
            status,
            ..Response::default()
        };
        assert!(self.end(token, response).is_empty());
    }
}

fn served() -> Seen {
    redirect(TARGET, "lru")
}

#[test]
fn a_block_is_spent_without_a_callout_and_then_the_next_is_asked_for() {
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
fn one_request_is_in_flight_and_those_for_whom_there_is_no_visit_wait_for_the_next() {
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
            Action::Send(callout) => next = Some(world.send_request(&callout, "a")),
            Action::Run(_) | Action::Ask(_) | Action::EndForm(_) => panic!(),
        }
    }
    assert_eq!(served, [(); 2].map(|()| redirect(TARGET, "control-plane")));
    let next = next.unwrap();
    assert_eq!(next.settled, Some((1, 2)));
    let gone = [(); 2].map(|()| page(410, "control-plane"));
    assert_eq!(world.lease(&next, 0), gone);
}

#[test]
fn a_link_without_visits_is_gone_and_asked_about_again_later_or_once_it_has_changed() {
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
        record: limited(&extension, 2),
        is_hot: false,
        at: now,
    };
    let World { edge, host, .. } = &mut world;
    edge.caches.apply_update(host, b"go.example/a", update, now);
    let second = world.ask_visit("a");
    assert_eq!(world.lease(&second, 1).len(), 1);
}

#[test]
fn what_is_left_comes_back_when_its_time_is_over() {
    let mut world = World::new();
    let first = world.limited("a");
    world.lease(&first, 9);
    world.pass(4_999);
    assert!(world.callouts.is_empty());
    world.pass(1);
    let (token, request) = world.returned();
    assert_eq!(request, (2, Some((1, 1)), false));
    world.end_return(token, b"503");
    assert_eq!(world.counted("visit_return.failed"), 1);
    world.pass(200);
    let (token, request) = world.returned();
    assert_eq!(request, (3, Some((1, 1)), false), "until it has come");
    world.end_return(token, b"200");
    world.pass(10_000);
    assert!(world.callouts.is_empty(), "once");
    assert_eq!(world.edge.background.visits.leases.len(), 0);
}

#[test]
fn a_block_that_is_used_up_is_told_at_the_next_tick() {
    let mut world = World::new();
    let first = world.limited("a");
    world.lease(&first, 1);
    world.pass(100);
    let (token, request) = world.returned();
    assert_eq!(request, (2, Some((1, 1)), false));
    // A visitor comes first: both tell it, and the control plane counts it once.
    let second = world.ask_visit("a");
    assert_eq!((second.number, second.settled), (3, Some((1, 1))));
    world.end_return(token, b"409");
    assert_eq!(world.lease(&second, 2).len(), 1);
    assert_eq!(world.visit("/a"), Answered(served()));
}

#[test]
fn a_failed_request_is_503_and_keeps_its_number_until_it_is_answered() {
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
fn a_stale_record_serves_no_more_than_the_block() {
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
fn a_visitor_who_has_left_before_the_answer_leaves_the_visit_to_another() {
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
fn head_uses_no_visit() {
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
fn visits_of_no_more_links_are_held_than_allowed() {
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
    world.end_return(token, b"200");
    world.pass(0);
    world.ask_visit("b");
}

#[test]
fn a_block_that_comes_too_late_is_not_spent() {
    let mut world = World::new();
    let first = world.limited("a");
    world.stand_still(5_000);
    assert_eq!(world.lease(&first, 3), [unavailable()]);
}

#[test]
fn a_request_that_the_proxy_forgets_is_given_up() {
    let mut world = World::new();
    let first = world.limited("a");
    assert_eq!(world.pass(1_800), [unavailable()]);
    assert!(world.lease(&first, 3).is_empty());
}
