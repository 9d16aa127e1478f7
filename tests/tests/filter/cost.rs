//! What a redirect costs inside the VM: figures that noise cannot touch.

use crate::support::{configuration_with, follow, start};
use edgelink_tests::abi::host::{Cluster, Fleet, Metering, Module, Usage};
use edgelink_tests::fuel::{OTHER_COMPILER_TOLERANCE, TOLERANCE, agreed, measure};
use edgelink_tests::scenario::{Reply, link};
use serde_json::json;
use std::collections::BTreeMap;

fn metered() -> Fleet {
    // As in production: without the tier.
    let configuration = configuration_with(json!({"tierHeader": false}));
    let builder = Fleet::of(&Module::filter(Metering::Fuel))
        .configuration(configuration.to_string())
        .cluster("control_plane", Cluster::Healthy)
        .workers(2);
    start(builder)
}

fn cost_of(fleet: &mut Fleet, worker: usize, code: &str) -> Usage {
    let reply = Reply::Link(link("https://example.com/some/where?a=b"));
    let before = fleet.worker(worker).usage();
    follow(fleet.worker(worker), code, &reply);
    fleet.worker(worker).usage().since(&before)
}

#[test]
fn redirect_when_hot_makes_three_hostcalls() {
    let mut fleet = metered();
    cost_of(&mut fleet, 0, "abcdefg");
    cost_of(&mut fleet, 0, "abcdefg");

    let hot = cost_of(&mut fleet, 0, "abcdefg");

    println!("a hot redirect: {hot:#?}");
    let expected = [
        ("clock_time_get", 1),
        ("proxy_get_header_map_pairs", 1),
        ("proxy_send_local_response", 1),
    ];
    assert_eq!(hot.hostcalls, BTreeMap::from(expected));
    let expected = [
        ("proxy_on_context_create", 1),
        ("proxy_on_request_headers", 1),
        ("proxy_on_delete", 1),
    ];
    assert_eq!(hot.callbacks, BTreeMap::from(expected));
    assert!(hot.fuel > 0);
}

#[test]
fn redirect_when_hot_costs_the_same_each_time() {
    let mut fleet = metered();
    cost_of(&mut fleet, 0, "abcdefg");
    cost_of(&mut fleet, 0, "abcdefg");
    let first = cost_of(&mut fleet, 0, "abcdefg").fuel;
    for _ in 0..50 {
        let fuel = cost_of(&mut fleet, 0, "abcdefg").fuel;
        assert!(fuel.abs_diff(first) * 50 <= first, "{fuel} after {first}");
    }
}

#[test]
fn redirect_when_from_shared_data_reads_it_once() {
    let mut fleet = metered();
    cost_of(&mut fleet, 0, "abcdefg");

    let shared = cost_of(&mut fleet, 1, "abcdefg");

    println!("a redirect from shared data: {shared:#?}");
    assert_eq!(shared.hostcall("proxy_get_shared_data"), 1);
    assert_eq!(shared.hostcall("proxy_http_call"), 0);
}

/// The figures in `tests/bench/fuel.toml` hold.
#[test]
fn tier_when_measured_takes_no_more_fuel_than_agreed() {
    let (now, agreed) = (measure(), agreed());
    println!("{}", toml::to_string(&now).expect("figures"));
    let is_same_compiler = now.rustc == agreed.rustc;
    let tolerance = if is_same_compiler {
        TOLERANCE
    } else {
        println!("rustc {} is agreed upon: measure again", agreed.rustc);
        OTHER_COMPILER_TOLERANCE
    };
    assert!(
        !now.rustc.is_empty(),
        "the module does not say who built it"
    );
    assert!(
        now.tiers.keys().eq(agreed.tiers.keys()),
        "{now:?}, {agreed:?}"
    );
    for ((tier, now), agreed) in now.tiers.iter().zip(agreed.tiers.values()) {
        assert!(
            now.fuel * 100 <= agreed.fuel * (100 + tolerance),
            "{tier}: {now:?}, and {agreed:?} is agreed upon: find out why, or change tests/bench/fuel.toml"
        );
        if now.fuel * 100 < agreed.fuel * (100 - tolerance) {
            println!("{tier}: {now:?} is less than {agreed:?}: lower it in tests/bench/fuel.toml");
        }
        assert!(
            now.hostcalls <= agreed.hostcalls,
            "{tier}: {now:?}, and {agreed:?} is agreed upon"
        );
    }
}
