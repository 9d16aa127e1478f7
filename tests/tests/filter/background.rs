//! What a worker asks the control plane for on its own account, as the host sees it.

use crate::support::{answer, configuration_with, fleet, follow, tier};
use edgelink_tests::abi::host::{Fleet, Outcome, Response};
use edgelink_tests::scenario::{DOMAIN, Reply, feed_batch, link, path_of, snapshot};
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::feed_batch::POLLER_HEADER;
use edgelink_wire::health::{self, RequestsByTier, WorkerHealth};
use edgelink_wire::record::RecordBytes;
use edgelink_wire::visits::worker_text;
use edgelink_wire::{FeedBatch, Record, Snapshot, clicks};
use serde_json::json;
use std::time::Duration;

const BOUND: u64 = 1_000_000;
const GENERATION: u64 = 7;

const BEAT: FeedMessage<'static> = FeedMessage::Beat(Beat {
    bound: 1,
    generation: GENERATION,
    number: 1,
    at: 0,
    age_millis: 0,
});

fn batch(next: u64, message: FeedMessage<'_>) -> Response {
    Response::ok(FeedBatch::MEDIA_TYPE, feed_batch(GENERATION, next, message))
}

/// A fleet whose worker has had a request, and knows a snapshot and that the feed is alive.
fn with_admission() -> Fleet {
    let configuration = configuration_with(json!({"snapshot": {}, "poll": {}, "admission": {}}));
    let mut fleet = fleet(&configuration);
    let outcome = fleet.worker(0).get("/");
    assert!(matches!(outcome, Outcome::PassedThrough { .. }));
    fleet.pass(Duration::from_secs(1));
    let worker = fleet.worker(0);
    let asked = worker.callout_to("/edge/v1/snapshot");
    assert_eq!(asked.header(":method"), Some("GET"));
    assert_eq!(asked.header("authorization"), Some("Bearer secret"));
    worker.answer(
        &asked,
        Response::ok(Snapshot::MEDIA_TYPE, snapshot(GENERATION, BOUND)),
    );
    let poll = worker.callout_to("/edge/v1/feed?after=5-0&generation=7&waitMs=2000");
    worker.answer(&poll, batch(6, BEAT));
    fleet.pass(Duration::from_secs(1));
    // A change counts as old as the poll before it: there have to be some polls.
    for _ in 0..2 {
        let worker = fleet.worker(0);
        let poll = worker.callout_to("/edge/v1/feed?after=6-0&generation=7&waitMs=2000");
        worker.answer(&poll, batch(6, BEAT));
        fleet.pass(Duration::from_secs(1));
    }
    fleet
}

#[test]
fn code_when_never_issued_costs_no_callout_or_memory() {
    let mut fleet = with_admission();
    let (callouts, keys) = (fleet.worker(0).callouts().len(), fleet.shared_data_keys());
    let memory = fleet.worker(0).memory_size();
    for number in BOUND..BOUND + 5_000 {
        let response = fleet.worker(0).get(path_of(number)).local_response();
        assert_eq!((response.status(), tier(&response)), (404, "admission"));
    }
    assert_eq!(fleet.worker(0).callouts().len(), callouts);
    assert_eq!(fleet.shared_data_keys(), keys);
    assert_eq!(fleet.worker(0).memory_size(), memory);
    fleet.assert_unharmed();
}

#[test]
fn change_when_polled_is_served_at_once() {
    let mut fleet = with_admission();
    let worker = fleet.worker(0);
    let asked = path_of(BOUND + 5);
    assert_eq!(tier(&worker.get(&asked).local_response()), "admission");
    let poll = worker.callout_to("/edge/v1/feed?after=6-0&generation=7&waitMs=2000");
    assert_eq!(poll.timeout, Some(Duration::from_millis(2_800)));
    let key = format!("{DOMAIN}{asked}");
    let record = Record::Link(link("https://alias.example/"));
    let record = RecordBytes::of(&record.as_deref());
    let put = FeedMessage::Put {
        key: &key,
        record: record.as_deref(),
        hot: false,
    };
    worker.answer(&poll, batch(7, put));
    let _ = worker.callout_to("/edge/v1/feed?after=7-0&generation=7&waitMs=2000");
    let response = worker.get(&asked).local_response();
    assert_eq!(response.get("location"), Some("https://alias.example/"));
    fleet.assert_unharmed();
}

#[test]
fn poll_when_answered_with_garbage_does_no_harm() {
    let mut fleet = with_admission();
    for body in [vec![], vec![1; 100], vec![0xff; 70_000]] {
        fleet.pass(Duration::from_secs(1));
        let worker = fleet.worker(0);
        let poll = worker.callout_to("/edge/v1/feed");
        worker.answer(&poll, Response::ok(FeedBatch::MEDIA_TYPE, body));
    }
    let reply = Reply::Link(link("https://example.com/"));
    let response = follow(fleet.worker(0), "x", &reply);
    assert_eq!(response.status(), 302);
    fleet.assert_unharmed();
}

#[test]
fn clicks_when_not_acknowledged_are_reported_again() {
    let mut fleet = fleet(&configuration_with(json!({"clicks": {}})));
    let reply = Reply::Link(link("https://example.com/"));
    for _ in 0..7 {
        assert_eq!(follow(fleet.worker(0), "x", &reply).status(), 302);
    }
    fleet.pass(Duration::from_secs(2));
    let worker = fleet.worker(0);
    let report = worker.callout();
    assert_eq!(report.header(":method"), Some("POST"));
    assert_eq!(report.header("content-type"), Some(clicks::MEDIA_TYPE));
    let batches = clicks::decode(&report.body).expect("batches");
    let key = format!("{DOMAIN}/x");
    assert_eq!(batches[0].clicks, [(key.as_str(), 7)]);
    worker.reset_callout(&report);
    fleet.pass(Duration::from_secs(1));
    let worker = fleet.worker(0);
    let again = worker.callout();
    assert_eq!(again.body, report.body);
    worker.answer(&again, Response::new(204));
    fleet.pass(Duration::from_secs(3));
    assert!(fleet.worker(0).callouts().is_empty());
    assert_eq!(fleet.counter("edgelink.clicks.acknowledged"), 7);
    fleet.assert_unharmed();
}

#[test]
fn worker_health_when_due_is_in_a_header_of_its_reports() {
    let sections = json!({"poll": {}, "clicks": {}});
    let mut fleet = fleet(&configuration_with(sections));
    let reply = Reply::Link(link("https://example.com/"));
    assert!(matches!(
        fleet.worker(0).get("/"),
        Outcome::PassedThrough { .. }
    ));
    fleet.pass(Duration::from_secs(1));
    let worker = fleet.worker(0);
    let poll = worker.callout_to("/edge/v1/feed");
    assert_eq!(poll.header(health::HEADER), None);
    let poller = poll.header(POLLER_HEADER).expect("a header").to_owned();
    worker.answer(&poll, batch(6, BEAT));
    // What is looked up in the moment in which the feed begins may be from before.
    fleet.pass(Duration::from_millis(100));
    let worker = fleet.worker(0);
    for _ in 0..3 {
        let stream = worker.request("GET", "/x").send();
        if worker.outcome(stream) == Outcome::Paused {
            let lookup = worker.callout_to("/edge/v1/links/");
            answer(worker, &lookup, &reply);
        }
        assert_eq!(worker.outcome(stream).local_response().status(), 302);
    }
    fleet.pass(Duration::from_secs(2));
    let worker = fleet.worker(0);
    let report = worker.callout_to("/edge/v1/clicks");
    assert_eq!(report.header(health::HEADER), None, "it is not due");
    assert_eq!(report.header(POLLER_HEADER), None, "it is for polls");
    worker.answer(&report, Response::new(204));
    fleet.pass(Duration::from_secs(10));
    let report = fleet.worker(0).callout_to("/edge/v1/clicks");
    assert_eq!(clicks::decode(&report.body), Ok(vec![]));
    let said = report.header(health::HEADER).expect("a header");
    let said = WorkerHealth::parse(said.as_bytes()).expect("health");
    let requests = RequestsByTier {
        lru: 2,
        control_plane: 1,
        ..RequestsByTier::default()
    };
    assert_eq!((said.requests, said.is_admitting), (requests, false));
    assert_eq!(poller, worker_text(&said.worker));
    let lag = said.feed_lag_millis.expect("a feed");
    assert!((8_000..=13_000).contains(&lag), "since the poll: {lag}");
    fleet.assert_unharmed();
}

#[test]
fn main_thread_when_time_passes_makes_no_callout() {
    let sections = json!({"snapshot": {}, "poll": {}, "admission": {}, "clicks": {}});
    let mut fleet = fleet(&configuration_with(sections));
    fleet.pass(Duration::from_secs(60));
    assert!(fleet.main().callouts().is_empty());
    assert!(
        fleet.worker(0).callouts().is_empty(),
        "nor a worker without requests"
    );
}
