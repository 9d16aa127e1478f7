//! Redis as the host shows it: gRPC streams.

use crate::support::{builder, configuration_with, start};
use edgelink_tests::abi::host::{Cluster, Fleet, HeaderMap, Outcome};
use serde_json::json;
use std::time::Duration;

fn fleet(bridge: Cluster) -> Fleet {
    let configuration = configuration_with(json!({"redis": {"mode": "direct"}}));
    start(builder(&configuration).cluster("resp_bridge", bridge))
}

#[test]
fn redis_stream_when_no_request_has_come_is_not_opened() {
    let mut fleet = fleet(Cluster::Healthy);
    fleet.pass(Duration::from_secs(5));
    assert!(fleet.worker(0).grpc_streams().is_empty());
    fleet.worker(0).get("/abc");
    fleet.pass(Duration::from_secs(1));
    assert!(!fleet.worker(0).grpc_streams().is_empty());
}

#[test]
fn bridge_when_it_closes_all_streams_is_survived() {
    let mut fleet = fleet(Cluster::Healthy);
    fleet.worker(0).get("/abc");
    for _ in 0..100 {
        fleet.pass(Duration::from_millis(300));
        let worker = fleet.worker(0);
        for stream in worker.grpc_streams() {
            worker.grpc_initial_metadata(&stream, &HeaderMap::default());
            worker.grpc_message(&stream, "-ERR no\r\n");
            worker.grpc_close(&stream, 14, &HeaderMap::default());
        }
    }
    assert!(fleet.worker(0).grpc_streams().len() <= 1);
    fleet.assert_unharmed();
}

/// The connection fails inside of the tick that opens it. Envoy would spin for ever if the filter had a callback for gRPC metadata,
/// in which it would run what it has deferred: `tests/tests/filter/abi/conformance.rs`.
#[test]
fn bridge_when_without_a_host_is_survived() {
    let mut fleet = fleet(Cluster::NoHost);
    let stream = fleet.worker(0).request("GET", "/abc").send();
    fleet.pass(Duration::from_secs(5));
    let worker = fleet.worker(0);
    assert_ne!(worker.outcome(stream), Outcome::Paused);
    fleet.assert_unharmed();
}
