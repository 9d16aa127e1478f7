//! The form with the password of a link, seen from the host.

use crate::support::{answer, builder, configuration, follow, start};
use edgelink_tests::abi::host::{Callout, End, Fleet, Outcome, Response, StreamId, Worker};
use edgelink_tests::scenario::{Reply, extended};
use edgelink_wire::password::UnlockKey;
use edgelink_wire::record::Extension;
use edgelink_wire::{RedirectStatus, VisitsAnswer, VisitsRequest};
use std::time::Duration;

const BODY: &[u8] = b"password=secret";

fn locked() -> Reply {
    let extension = Extension {
        unlock_key: Some(UnlockKey::new("hash", b"go.example/abc")),
        ..Extension::default()
    };
    Reply::Link(extended("https://example.com/", &extension))
}

fn fleet() -> Fleet {
    start(builder(&configuration()).allow_on_headers_stop_iteration())
}

fn open(worker: &mut Worker) -> StreamId {
    let form = worker.request("POST", "/abc?x=1");
    form.header("content-type", "application/x-www-form-urlencoded")
        .header("content-length", "15")
        .header("x-forwarded-proto", "https")
        .open()
}

/// The form of a link that is known, whole.
fn submit(worker: &mut Worker) -> (StreamId, Callout) {
    assert_eq!(follow(worker, "abc", &locked()).status(), 200);
    let stream = open(worker);
    worker.send_body(stream, &BODY[..5], End::More);
    assert!(worker.callouts().is_empty(), "it is not all there");
    worker.send_body(stream, &BODY[5..], End::Last);
    (stream, worker.callout())
}

#[test]
fn form_when_submitted_is_answered_by_the_control_plane() {
    let mut fleet = fleet();
    let worker = fleet.worker(0);
    let (stream, callout) = submit(worker);
    assert_eq!(callout.path(), "/edge/v1/unlock/go.example/abc");
    assert_eq!(callout.header(":method"), Some("POST"));
    assert_eq!(callout.header("authorization"), Some("Bearer secret"));
    assert_eq!(callout.body, BODY);
    assert_eq!(callout.timeout, Some(Duration::from_secs(5)));
    assert_eq!(worker.outcome(stream), Outcome::Paused);
    let cookie = Response::new(200)
        .header("content-type", "application/vnd.edgelink.cookie")
        .body("1.ab");
    worker.answer(&callout, cookie);
    let opened = worker.outcome(stream).local_response();
    assert_eq!(opened.status(), 303);
    assert_eq!(opened.get("location"), Some("/abc?x=1"));
    let cookie = opened.get("set-cookie").expect("a cookie");
    assert!(cookie.contains("=1.ab; Path=/abc; ") && cookie.ends_with("; Secure"));
    fleet.assert_unharmed();
}

#[test]
fn form_when_its_callout_fails_is_503() {
    for is_reset in [true, false] {
        let mut fleet = fleet();
        let worker = fleet.worker(0);
        let (stream, callout) = submit(worker);
        if is_reset {
            worker.reset_callout(&callout);
        } else {
            worker.time_out_callout(&callout);
        }
        assert_eq!(worker.outcome(stream).local_response().status(), 503);
        fleet.assert_unharmed();
    }
}

#[test]
fn visitor_when_leaving_is_not_answered() {
    let mut fleet = fleet();
    let worker = fleet.worker(0);
    let (stream, callout) = submit(worker);
    worker.close_stream(stream);
    worker.answer(&callout, Response::new(403));
    fleet.assert_unharmed();
}

#[test]
fn form_when_for_no_link_passes_whole() {
    for is_body_first in [true, false] {
        let mut fleet = fleet();
        let worker = fleet.worker(0);
        let stream = open(worker);
        let lookup = worker.callout();
        if is_body_first {
            worker.send_body(stream, BODY, End::Last);
        }
        assert_eq!(worker.outcome(stream), Outcome::Paused);
        answer(worker, &lookup, &Reply::Absent { rev: 1 });
        if !is_body_first {
            worker.send_body(stream, BODY, End::Last);
        }
        let outcome = worker.outcome(stream);
        assert!(
            matches!(outcome, Outcome::PassedThrough { .. }),
            "{outcome:?}"
        );
        assert_eq!(worker.passed_body(stream), (BODY.to_vec(), End::Last));
        fleet.assert_unharmed();
    }
}

/// The answer to a request for visits.
fn visits(lease: &Callout) -> Response {
    let request = VisitsRequest::decode(&lease.body).expect("a request for visits");
    let leased = VisitsAnswer {
        number: request.number,
        visits: 9,
        millis: 5_000,
    };
    Response::new(200)
        .header("content-type", VisitsAnswer::MEDIA_TYPE)
        .body(leased.to_bytes())
}

/// The link keeps the method and has a limit: what was a form waits for a visit.
#[test]
fn form_when_it_waits_for_a_use_is_held() {
    let extension = Extension {
        max_visits: Some(9),
        ..Extension::default()
    };
    let mut link = extended("https://example.com/", &extension);
    link.redirect = RedirectStatus::TemporaryRedirect;
    for is_known in [true, false] {
        let mut fleet = fleet();
        let worker = fleet.worker(0);
        let stream = open(worker);
        let lookup = worker.callout();
        answer(worker, &lookup, &Reply::Link(link.clone()));
        let lease = worker.callout();
        assert_eq!(lease.path(), "/edge/v1/visits/go.example/abc");
        worker.send_body(stream, &BODY[..5], End::More);
        assert_eq!(worker.outcome(stream), Outcome::Paused);
        worker.send_body(stream, &BODY[5..], End::More);
        worker.send_trailers(stream);
        assert_eq!(worker.outcome(stream), Outcome::Paused);
        if is_known {
            worker.answer(&lease, visits(&lease));
        } else {
            worker.reset_callout(&lease);
        }
        let answered = worker.outcome(stream).local_response();
        assert_eq!(answered.status(), if is_known { 307 } else { 503 });
        fleet.assert_unharmed();
    }
}

#[test]
fn form_when_longer_than_declared_is_403() {
    let mut fleet = fleet();
    let worker = fleet.worker(0);
    follow(worker, "abc", &locked());
    let stream = open(worker);
    worker.send_body(stream, &[b'x'; 1_025], End::More);
    assert_eq!(worker.outcome(stream).local_response().status(), 403);
    fleet.assert_unharmed();
}

#[test]
fn form_when_trailers_come_is_complete() {
    let mut fleet = fleet();
    let worker = fleet.worker(0);
    follow(worker, "abc", &locked());
    let stream = open(worker);
    worker.send_body(stream, BODY, End::More);
    worker.send_trailers(stream);
    let callout = worker.callout();
    assert_eq!(callout.body, BODY);
    assert_eq!(worker.outcome(stream), Outcome::Paused);
    worker.answer(&callout, Response::new(403));
    assert_eq!(worker.outcome(stream).local_response().status(), 403);
    let unknown = worker.request("POST", "/open");
    let unknown = unknown
        .header("content-type", "application/x-www-form-urlencoded")
        .header("content-length", "15")
        .open();
    let lookup = worker.callout();
    worker.send_body(unknown, BODY, End::More);
    worker.send_trailers(unknown);
    assert_eq!(worker.outcome(unknown), Outcome::Paused);
    answer(worker, &lookup, &Reply::Absent { rev: 1 });
    let outcome = worker.outcome(unknown);
    assert!(
        matches!(outcome, Outcome::PassedThrough { .. }),
        "{outcome:?}"
    );
    assert_eq!(worker.passed_body(unknown), (BODY.to_vec(), End::Last));
    let other = worker.request("POST", "/health/x").open();
    worker.send_body(other, BODY, End::More);
    worker.send_trailers(other);
    assert_eq!(worker.passed_body(other), (BODY.to_vec(), End::Last));
    fleet.assert_unharmed();
}

#[test]
fn form_when_it_may_have_arrived_is_not_sent_again() {
    let mut fleet = fleet();
    let (_, callout) = submit(fleet.worker(0));
    let retried = callout.header("x-envoy-retry-on");
    assert_eq!(retried, Some("connect-failure,refused-stream"));
}

/// Answers are nested in the proxy, whose stack has an end.
#[test]
fn forms_when_many_end_at_once_are_answered_in_parts() {
    const FORMS: usize = 256;
    const AT_ONCE: usize = 32;
    let mut fleet = fleet();
    let worker = fleet.worker(0);
    follow(worker, "abc", &locked());
    let streams: Vec<_> = (0..FORMS).map(|_| open(worker)).collect();
    let next = open(worker);
    let answered = |worker: &Worker| {
        let outcomes = streams.iter().map(|stream| worker.outcome(*stream));
        let local = outcomes.filter(|outcome| matches!(outcome, Outcome::LocalResponse(_)));
        local.count()
    };
    assert_eq!(answered(worker), 0, "not within the callback of another");
    worker.tick();
    assert_eq!(answered(worker), 1, "the oldest has made room");
    fleet.advance(Duration::from_secs(2));
    let worker = fleet.worker(0);
    let mut before = answered(worker);
    while before < FORMS {
        worker.tick();
        let now = answered(worker);
        assert!((1..=AT_ONCE).contains(&(now - before)), "{before} to {now}");
        assert!(worker.tick_period() <= Some(Duration::from_millis(1)) || now == FORMS);
        before = now;
    }
    worker.tick();
    assert_eq!(worker.outcome(next).local_response().status(), 503);
    assert!(worker.tick_period() > Some(Duration::from_millis(1)));
    fleet.assert_unharmed();
}

/// Without `allow_on_headers_stop_iteration` the filter never sees the body.
#[test]
fn form_when_its_body_does_not_come_is_503() {
    let mut fleet = start(builder(&configuration()));
    let worker = fleet.worker(0);
    follow(worker, "abc", &locked());
    let stream = open(worker);
    worker.send_body(stream, BODY, End::Last);
    assert_eq!(worker.outcome(stream), Outcome::Paused);
    fleet.pass(Duration::from_secs(4));
    let answer = fleet.worker(0).outcome(stream).local_response();
    assert_eq!(answer.status(), 503);
    fleet.assert_unharmed();
}

#[test]
fn form_when_its_body_is_not_shown_passes() {
    let mut fleet = start(builder(&configuration()));
    let worker = fleet.worker(0);
    let stream = open(worker);
    let lookup = worker.callout();
    answer(worker, &lookup, &Reply::Absent { rev: 1 });
    worker.send_body(stream, BODY, End::Last);
    assert_eq!(worker.passed_body(stream), (BODY.to_vec(), End::Last));
    fleet.assert_unharmed();
}
