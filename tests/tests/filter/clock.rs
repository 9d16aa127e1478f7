//! A clock that does what real ones do.

use crate::support::{configuration, fleet, follow, tier};
use edgelink_tests::scenario::{Reply, link};
use std::time::Duration;

fn target() -> Reply {
    Reply::Link(link("https://example.com/"))
}

#[test]
fn clock_when_a_request_comes_is_read_once() {
    let mut fleet = fleet(&configuration());
    follow(fleet.worker(0), "abc", &target());
    let before = fleet.worker(0).usage();
    for _ in 0..100 {
        follow(fleet.worker(0), "abc", &target());
    }
    let usage = fleet.worker(0).usage().since(&before);
    assert_eq!(usage.hostcall("proxy_get_current_time_nanoseconds"), 0);
    assert_eq!(usage.hostcall("clock_time_get"), 100);
    let before = fleet.worker(0).usage();
    fleet.worker(0).tick();
    let usage = fleet.worker(0).usage().since(&before);
    assert_eq!(usage.hostcall("clock_time_get"), 2);
}

#[test]
fn wall_clock_when_set_back_keeps_no_link_fresh() {
    let mut fleet = fleet(&configuration());
    follow(fleet.worker(0), "abc", &target());
    let hour = Duration::from_secs(3_600);
    let earlier = fleet.now() - hour;
    fleet.set_clock(earlier);
    fleet.worker(0).tick();

    let response = follow(fleet.worker(0), "abc", &target());
    assert_eq!(tier(&response), "lru");
    fleet.pass(Duration::from_secs(5));
    let response = follow(fleet.worker(0), "abc", &target());

    assert_eq!((response.status(), tier(&response)), (302, "control-plane"));
    fleet.assert_unharmed();
}

#[test]
fn wall_clock_when_it_jumps_ahead_ends_validity_only() {
    let mut fleet = fleet(&configuration());
    let mut expiring = link("https://example.com/");
    expiring.valid_until = Some(fleet.now().as_secs() + 100);
    follow(fleet.worker(0), "expiring", &Reply::Link(expiring));
    follow(fleet.worker(0), "lasting", &target());
    let later = fleet.now() + Duration::from_secs(3_600);
    fleet.set_clock(later);
    fleet.worker(0).tick();

    let worker = fleet.worker(0);
    let expired = worker.request("GET", "/expiring").send();
    if let Some(callout) = worker.callouts().first() {
        worker.refuse_callout(callout);
    }
    let lasting = worker.request("GET", "/lasting").send();
    assert!(worker.callouts().is_empty(), "it is as young as it was");

    assert_eq!(worker.outcome(expired).local_response().status(), 410);
    assert_eq!(worker.outcome(lasting).local_response().status(), 302);
}

#[test]
fn process_when_it_was_stopped_serves_nothing_old() {
    let mut fleet = fleet(&configuration());
    follow(fleet.worker(0), "abc", &target());
    fleet.freeze(Duration::from_millis(4_999));
    assert_eq!(tier(&follow(fleet.worker(0), "abc", &target())), "lru");
    fleet.freeze(Duration::from_millis(1));
    let response = follow(fleet.worker(0), "abc", &target());
    assert_eq!(tier(&response), "control-plane");
    fleet.assert_unharmed();
}
