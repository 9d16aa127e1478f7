mod background;
mod clicks;
mod reference;

use super::*;
use serde_json::{Value, json};

fn smallest() -> Value {
    json!({"domains": ["go.example"], "controlPlane": {"cluster": "cp", "token": "secret"}})
}

fn with(pointer: &str, value: Value) -> Value {
    let mut config = smallest();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = config.pointer_mut(parent).unwrap();
    parent[name] = value;
    config
}

fn parse(config: &Value) -> Result<Settings, SettingsError> {
    Settings::parse(config.to_string().as_bytes())
}

#[test]
fn setting_when_omitted_has_the_documented_default() {
    let settings = parse(&smallest()).unwrap();
    assert_eq!(settings.control_plane.authority, "control-plane");
    let authorization = settings.control_plane.authorization.as_deref();
    assert_eq!(authorization, Some("Bearer secret"));
    assert_eq!(settings.control_plane.timeout_millis, 800);
    assert_eq!(settings.control_plane.max_pending, 1_024);
    assert_eq!(settings.control_plane.max_waiting, 10_000);
    assert_eq!(settings.lru_max_bytes, 67_108_864);
    assert_eq!((settings.slots, settings.max_value_bytes), (65_536, 2_048));
    assert_eq!(
        settings.lifetimes,
        Lifetimes {
            fresh_millis: 5_000,
            absent_fresh_millis: 5_000,
            with_feed_millis: 3_600_000,
            stale_millis: 86_400_000
        }
    );
    assert_eq!(settings.retry_after, "1");
    assert_eq!(settings.tick_millis, 100);
    assert!(!settings.tier_header);
    assert_eq!(settings.unknown_hosts, UnknownHosts::Default);
}

#[test]
fn setting_when_given_is_taken() {
    let config = json!({
        "domains": ["127.0.0.1:8080", "GO.example"], "unknownHosts": "pass",
        "controlPlane": {"cluster": "c", "authority": "a", "token": "t", "timeoutMs": 1, "maxPending": 2, "maxWaiting": 3},
        "lru": {"maxBytes": 4}, "sharedData": {"slots": 5, "maxValueBytes": 64},
        "freshSeconds": 7, "absentFreshSeconds": 6, "staleSeconds": 8, "retryAfterSeconds": 9,
        "tierHeader": true, "tickMs": 10,
        "pages": {"notFound": "n", "gone": "g", "unavailable": "u"},
    });
    let settings = parse(&config).unwrap();
    assert_eq!(settings.domains[1].as_str(), "go.example");
    assert_eq!(settings.unknown_hosts, UnknownHosts::Pass);
    assert_eq!(settings.retry_after_millis, 9_000);
    assert_eq!(&*settings.pages.not_found, "n");
    assert_eq!(&*settings.pages.gone, "g");
    assert_eq!(&*settings.pages.unavailable, "u");
}

#[test]
fn field_when_bad_is_named() {
    let long = "x".repeat(16_385);
    for (pointer, value) in [
        ("/domains", json!([])),
        ("/domains", json!(["a b"])),
        ("/domains", json!(["https://a"])),
        ("/domains", json!(["a", "A"])),
        ("/domains", json!("a")),
        ("/unknownHosts", json!("first")),
        ("/unknownHosts", json!(null)),
        ("/domains", json!(vec!["a"; 1_001])),
        ("/controlPlane", json!(null)),
        ("/controlPlane/cluster", json!("")),
        ("/controlPlane/cluster", json!(1)),
        ("/controlPlane/authority", json!("a\r\nb")),
        ("/controlPlane/token", json!("")),
        ("/controlPlane/token", json!("a b")),
        ("/controlPlane/timeoutMs", json!(0)),
        ("/controlPlane/timeoutMs", json!(60_001)),
        ("/controlPlane/timeoutMs", json!("800")),
        ("/controlPlane/maxPending", json!(0)),
        ("/controlPlane/maxPending", json!(100_001)),
        ("/controlPlane/maxWaiting", json!(0)),
        ("/controlPlane/maxWaiting", json!(1_000_001)),
        ("/controlPlane/retries", json!(1)),
        ("/limit", json!({"perSecond": 0})),
        ("/limit", json!({"perSecond": 1_000_001})),
        ("/limit", json!({"burst": 0})),
        ("/limit", json!({"burst": 1_000_000_001})),
        ("/limit", json!({"maxAddresses": 7})),
        ("/limit", json!({"maxAddresses": 16_777_217})),
        ("/lru", json!({"maxBytes": 1_073_741_825u64})),
        ("/lru", json!({"maxEntries": 5})),
        ("/sharedData", json!({"slots": 1_048_577})),
        ("/sharedData", json!({"maxValueBytes": 63})),
        ("/freshSeconds", json!(-1)),
        ("/freshSeconds", json!(86_401)),
        ("/freshSeconds", json!(1.5)),
        ("/absentFreshSeconds", json!(86_401)),
        ("/staleSeconds", json!(0)),
        ("/staleSeconds", json!(4)),
        ("/staleSeconds", json!(31_536_001)),
        ("/retryAfterSeconds", json!(0)),
        ("/tierHeader", json!("yes")),
        ("/tickMs", json!(9)),
        ("/tickMs", json!(1_001)),
        ("/pages", json!({"notFound": long})),
        ("/pages", json!({"teapot": ""})),
        ("/unknown", json!(1)),
    ] {
        let error = parse(&with(pointer, value.clone()))
            .unwrap_err()
            .to_string();
        let name = match value.as_object().and_then(|object| object.keys().next()) {
            Some(inner) => inner.as_str(),
            None => pointer.rsplit('/').next().unwrap(),
        };
        assert!(error.contains(name), "{pointer}={value}: {error}");
    }
}

#[test]
fn field_when_missing_is_named() {
    for (config, name) in [
        (
            json!({"controlPlane": {"cluster": "c", "token": "t"}}),
            "domains",
        ),
        (json!({"domains": ["a"]}), "controlPlane"),
    ] {
        let error = parse(&config).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")), "{error}");
    }
}

#[test]
fn settings_when_not_one_json_object_are_refused() {
    let twice = [smallest().to_string(), "{}".to_owned()].concat();
    let again = smallest()
        .to_string()
        .replacen('{', r#"{"tickMs":100,"tickMs":100,"#, 1);
    for config in ["", "{", "null", "[]", "\"text\"", &twice, &again] {
        assert!(Settings::parse(config.as_bytes()).is_err(), "{config}");
    }
    assert!(Settings::parse(b"\xff").is_err());
}

#[test]
fn authorization_when_there_is_no_token_is_none() {
    let config = json!({"domains": ["a"], "controlPlane": {"cluster": "c"}});
    assert_eq!(parse(&config).unwrap().control_plane.authorization, None);
}

#[test]
fn token_when_refused_is_not_repeated() {
    let error = parse(&with("/controlPlane/token", json!("secret word"))).unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn bounds_when_for_a_process_are_multiplied_by_workers() {
    let json = r#"{"domains":["go.example"],"controlPlane":{"servers":["http://c.test:80"],"maxPending":2,"maxWaiting":3},"poll":{},
        "redis":{"mode":"pooled","servers":["a:1"],"maxPending":5,"maxBufferedBytes":2048},"visits":{"maxLinks":7},
        "clicks":{"maxBytes":1048576,"maxEventBytes":16384,"maxOrphanBytes":65536,"attributes":["userAgent"],"orphans":true}}"#;
    for (workers, times) in [(0, 1), (1, 1), (32, 32)] {
        let settings = Settings::parse(json.as_bytes()).unwrap();
        let settings = settings.for_process(workers).unwrap();
        let clicks = settings.clicks.unwrap();
        assert_eq!(clicks.max_bytes, times << 20);
        assert_eq!(clicks.max_event_bytes, 16_384 * times);
        assert_eq!(
            clicks.max_orphan_bytes,
            (65_536 * times).min(1 << 20),
            "of a batch"
        );
        assert!(clicks.max_unsent_bytes >= clicks.least_unsent_bytes());
        assert_eq!(settings.max_forms, 256 * times);
        let (control_plane, redis) = (settings.control_plane, settings.redis.unwrap());
        let bounds = [
            control_plane.max_pending,
            control_plane.max_waiting,
            redis.lookups.max_waiting,
            redis.lookups.max_unanswered_bytes,
            settings.max_limited_links,
        ];
        assert_eq!(bounds, [2, 3, 5, 2_048, 7].map(|bound| bound * times));
        assert_eq!(settings.slots, 0);
    }
}
