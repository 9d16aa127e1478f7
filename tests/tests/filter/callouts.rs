//! What becomes of callouts, seen from the host.

use crate::support::{
    answer, builder, configuration, configuration_with, fleet, follow, key_of, start, tier,
};
use edgelink_tests::abi::host::{Cluster, Outcome, Response};
use edgelink_tests::scenario::{Reply, link};
use serde_json::json;
use std::time::Duration;

fn target() -> Reply {
    Reply::Link(link("https://example.com/"))
}

#[test]
fn lookup_when_sent_is_an_authorized_get_of_the_edge_api() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    worker.get("/abc");

    let callout = worker.callout();

    assert_eq!(callout.cluster, "control_plane");
    assert_eq!(callout.header(":method"), Some("GET"));
    assert_eq!(callout.path(), "/edge/v1/links/go.example/abc");
    assert_eq!(callout.header(":authority"), Some("control-plane"));
    assert_eq!(callout.header("authorization"), Some("Bearer secret"));
    assert_eq!(callout.timeout, Some(Duration::from_millis(800)));
    assert!(callout.body.is_empty());
}

#[test]
fn lookup_when_sent_carries_only_the_code_of_the_request() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let request = worker.request("GET", "/abc?token=x");
    request
        .header("host", "evil.example")
        .header("authorization", "mine")
        .send();

    let callout = worker.callout();

    assert_eq!(key_of(&callout), "go.example/abc");
    assert!(!format!("{callout:?}").contains("evil"));
    assert!(!format!("{callout:?}").contains("mine"));
}

#[test]
fn callout_when_it_breaks_off_without_headers_is_503() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let stream = worker.request("GET", "/abc").send();

    let callout = worker.callout();
    worker.reset_callout(&callout);

    assert_eq!(worker.outcome(stream).local_response().status(), 503);
    fleet.assert_unharmed();
}

#[test]
fn control_plane_when_without_a_host_is_503_at_once() {
    let without_host = builder(&configuration()).cluster("control_plane", Cluster::NoHost);
    let unknown = builder(&configuration_with(
        json!({"controlPlane": {"cluster": "unknown"}}),
    ));
    for builder in [without_host, unknown] {
        let mut fleet = start(builder);
        let response = fleet.worker(0).get("/abc").local_response();
        assert_eq!(response.status(), 503);
        fleet.assert_unharmed();
    }
}

#[test]
fn answer_when_all_waiters_have_left_is_cached() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let streams = [(); 3].map(|()| worker.request("GET", "/abc").send());
    let callout = worker.callout();
    for stream in streams {
        worker.close_stream(stream);
        assert_eq!(worker.outcome(stream), Outcome::Closed);
    }

    answer(worker, &callout, &target());

    let next = follow(worker, "abc", &target());
    assert_eq!((next.status(), tier(&next)), (302, "lru"));
    fleet.assert_unharmed();
}

#[test]
fn answer_when_the_filter_gave_up_does_no_harm() {
    let mut fleet = fleet(&configuration());
    let stream = fleet.worker(0).request("GET", "/abc").send();
    let callout = fleet.worker(0).callout();
    // Nothing but ticks: the proxy has forgotten the callout, and says nothing of it.
    fleet.freeze(Duration::from_secs(5));
    let worker = fleet.worker(0);
    worker.tick();
    assert_eq!(worker.outcome(stream).local_response().status(), 503);

    answer(worker, &callout, &target());
    answer(worker, &callout, &target());

    fleet.assert_unharmed();
}

#[test]
fn waiters_when_answered_get_their_own_query() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let one = worker.request("GET", "/abc?a=1").send();
    let two = worker.request("HEAD", "/abc?b=2").send();

    let callout = worker.callout();
    answer(worker, &callout, &target());

    let location = |stream| {
        let response = worker.outcome(stream).local_response();
        response.get("location").map(str::to_owned)
    };
    assert_eq!(location(one).as_deref(), Some("https://example.com/?a=1"));
    assert_eq!(location(two).as_deref(), Some("https://example.com/?b=2"));
}

#[test]
fn callouts_when_ended_are_counted_by_outcome() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    follow(worker, "ok1", &target());
    follow(worker, "absent1", &Reply::Absent { rev: 0 });
    for code in ["failed1", "timeout1", "garbage1"] {
        worker.get(format!("/{code}"));
        let callout = worker.callout();
        match code {
            "failed1" => worker.refuse_callout(&callout),
            "timeout1" => worker.time_out_callout(&callout),
            _ => worker.answer(&callout, Response::new(200).body("{}")),
        }
    }
    worker.tick();

    let counts = ["ok", "absent", "failed", "timeout"]
        .map(|outcome| fleet.counter(&format!("edgelink.callouts.{outcome}")));
    assert_eq!(counts, [1, 1, 2, 1]);
    assert_eq!(fleet.counter("edgelink.requests.control_plane.redirect"), 1);
    assert_eq!(
        fleet.counter("edgelink.requests.control_plane.not_found"),
        1
    );
    assert_eq!(
        fleet.counter("edgelink.requests.control_plane.unavailable"),
        3
    );
}
