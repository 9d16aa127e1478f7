//! What access logs and traces can have of a request.

use crate::support::{answer, configuration_with, fleet};
use edgelink_tests::abi::host::{Outcome, StreamId, Worker};
use edgelink_tests::scenario::{DOMAIN, Reply, link};
use serde_json::json;

fn described(worker: &Worker, stream: StreamId) -> [String; 3] {
    ["outcome", "tier", "key"].map(|what| worker.filter_state(stream, &format!("edgelink.{what}")))
}

#[test]
fn request_when_it_waits_or_not_is_described() {
    let all = json!({"describe": ["outcome", "tier", "key"], "unknownCodes": "pass"});
    let mut fleet = fleet(&configuration_with(all));
    let worker = fleet.worker(0);
    let target = Reply::Link(link("https://example.com/"));
    for (code, reply, outcome) in [
        ("abc", target, "redirect"),
        ("none", Reply::Absent { rev: 1 }, "passed"),
    ] {
        for tier in ["control-plane", "lru"] {
            let stream = worker.request("GET", format!("/{code}")).send();
            if worker.outcome(stream) == Outcome::Paused {
                let callout = worker.callout();
                answer(worker, &callout, &reply);
            }
            let expected = [outcome, tier, &format!("{DOMAIN}/{code}")];
            assert_eq!(described(worker, stream), expected);
        }
    }
    let other = worker.request("GET", "/a.b").send();
    assert_eq!(described(worker, other), ["", "", ""]);
    fleet.assert_unharmed();
}

#[test]
fn property_when_not_asked_for_is_not_set() {
    for (describe, calls) in [(json!([]), 0), (json!(["tier"]), 1)] {
        let mut fleet = fleet(&configuration_with(json!({"describe": describe})));
        let worker = fleet.worker(0);
        let stream = worker.request("GET", "/abc").send();
        let callout = worker.callout();
        answer(worker, &callout, &Reply::Absent { rev: 1 });
        assert_eq!(worker.usage().hostcall("proxy_set_property"), calls);
        let [outcome, tier, key] = described(worker, stream);
        assert!(outcome.is_empty() && key.is_empty());
        assert_eq!(tier.is_empty(), calls == 0);
    }
}
