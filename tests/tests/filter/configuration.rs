//! A bad field stops the start, and is named in the log.

use crate::support::{builder, configuration, configuration_with};
use edgelink_tests::abi::host::{StartFailure, Thread};
use serde_json::{Value, json};

fn assert_refused(configuration: &Value, field: &str) {
    let Err(error) = builder(configuration).start() else {
        panic!("{configuration} is taken");
    };
    assert_eq!(error.failure, StartFailure::Configure, "{:#?}", error.log);
    assert!(
        error.mentions(&format!("'{field}'")),
        "{field}: {:#?}",
        error.log
    );
    // Envoy asks a canary first, and refuses the whole configuration when that says no.
    assert!(error.log.iter().all(|line| line.thread == Thread::Canary));
    let is_leaked = error.mentions("secret-token");
    assert!(!is_leaked, "{:#?}", error.log);
}

#[test]
fn field_when_wrong_is_named() {
    for (changes, field) in [
        (json!({"domains": []}), "domains"),
        (json!({"domains": ["http://a"]}), "domains[0]"),
        (
            json!({"controlPlane": {"cluster": ""}}),
            "controlPlane.cluster",
        ),
        (
            json!({"controlPlane": {"token": "secret-token with space"}}),
            "controlPlane.token",
        ),
        (
            json!({"controlPlane": {"timeoutMs": 0}}),
            "controlPlane.timeoutMs",
        ),
        (
            json!({"controlPlane": {"maxPending": 0}}),
            "controlPlane.maxPending",
        ),
        (
            json!({"controlPlane": {"retries": 1}}),
            "controlPlane.retries",
        ),
        (json!({"lru": {"maxBytes": -1}}), "lru.maxBytes"),
        (
            json!({"sharedData": {"maxValueBytes": 1}}),
            "sharedData.maxValueBytes",
        ),
        (json!({"freshSeconds": "5"}), "freshSeconds"),
        (json!({"unknownHosts": "first"}), "unknownHosts"),
        (json!({"staleSeconds": 1}), "staleSeconds"),
        (json!({"tickMs": 0}), "tickMs"),
        (json!({"pages": {"teapot": ""}}), "pages.teapot"),
        (json!({"unheardOf": 1}), "unheardOf"),
    ] {
        assert_refused(&configuration_with(changes), field);
    }
}

#[test]
fn configuration_when_not_json_is_refused() {
    for text in ["", "{", "[]", "null", "\u{0}"] {
        let started = builder(&configuration()).configuration(text).start();
        let Err(error) = started else {
            panic!("'{text}' is taken");
        };
        assert_eq!(error.failure, StartFailure::Configure);
        assert!(error.mentions("plugin configuration"), "{:#?}", error.log);
    }
    let bytes = builder(&configuration())
        .configuration(vec![0xff, 0xfe])
        .start();
    assert!(bytes.is_err());
}
