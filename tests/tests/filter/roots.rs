//! Several plugin configurations in one VM, as while one drains and another one is in use: each has a root context of its
//! own, which comes and ends as the proxy likes.

use crate::support::{answer, configuration, configuration_with, fleet, key_of, tier};
use edgelink_tests::abi::host::{
    Cluster, End, Fleet, HeaderMap, Metric, Outcome, Response, RootId, Worker,
};
use edgelink_tests::scenario::{Reply, link};
use serde_json::{Value, json};
use std::time::Duration;

fn target(url: &str) -> Reply {
    Reply::Link(link(url))
}

/// Another configuration than that of the fleet.
fn other() -> Value {
    configuration_with(json!({
        "domains": ["other.example"],
        "retryAfterSeconds": 7,
        "tierHeader": false,
        "pages": {"notFound": "<p>other</p>"},
    }))
}

/// Follows a link through a root; a callout that it makes is answered.
fn follow(worker: &mut Worker, root: RootId, code: &str, reply: &Reply) -> Response {
    let stream = worker.request("GET", format!("/{code}")).root(root).send();
    if worker.outcome(stream) == Outcome::Paused {
        let callout = worker.callout();
        answer(worker, &callout, reply);
    }
    worker.outcome(stream).local_response()
}

fn location(response: &Response) -> &str {
    response.get("location").unwrap_or_default()
}

fn gauge(fleet: &Fleet, name: &str) -> u64 {
    match fleet.metric(&format!("edgelink.{name}")) {
        Some(Metric::Gauge(value)) => value,
        other => panic!("{name}: {other:?}"),
    }
}

/// Starts the other configuration and ends it again: an update that is rolled back, or was refused.
fn come_and_go(worker: &mut Worker) {
    let other = worker.start_root(&other().to_string()).expect("a root");
    worker.end_root(other);
}

#[test]
fn clock_when_the_newest_root_has_ended_goes_on() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let first = worker.root();
    follow(worker, first, "abc", &target("https://old/"));

    come_and_go(worker);
    fleet.pass(Duration::from_secs(5));

    let worker = fleet.worker(0);
    let changed = follow(worker, first, "abc", &target("https://new/"));
    assert_eq!(location(&changed), "https://new/", "old for ever");
    let cold = follow(worker, first, "cold", &target("https://cold/"));
    assert_eq!(location(&cold), "https://cold/");
    fleet.pass(Duration::from_secs(1));
    let counted = fleet.counter("edgelink.requests.control_plane.redirect");
    assert_eq!(counted, 3, "counters still count");
    assert_eq!(gauge(&fleet, "lru_entries"), 2);
    fleet.assert_unharmed();
}

#[test]
fn clock_when_the_first_root_has_ended_goes_on() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let first = worker.root();
    follow(worker, first, "abc", &target("https://old/"));

    let second = configuration_with(json!({"retryAfterSeconds": 2}));
    let second = worker.start_root(&second.to_string()).expect("a root");
    worker.end_root(first);

    let known = follow(worker, second, "abc", &target("https://new/"));
    assert_eq!((location(&known), tier(&known)), ("https://old/", "lru"));
    fleet.pass(Duration::from_secs(5));
    let worker = fleet.worker(0);
    let changed = follow(worker, second, "abc", &target("https://new/"));
    assert_eq!(location(&changed), "https://new/");
    fleet.assert_unharmed();
}

#[test]
fn clock_when_any_root_ticks_goes_on() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let first = worker.root();
    let second = worker.start_root(&other().to_string()).expect("a root");
    follow(worker, first, "abc", &target("https://old/"));
    for root in [first, second] {
        fleet.freeze(Duration::from_secs(5));
        fleet.worker(0).tick_root(root);
        let asked = follow(fleet.worker(0), first, "abc", &target("https://old/"));
        assert_eq!(tier(&asked), "control-plane", "{root:?}");
    }
}

#[test]
fn request_when_two_roots_run_goes_by_its_own_configuration() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let first = worker.root();
    let second = worker.start_root(&other().to_string()).expect("a root");
    let absent = Reply::Absent { rev: 0 };
    for (root, domain, retry_after, shows_tier, body) in [
        (second, "other.example", "7", false, "<p>other</p>"),
        (first, "go.example", "1", true, "Not found"),
        (second, "other.example", "7", false, "<p>other</p>"),
    ] {
        let stream = worker.request("GET", "/cold").root(root).send();
        let callout = worker.callout();
        assert_eq!(key_of(&callout), format!("{domain}/cold"));
        worker.refuse_callout(&callout);
        let failed = worker.outcome(stream).local_response();
        assert_eq!(failed.get("retry-after"), Some(retry_after));
        assert_eq!(!tier(&failed).is_empty(), shows_tier);
        let gone = follow(worker, root, "gone", &absent);
        let page = String::from_utf8_lossy(&gone.body).into_owned();
        assert!(page.contains(body), "{page}");
    }
    fleet.assert_unharmed();
}

#[test]
fn waiter_when_two_roots_run_is_answered_by_its_own() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let first = worker.root();
    let shown = worker.request("GET", "/abc").root(first).send();
    let hidden = configuration_with(json!({"tierHeader": false}));
    let second = worker.start_root(&hidden.to_string()).expect("a root");
    let hidden = worker.request("GET", "/abc").root(second).send();

    let callout = worker.callout();
    answer(worker, &callout, &target("https://e/"));

    let shown = worker.outcome(shown).local_response();
    let hidden = worker.outcome(hidden).local_response();
    assert_eq!((tier(&shown), tier(&hidden)), ("control-plane", ""));
    assert_eq!(location(&shown), location(&hidden));
}

#[test]
fn waiter_when_its_callout_ended_with_a_root_is_answered() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let first = worker.root();
    let left = worker.request("GET", "/abc").root(first).send();
    let second = configuration_with(json!({"retryAfterSeconds": 2}));
    let second = worker.start_root(&second.to_string()).expect("a root");
    let waits = worker.request("GET", "/abc").root(second).send();
    worker.close_stream(left);
    worker.end_root(first);
    assert_eq!(worker.callouts(), [], "it ended with the root");

    fleet.pass(Duration::from_millis(200));

    let worker = fleet.worker(0);
    let callout = worker.callout();
    answer(worker, &callout, &target("https://e/"));
    let response = worker.outcome(waits).local_response();
    assert_eq!(location(&response), "https://e/");
    fleet.assert_unharmed();
}

#[test]
fn snapshot_when_its_callout_ended_with_a_root_is_asked_for_again() {
    let polling = json!({"snapshot": {}, "poll": {}, "admission": {}});
    let mut fleet = fleet(&configuration_with(polling.clone()));
    fleet.worker(0).get("/");
    fleet.pass(Duration::from_secs(1));
    let snapshot = |fleet: &mut Fleet| {
        let callouts = fleet.worker(0).callouts().into_iter();
        callouts
            .filter(|callout| callout.path() == "/edge/v1/snapshot")
            .count()
    };
    assert_eq!(snapshot(&mut fleet), 1);
    let worker = fleet.worker(0);
    let first = worker.root();
    let mut changes = polling;
    changes["retryAfterSeconds"] = json!(2);
    let second = configuration_with(changes).to_string();
    worker.start_root(&second).expect("a root");
    assert_eq!(snapshot(&mut fleet), 1, "is still asked for");
    fleet.worker(0).end_root(first);
    assert_eq!(snapshot(&mut fleet), 0, "ended with the root");
    fleet.pass(Duration::from_millis(200));
    assert_eq!(snapshot(&mut fleet), 1, "asked for again");
    fleet.assert_unharmed();
}

#[test]
fn redis_connection_when_its_root_ends_is_made_again() {
    let redis = json!({"redis": {"mode": "direct"}});
    let configuration = configuration_with(redis.clone());
    let builder = crate::support::builder(&configuration);
    let mut fleet = crate::support::start(builder.cluster("resp_bridge", Cluster::Healthy));
    fleet.worker(0).get("/abc");
    fleet.pass(Duration::from_millis(300));
    let before = fleet.worker(0).grpc_streams();
    assert_eq!(before.len(), 1);

    let worker = fleet.worker(0);
    let first = worker.root();
    let mut changes = redis;
    changes["retryAfterSeconds"] = json!(2);
    let second = configuration_with(changes).to_string();
    worker.start_root(&second).expect("a root");
    assert_eq!(worker.grpc_streams(), before, "they are as they were");
    for callout in worker.callouts() {
        worker.refuse_callout(&callout);
    }
    worker.end_root(first);
    assert_eq!(worker.grpc_streams(), []);
    fleet.pass(Duration::from_secs(2));

    let after = fleet.worker(0).grpc_streams();
    assert_eq!(after.len(), 1);
    for stream in &after {
        let worker = fleet.worker(0);
        worker.grpc_message(stream, "+OK\r\n");
        worker.grpc_close(stream, 0, &HeaderMap::default());
    }
    fleet.pass(Duration::from_secs(2));
    assert_eq!(fleet.worker(0).grpc_streams().len(), 1);
    fleet.assert_unharmed();
}

#[test]
fn gauges_when_the_last_root_ends_are_given_back() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let first = worker.root();
    follow(worker, first, "abc", &target("https://e/"));
    fleet.pass(Duration::from_secs(1));
    assert_eq!(gauge(&fleet, "lru_entries"), 1);

    fleet.worker(0).end_root(first);
    assert_eq!(gauge(&fleet, "lru_entries"), 0);

    let worker = fleet.worker(0);
    let second = worker.start_root(&configuration().to_string());
    let second = second.expect("a root");
    let known = follow(worker, second, "abc", &target("https://e/"));
    assert_eq!(tier(&known), "lru");
    fleet.pass(Duration::from_secs(5));
    assert_eq!(gauge(&fleet, "lru_entries"), 1);
    let changed = follow(fleet.worker(0), second, "abc", &target("https://new/"));
    assert_eq!(location(&changed), "https://new/");
    fleet.assert_unharmed();
}

#[test]
fn waiters_when_a_root_ends_between_turns_are_answered() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let first = worker.root();
    let second = configuration_with(json!({"retryAfterSeconds": 2})).to_string();
    let second = worker.start_root(&second).expect("a root");
    let streams: Vec<_> = (0..100)
        .map(|_| worker.request("GET", "/abc").root(second).open())
        .collect();
    let callout = worker.callout();
    answer(worker, &callout, &target("https://e/"));
    worker.end_root(first);
    fleet.pass(Duration::from_secs(1));
    let worker = fleet.worker(0);
    for stream in streams {
        worker.send_body(stream, b"", End::Last);
        let response = worker.outcome(stream).local_response();
        assert_eq!(location(&response), "https://e/");
    }
    fleet.assert_unharmed();
}
