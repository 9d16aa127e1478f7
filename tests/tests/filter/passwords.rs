//! The form with the password of a link, seen from the host.

use crate::support::{answer, builder, configuration, follow, start};
use edgelink_tests::abi::host::{Callout, End, Fleet, Outcome, Response, StreamId, Worker};
use edgelink_tests::scenario::{Reply, extended, link};
use edgelink_wire::password::UnlockKey;
use edgelink_wire::record::Extension;
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
fn a_form_is_sent_to_the_control_plane_and_answered() {
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
fn a_form_whose_callout_fails_is_503() {
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
fn a_visitor_who_leaves_is_not_answered() {
    let mut fleet = fleet();
    let worker = fleet.worker(0);
    let (stream, callout) = submit(worker);
    worker.close_stream(stream);
    worker.answer(&callout, Response::new(403));
    fleet.assert_unharmed();
}

#[test]
fn a_form_for_an_open_link_passes_whole_after_the_lookup() {
    for is_body_first in [true, false] {
        let mut fleet = fleet();
        let worker = fleet.worker(0);
        let stream = open(worker);
        let lookup = worker.callout();
        if is_body_first {
            worker.send_body(stream, BODY, End::Last);
        }
        assert_eq!(worker.outcome(stream), Outcome::Paused);
        let target = Reply::Link(link("https://example.com/"));
        answer(worker, &lookup, &target);
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

#[test]
fn a_form_is_longer_than_it_said() {
    let mut fleet = fleet();
    let worker = fleet.worker(0);
    follow(worker, "abc", &locked());
    let stream = open(worker);
    worker.send_body(stream, &[b'x'; 1_025], End::More);
    assert_eq!(worker.outcome(stream).local_response().status(), 403);
    fleet.assert_unharmed();
}

/// Without `allow_on_headers_stop_iteration` the filter never sees the body.
#[test]
fn a_form_whose_body_does_not_come_is_503_after_a_while() {
    let mut fleet = start(builder(&configuration()));
    let worker = fleet.worker(0);
    follow(worker, "abc", &locked());
    let stream = open(worker);
    worker.send_body(stream, BODY, End::Last);
    assert_eq!(worker.outcome(stream), Outcome::Paused);
    fleet.pass(Duration::from_secs(12));
    let answer = fleet.worker(0).outcome(stream).local_response();
    assert_eq!(answer.status(), 503);
    fleet.assert_unharmed();
}
