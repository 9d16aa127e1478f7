//! Bytes of every kind, from every side: nothing traps the filter.

use crate::support::{Numbers, builder, configuration, configuration_with, fleet, start};
use edgelink_tests::abi::host::{Outcome, Response};
use edgelink_wire::LinkAnswer;
use serde_json::json;

#[test]
fn request_when_of_any_bytes_is_survived() {
    let configuration =
        configuration_with(json!({"domains": ["go.example", "other.example:8080"]}));
    let mut fleet = fleet(&configuration);
    let worker = fleet.worker(0);
    let mut numbers = Numbers(1);
    for _ in 0..3_000 {
        let mut path = numbers.bytes(80);
        if numbers.below(2) == 0 {
            path.insert(0, b'/');
        }
        let method = ["GET", "HEAD", "POST", "\u{ff}", ""][numbers.below(5)];
        let request = worker.request(method, &path);
        let stream = request
            .header("host", numbers.bytes(300))
            .header("user-agent", numbers.bytes(300))
            .header("cookie", numbers.bytes(2_000))
            .send();
        if worker.outcome(stream) == Outcome::Paused {
            worker.close_stream(stream);
        }
    }
    fleet.assert_unharmed();
}

#[test]
fn paths_when_they_only_look_like_codes_pass_through() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    for path in [
        "", "a", "//a", "/a//", "/%2Fa", "/a%00b", "/..", "/.", "/a\0", "/é", "/a#b", "/a b",
        "/API", "*",
    ] {
        let outcome = worker.get(path);
        assert!(
            matches!(outcome, Outcome::PassedThrough { .. }),
            "{path}: {outcome:?}"
        );
    }
    assert!(worker.callouts().is_empty());
}

#[test]
fn request_when_it_passes_through_is_left_untouched() {
    let mut fleet = fleet(&configuration());
    let worker = fleet.worker(0);
    let stream = worker
        .request("POST", "/a.b")
        .header("x-a", "1")
        .header("x-a", "2")
        .send();
    let Outcome::PassedThrough { headers } = worker.outcome(stream) else {
        panic!("it did not pass through");
    };
    let names: Vec<_> = headers
        .iter()
        .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
        .collect();
    assert_eq!(
        names,
        [":authority", ":path", ":method", ":scheme", "x-a", "x-a"]
    );

    let response = Response::new(201).header("x-b", "1").body("made");
    worker.respond(stream, &response);
    assert_eq!(worker.outcome(stream), Outcome::Responded(response));
}

#[test]
fn answer_when_of_any_bytes_is_survived_with_503() {
    let mut fleet = fleet(&configuration());
    let mut numbers = Numbers(2);
    for round in 0..2_000 {
        let worker = fleet.worker(0);
        let stream = worker.request("GET", format!("/code{round}")).send();
        // The breaker lets nothing through while the control plane answers nothing but nonsense.
        if let Some(callout) = worker.callouts().first() {
            let mut body = numbers.bytes(120);
            if numbers.below(2) == 0 {
                let key = format!("go.example/code{round}");
                body.splice(..0, [&[0, key.len() as u8], key.as_bytes()].concat());
            }
            let status = [200, 404][numbers.below(2)];
            let response = Response::new(status)
                .header("content-type", LinkAnswer::MEDIA_TYPE)
                .body(body);
            worker.answer(callout, response);
        }
        let status = worker.outcome(stream).local_response().status();
        // Now and then the nonsense is a record: two bytes of absence are easily met.
        assert!(
            matches!(status, 301 | 302 | 307 | 308 | 404 | 410 | 503),
            "{status}"
        );
        fleet.advance(std::time::Duration::from_secs(5));
        fleet.worker(0).tick();
    }
    fleet.assert_unharmed();
}

#[test]
fn shared_data_when_of_any_bytes_is_survived() {
    let mut numbers = Numbers(3);
    let mut fleet = start(builder(&configuration_with(
        json!({"sharedData": {"slots": 1}}),
    )));
    fleet.set_shared_data(b"edgelink.slot.0", Vec::new());
    for round in 0..2_000 {
        let bytes = numbers.bytes(64);
        for key in fleet.shared_data_keys() {
            fleet.set_shared_data(&key, bytes.clone());
        }
        let worker = fleet.worker(0);
        let stream = worker.request("GET", format!("/code{round}")).send();
        if let Some(callout) = worker.callouts().first() {
            let reply = edgelink_tests::scenario::Reply::Absent { rev: 0 };
            crate::support::answer(worker, callout, &reply);
        }
        assert_eq!(worker.outcome(stream).local_response().status(), 404);
    }
    fleet.assert_unharmed();
}
