//! Every bound of the configuration, reached.

use crate::support::{Numbers, answer, configuration_with, fleet, follow};
use edgelink_tests::abi::host::{Fleet, Metric, Outcome};
use edgelink_tests::scenario::{DOMAIN, Reply, link};
use serde_json::json;
use std::ops::Range;

fn target(length: usize) -> Reply {
    Reply::Link(link(&format!("https://example.com/{}", "x".repeat(length))))
}

#[test]
fn lru_when_full_stays_within_its_bytes() {
    let bound = 1 << 20;
    let mut fleet = fleet(&configuration_with(
        json!({"lru": {"maxBytes": bound}, "sharedData": {"slots": 0}}),
    ));
    let mut numbers = Numbers(7);
    let mut fill = |fleet: &mut Fleet, round: usize| {
        for index in 0..3_000 {
            let code = format!("r{round}x{index}");
            let length = numbers.below(1_000);
            follow(fleet.worker(0), &code, &target(length));
        }
        fleet.worker(0).tick();
        fleet.worker(0).memory_size()
    };

    // Some rounds: where the allocator has holes depends on what else is in memory.
    let sizes: Vec<_> = (0..8).map(|round| fill(&mut fleet, round)).collect();

    let Some(Metric::Gauge(bytes)) = fleet.metric("edgelink.lru_bytes") else {
        panic!("no gauge");
    };
    assert!(bytes <= bound, "{bytes} bytes");
    assert!(bytes > bound / 2, "{bytes} bytes only");
    assert_eq!(sizes[4], sizes[7], "the memory still grows: {sizes:?}");
}

/// A fleet with a cache of 64 MiB and nothing beside it.
fn with_64_mib() -> Fleet {
    fleet(&configuration_with(
        json!({"lru": {"maxBytes": CACHE}, "sharedData": {"slots": 0}}),
    ))
}

const CACHE: usize = 64 << 20;

/// Follows so many links, whose targets have 60 bytes, and gives the bytes of key and target of one.
fn follow_all(fleet: &mut Fleet, links: Range<usize>) -> usize {
    let target = target(60 - "https://example.com/".len());
    for link in links {
        follow(fleet.worker(0), &format!("{link:07}"), &target);
        if link % 1_000 == 0 {
            fleet.worker(0).tick();
        }
    }
    DOMAIN.len() + "/0000000".len() + 60
}

#[test]
fn link_when_cached_takes_96_bytes_besides_key_and_target_at_most() {
    let mut fleet = with_64_mib();
    follow_all(&mut fleet, 0..1_000);
    let before = fleet.worker(0).memory_size();
    let own = follow_all(&mut fleet, 1_000..41_000);
    let each = (fleet.worker(0).memory_size() - before) / 40_000;
    println!("{each} bytes for a link, {own} of them its key and target");
    assert!(each <= own + 96, "{each} bytes, {own} of them its own");
}

#[test]
#[ignore = "takes minutes: cargo test -p edgelink-tests --test filter million -- --ignored --nocapture"]
fn cache_when_a_million_links_come_stays_within_its_bound() {
    let mut fleet = with_64_mib();
    follow_all(&mut fleet, 0..1_000_000);
    let memory = fleet.worker(0).memory_size();
    println!("{memory} bytes of memory for a cache of {CACHE}");
    assert!(memory <= CACHE + (10 << 20), "{memory} bytes");
}

#[test]
fn filter_when_without_caches_still_answers() {
    let mut fleet = fleet(&configuration_with(
        json!({"lru": {"maxBytes": 0}, "sharedData": {"slots": 0}}),
    ));
    for _ in 0..3 {
        assert_eq!(follow(fleet.worker(0), "abc", &target(10)).status(), 302);
    }
    assert_eq!(fleet.shared_data_size(), (0, 0));
    fleet.assert_unharmed();
}

#[test]
fn lookups_when_beyond_max_pending_are_503() {
    let mut fleet = fleet(&configuration_with(
        json!({"controlPlane": {"maxPending": 3}}),
    ));
    let worker = fleet.worker(0);
    let streams: Vec<_> = (0..5)
        .map(|index| worker.request("GET", format!("/code{index}")).send())
        .collect();

    assert_eq!(worker.callouts().len(), 3);
    for stream in &streams[3..] {
        assert_eq!(worker.outcome(*stream).local_response().status(), 503);
    }
    for callout in worker.callouts() {
        answer(worker, &callout, &target(1));
    }
    for stream in &streams[..3] {
        assert_eq!(worker.outcome(*stream).local_response().status(), 302);
    }
}

#[test]
fn visitors_when_beyond_max_waiting_get_503() {
    let mut fleet = fleet(&configuration_with(
        json!({"controlPlane": {"maxWaiting": 3}}),
    ));
    let worker = fleet.worker(0);
    let streams: Vec<_> = (0..5)
        .map(|_| worker.request("GET", "/abc").send())
        .collect();
    let outcomes: Vec<_> = streams
        .iter()
        .map(|stream| worker.outcome(*stream))
        .collect();
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Paused)
            .count(),
        3
    );
    for outcome in &outcomes[3..] {
        assert_eq!(outcome.clone().local_response().status(), 503);
    }

    // A place is free again when a visitor leaves.
    worker.close_stream(streams[0]);
    assert_eq!(worker.get("/abc"), Outcome::Paused);
}

#[test]
fn value_when_beyond_the_largest_is_not_shared() {
    let mut fleet = fleet(&configuration_with(
        json!({"sharedData": {"maxValueBytes": 128}}),
    ));
    follow(fleet.worker(0), "small", &target(10));
    assert_eq!(fleet.shared_data_size().0, 1);
    follow(fleet.worker(0), "large", &target(200));
    let (_, bytes) = fleet.shared_data_size();
    assert!(bytes < 200, "{bytes} bytes");
}
