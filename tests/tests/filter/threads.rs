//! Several VMs in one process.

use crate::support::{builder, configuration, configuration_with, follow, start, tier};
use edgelink_tests::abi::host::{Cluster, Fleet, Metering, Metric, Module, Outcome};
use edgelink_tests::scenario::{Reply, link};
use serde_json::json;
use std::time::Duration;

const FRESH: Duration = Duration::from_secs(6);

fn two_workers() -> Fleet {
    start(builder(&configuration()).workers(2))
}

fn target(url: &str, rev: u64) -> Reply {
    let mut link = link(url);
    link.rev = rev;
    Reply::Link(link)
}

fn location(fleet: &mut Fleet, worker: usize, reply: &Reply) -> (String, String) {
    let response = follow(fleet.worker(worker), "abc", reply);
    let location = response.get("location").unwrap_or_default().to_owned();
    (location, tier(&response).to_owned())
}

#[test]
fn link_when_known_to_one_worker_is_found_in_shared_data() {
    let mut fleet = two_workers();
    let reply = target("https://example.com/", 1);
    location(&mut fleet, 0, &reply);

    let (url, from) = location(&mut fleet, 1, &reply);

    assert_eq!(
        (url.as_str(), from.as_str()),
        ("https://example.com/", "shared-data")
    );
    assert!(fleet.worker(1).callouts().is_empty());
    assert_eq!(location(&mut fleet, 1, &reply).1, "lru");
}

#[test]
fn absence_when_known_to_one_worker_is_found_in_shared_data() {
    let mut fleet = two_workers();
    follow(fleet.worker(0), "abc", &Reply::Absent { rev: 0 });

    let response = follow(fleet.worker(1), "abc", &Reply::Absent { rev: 0 });

    assert_eq!((response.status(), tier(&response)), (404, "shared-data"));
}

#[test]
fn shared_record_when_an_older_one_comes_is_kept() {
    let mut fleet = two_workers();
    location(&mut fleet, 0, &target("https://example.com/1", 1));
    location(&mut fleet, 1, &target("https://example.com/1", 1));
    fleet.pass(FRESH);
    location(&mut fleet, 0, &target("https://example.com/2", 2));
    fleet.pass(FRESH);

    // The second worker asks, and gets the old one.
    location(&mut fleet, 1, &target("https://example.com/1", 1));

    let (url, _) = location(&mut fleet, 0, &target("https://example.com/2", 2));
    assert_eq!(url, "https://example.com/2");
}

#[test]
fn write_when_it_loses_against_another_worker_is_not_retried() {
    let mut fleet = two_workers();
    location(&mut fleet, 0, &target("https://example.com/1", 1));
    let slot = fleet.shared_data_keys().remove(0);
    fleet.pass(FRESH);
    fleet.race_for_shared_data(&slot, "of another worker");
    let before = fleet.worker(0).usage();

    let (url, _) = location(&mut fleet, 0, &target("https://example.com/2", 2));

    assert_eq!(url, "https://example.com/2");
    let usage = fleet.worker(0).usage().since(&before);
    assert_eq!(usage.hostcall("proxy_set_shared_data"), 1);
    let (value, _) = fleet.shared_data(&slot).expect("a value");
    assert_eq!(value, b"of another worker");
    fleet.assert_unharmed();
}

#[test]
fn slot_when_it_holds_anything_else_counts_as_empty() {
    let mut fleet = two_workers();
    let url = "https://example.com/";
    let reply = target(url, 1);
    location(&mut fleet, 0, &reply);
    let slot = fleet.shared_data_keys().remove(0);
    let (good, _) = fleet.shared_data(&slot).expect("a value");
    for cut in 0..=good.len() - url.len() {
        let mut fleet = two_workers();
        fleet.set_shared_data(&slot, &good[..cut]);
        let (_, from) = location(&mut fleet, 1, &reply);
        assert_eq!(from, "control-plane", "{cut} bytes");
        fleet.assert_unharmed();
    }
}

#[test]
fn shared_data_when_many_links_come_has_no_more_keys_than_slots() {
    let configuration = configuration_with(json!({"sharedData": {"slots": 16}}));
    let mut fleet = start(builder(&configuration));
    for index in 0..200 {
        let code = format!("code{index}");
        follow(fleet.worker(0), &code, &target("https://example.com/", 1));
    }
    let (keys, bytes) = fleet.shared_data_size();
    assert!(keys <= 16, "{keys} keys");
    assert!(bytes < 16 * 256, "{bytes} bytes");
}

#[test]
fn main_thread_when_it_ticks_makes_no_callout() {
    let mut fleet = two_workers();
    fleet.pass(Duration::from_secs(10));
    let main = fleet.main();
    assert!(main.tick_period().is_some());
    assert!(main.usage().callbacks["proxy_on_tick"] > 10);
    assert!(main.callouts().is_empty());
    assert!(main.grpc_streams().is_empty());
    fleet.assert_unharmed();
}

#[test]
fn workers_when_started_together_tick_apart() {
    let mut fleet = start(builder(&configuration()).workers(4));
    let periods: Vec<_> = (0..4)
        .map(|index| fleet.worker(index).tick_period())
        .collect();
    assert!(
        periods.windows(2).any(|pair| pair[0] != pair[1]),
        "{periods:?}"
    );
}

#[test]
fn gauges_when_several_workers_run_are_summed() {
    let mut fleet = two_workers();
    for worker in 0..2 {
        location(&mut fleet, worker, &target("https://example.com/", 1));
        fleet.worker(worker).tick();
    }
    let entries = fleet.metric("edgelink.lru_entries");
    assert_eq!(entries, Some(Metric::Gauge(2)));
}

#[test]
fn gauges_when_a_worker_has_trapped_lose_its_part() {
    let metered = Fleet::of(&Module::filter(Metering::Fuel))
        .configuration(configuration().to_string())
        .cluster("control_plane", Cluster::Healthy);
    let mut fleet = start(metered.workers(2));
    let entries = |fleet: &Fleet| fleet.metric("edgelink.lru_entries");
    location(&mut fleet, 0, &target("https://example.com/", 1));
    fleet.pass(Duration::from_secs(1));
    assert_eq!(entries(&fleet), Some(Metric::Gauge(1)));

    fleet.worker(0).take_fuel();
    assert_eq!(fleet.worker(0).get("/abc").local_response().status(), 503);
    assert_eq!(fleet.worker(0).failures().len(), 1);
    fleet.pass(Duration::from_secs(5));
    assert_eq!(entries(&fleet), Some(Metric::Gauge(1)), "it may be slow");
    fleet.pass(Duration::from_secs(10));
    assert_eq!(entries(&fleet), Some(Metric::Gauge(0)));

    location(&mut fleet, 0, &target("https://example.com/", 1));
    assert_eq!(fleet.worker(0).reloads(), 1);
    fleet.pass(Duration::from_secs(1));
    assert_eq!(entries(&fleet), Some(Metric::Gauge(1)));
}

#[test]
fn visitor_when_another_worker_asks_does_not_wait_for_it() {
    let mut fleet = two_workers();
    assert_eq!(fleet.worker(0).get("/abc"), Outcome::Paused);
    assert_eq!(fleet.worker(1).get("/abc"), Outcome::Paused);
    assert_eq!(fleet.worker(0).callouts().len(), 1);
    assert_eq!(fleet.worker(1).callouts().len(), 1);
}
