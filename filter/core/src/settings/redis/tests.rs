use super::*;
use crate::settings::{Settings as Whole, SettingsError};
use serde_json::{Value, json};

fn with(redis: &Value, more: &Value) -> Result<Whole, SettingsError> {
    let mut config = json!({
        "domains": ["go.example"],
        "controlPlane": {"cluster": "cp", "token": "t"},
        "redis": redis,
    });
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    Whole::parse(config.to_string().as_bytes())
}

fn parse(redis: &Value) -> Result<RedisSettings, SettingsError> {
    with(redis, &json!({})).map(|settings| settings.redis.unwrap())
}

fn error(redis: &Value) -> String {
    parse(redis).unwrap_err().to_string()
}

#[test]
fn setting_when_omitted_has_the_documented_default() {
    let redis = parse(&json!({"mode": "direct"})).unwrap();
    assert_eq!(redis.cluster, "resp_bridge");
    let lookups = redis.lookups;
    let mode = Mode::Direct {
        auth: None,
        name: "edgelink".to_owned(),
        database: 0,
    };
    assert_eq!(lookups.mode, mode);
    assert_eq!(
        (
            lookups.connect_timeout_millis,
            lookups.timeout_millis,
            lookups.dead_after_millis
        ),
        (500, 150, 1_000)
    );
    assert_eq!(
        (lookups.max_waiting, lookups.max_unanswered_bytes),
        (1_024, 1 << 20)
    );
    assert_eq!(lookups.max_batch, 32);
    assert_eq!(
        (lookups.backoff.first_millis, lookups.backoff.cap_millis),
        (50, 2_000)
    );
}

#[test]
fn setting_when_given_is_taken() {
    let redis = json!({
        "mode": "direct", "cluster": "c", "user": "u", "password": "p w", "database": 3,
        "clientName": "n", "connectTimeoutMs": 10, "timeoutMs": 11, "deadAfterMs": 12,
        "maxPending": 13, "maxBufferedBytes": 1025, "maxBatch": 14, "backoffMs": 15, "maxBackoffMs": 16,
    });
    let redis = parse(&redis).unwrap();
    let mode = Mode::Direct {
        auth: Some(Auth {
            user: Some("u".to_owned()),
            password: "p w".to_owned(),
        }),
        name: "n".to_owned(),
        database: 3,
    };
    assert_eq!(redis.cluster, "c");
    assert_eq!(redis.lookups.mode, mode);
    assert_eq!(redis.lookups.dead_after_millis, 12);
    assert_eq!(redis.lookups.max_unanswered_bytes, 1_025);
    assert_eq!(redis.lookups.max_batch, 14);
}

#[test]
fn password_when_pooled_is_refused() {
    let pooled = json!({"mode": "pooled", "password": "p"});
    assert_eq!(
        error(&pooled),
        "field 'redis.password': must be left out: in mode pooled Envoy authenticates"
    );
}

#[test]
fn field_when_bad_is_named() {
    for (field, value) in [
        ("cluster", json!("a b")),
        ("user", json!("u")),
        ("password", json!("")),
        ("database", json!(65_536)),
        ("clientName", json!("a b")),
        ("connectTimeoutMs", json!(9)),
        ("timeoutMs", json!(0)),
        ("deadAfterMs", json!(149)),
        ("maxPending", json!(0)),
        ("maxBufferedBytes", json!(1_023)),
        ("maxBatch", json!(0)),
        ("maxBatch", json!(1_001)),
        ("backoffMs", json!(0)),
        ("maxBackoffMs", json!(49)),
        ("mode", json!("sentinel")),
        ("port", json!(6379)),
        ("feed", json!({})),
    ] {
        let mut redis = json!({"mode": "direct"});
        redis[field] = value;
        let error = error(&redis);
        assert!(
            error.starts_with(&format!("field 'redis.{field}'")),
            "{error}"
        );
    }
    assert!(error(&json!({})).contains("mode"));
}

#[test]
fn settings_when_shown_hide_the_password() {
    let redis = json!({"mode": "direct", "password": "hidden"});
    assert!(!format!("{:?}", parse(&redis).unwrap()).contains("hidden"));
}

#[test]
fn answer_when_the_longest_fits_the_limits() {
    use crate::resp::decode::Decoder;
    use crate::resp::encode;
    use edgelink_wire::record::MAX_EXTENSION_LENGTH;
    use edgelink_wire::target::MAX_URL_LENGTH;
    use edgelink_wire::{LinkRecord, LinkState, Record, RedirectStatus, redis};

    let url = "u".repeat(MAX_URL_LENGTH);
    let extension = vec![b'e'; MAX_EXTENSION_LENGTH];
    let record = Record::Link(LinkRecord {
        url: url.as_str(),
        redirect: RedirectStatus::Found,
        state: LinkState::Disabled,
        valid_since: Some(u64::MAX),
        valid_until: Some(u64::MAX),
        forward_query: true,
        rev: u64::MAX,
        extension: &extension,
    });
    let settings = parse(&json!({"mode": "direct"})).unwrap();
    let values: Vec<_> = redis::record_to_fields(&record)
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    let values: Vec<_> = values.iter().map(Vec::as_slice).collect();
    let mut reply = Vec::new();
    encode::words(&values, &mut reply);
    let mut decoder = Decoder::new(settings.lookups.limits);
    assert!(decoder.next(&mut reply.as_slice()).unwrap().is_some());
}

/// Answers come in the order of the requests: one hanging node of Redis would delay the answers of all others as well.
#[test]
fn pool_timeout_when_compared_is_below_that_of_lookups() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/redis.yaml");
    let template = std::fs::read_to_string(file).unwrap();
    let (_, rest) = template.split_once("op_timeout: ").unwrap();
    let (seconds, _) = rest.split_once('s').unwrap();
    let operation_millis = seconds.parse::<f64>().unwrap() * 1_000.0;
    let redis = parse(&json!({"mode": "pooled"})).unwrap();
    assert!(operation_millis < redis.lookups.timeout_millis as f64);
}
