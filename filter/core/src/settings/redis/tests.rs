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

fn parse(redis: &Value) -> Result<Redis, SettingsError> {
    with(redis, &json!({})).map(|settings| settings.redis.unwrap())
}

fn error(redis: &Value) -> String {
    parse(redis).unwrap_err().to_string()
}

#[test]
fn what_is_not_said_has_the_documented_default() {
    let redis = parse(&json!({"mode": "direct"})).unwrap();
    assert_eq!(redis.cluster, "resp_bridge");
    assert_eq!(redis.feed, None);
    let lookups = redis.lookups;
    let mode = Mode::Direct {
        auth: None,
        name: "edgelink".to_owned(),
        database: 0,
    };
    assert_eq!(lookups.mode, mode);
    assert_eq!(
        (
            lookups.connect_timeout_ms,
            lookups.timeout_ms,
            lookups.dead_after_ms
        ),
        (500, 150, 1_000)
    );
    assert_eq!(
        (lookups.max_waiting, lookups.max_unanswered_bytes),
        (1_024, 1 << 20)
    );
    assert_eq!(lookups.max_batch, 32);
    assert_eq!(
        (lookups.backoff.first_ms, lookups.backoff.cap_ms),
        (50, 2_000)
    );
    let feed = parse(&json!({"mode": "direct", "feed": {}}))
        .unwrap()
        .feed
        .unwrap();
    assert_eq!((feed.block_ms, feed.batch), (1_000, 64));
}

#[test]
fn everything_that_is_said_is_taken() {
    let redis = json!({
        "mode": "direct", "cluster": "c", "user": "u", "password": "p w", "database": 3,
        "clientName": "n", "connectTimeoutMs": 10, "timeoutMs": 11, "deadAfterMs": 12,
        "maxPending": 13, "maxBufferedBytes": 1025, "maxBatch": 14, "backoffMs": 15, "maxBackoffMs": 16,
        "feed": {"blockMs": 117, "batch": 18},
    });
    let redis = parse(&redis).unwrap();
    let mode = |name: &str| Mode::Direct {
        auth: Some(Auth {
            user: Some("u".to_owned()),
            password: "p w".to_owned(),
        }),
        name: name.to_owned(),
        database: 3,
    };
    assert_eq!(redis.cluster, "c");
    assert_eq!(redis.lookups.mode, mode("n"));
    assert_eq!(redis.lookups.dead_after_ms, 12);
    assert_eq!(redis.lookups.max_unanswered_bytes, 1_025);
    assert_eq!(redis.lookups.max_batch, 14);
    let feed = redis.feed.unwrap();
    assert_eq!((feed.block_ms, feed.batch), (117, 18));
    assert_eq!(feed.connection.mode, mode("n-feed"));
    assert_eq!(feed.connection.max_batch, 1, "the feed waits for nothing");
}

#[test]
fn a_pool_is_not_told_a_password_but_the_feed_beside_it_is() {
    let pooled = json!({"mode": "pooled", "password": "p"});
    assert_eq!(
        error(&pooled),
        "field 'redis.password': must be left out: in mode pooled Envoy authenticates"
    );
    let redis = parse(&json!({"mode": "pooled", "password": "p", "feed": {}})).unwrap();
    assert_eq!(redis.lookups.mode, Mode::Pooled);
    assert!(matches!(
        redis.feed.unwrap().connection.mode,
        Mode::Direct { auth: Some(_), .. }
    ));
}

#[test]
fn every_bad_field_is_named() {
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
    ] {
        let mut redis = json!({"mode": "direct"});
        redis[field] = value;
        let error = error(&redis);
        assert!(
            error.starts_with(&format!("field 'redis.{field}'")),
            "{error}"
        );
    }
    for (field, value) in [
        ("blockMs", json!(99)),
        ("blockMs", json!(2_501)),
        ("batch", json!(0)),
        ("batch", json!(1_001)),
        ("count", json!(1)),
    ] {
        let mut redis = json!({"mode": "direct", "feed": {}});
        redis["feed"][field] = value;
        let error = error(&redis);
        assert!(
            error.starts_with(&format!("field 'redis.feed.{field}'")),
            "{error}"
        );
    }
    assert!(error(&json!({})).contains("mode"));
}

#[test]
fn a_feed_needs_an_lru_that_remembers_the_last_changes() {
    let feed = json!({"mode": "direct", "feed": {}});
    let error = with(&feed, &json!({"lru": {"maxBytes": 1_048_575}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "field 'lru.maxBytes': must be at least 1048576 with redis.feed"
    );
    assert!(with(&feed, &json!({"lru": {"maxBytes": 1_048_576}})).is_ok());
}

#[test]
fn settings_that_are_shown_show_no_password() {
    let redis = json!({"mode": "direct", "password": "hidden", "feed": {}});
    assert!(!format!("{:?}", parse(&redis).unwrap()).contains("hidden"));
}

#[test]
fn the_longest_answers_there_are_fit_the_limits() {
    use crate::resp::decode::Decoder;
    use crate::resp::encode;
    use edgelink_wire::code::MAX_CODE_LENGTH;
    use edgelink_wire::domain::MAX_DOMAIN_LENGTH;
    use edgelink_wire::feed::FeedMessage;
    use edgelink_wire::{LinkRecord, LinkState, Record, RedirectStatus, redis};

    let url = "u".repeat(MAX_URL_LENGTH);
    let record = Record::Link(LinkRecord {
        url: url.as_str(),
        redirect: RedirectStatus::Found,
        state: LinkState::Disabled,
        valid_since: Some(u64::MAX),
        valid_until: Some(u64::MAX),
        forward_query: true,
        rev: u64::MAX,
    });
    let settings = parse(&json!({"mode": "direct", "feed": {"batch": 3}})).unwrap();

    let values: Vec<_> = redis::record_to_fields(&record)
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    let values: Vec<_> = values.iter().map(|value| value.as_bytes()).collect();
    let mut reply = Vec::new();
    encode::words(&values, &mut reply);
    let mut decoder = Decoder::new(settings.lookups.limits);
    assert!(decoder.next(&mut reply.as_slice()).unwrap().is_some());

    let key = format!(
        "{}/{}",
        "d".repeat(MAX_DOMAIN_LENGTH),
        "c".repeat(MAX_CODE_LENGTH)
    );
    let mut fields = Vec::new();
    for (name, value) in (FeedMessage::Put {
        key: &key,
        record,
        hot: true,
    })
    .to_fields()
    {
        fields.extend([name.as_bytes().to_vec(), value]);
    }
    fields.extend([
        b"prev".to_vec(),
        b"18446744073709551615-18446744073709551615".to_vec(),
    ]);
    let fields: Vec<_> = fields.iter().map(Vec::as_slice).collect();
    let mut entry = b"*2\r\n$41\r\n18446744073709551615-18446744073709551615\r\n".to_vec();
    encode::words(&fields, &mut entry);
    let reply = [
        b"*1\r\n*2\r\n$4\r\nfeed\r\n*3\r\n".to_vec(),
        entry.repeat(3),
    ]
    .concat();
    let mut decoder = Decoder::new(settings.feed.unwrap().connection.limits);
    assert!(decoder.next(&mut reply.as_slice()).unwrap().is_some());
}

#[test]
fn a_feed_is_refused_that_would_always_have_been_silent_for_too_long() {
    let redis = json!({"mode": "direct", "feed": {"blockMs": 100}});
    for (seconds, is_right) in [(1, false), (2, false), (3, true)] {
        let lives = json!({"freshSeconds": seconds});
        let refused = with(&redis, &lives).map_err(|error| error.to_string());
        let expected = "field 'freshSeconds': must be at least 3 with redis.feed";
        assert_eq!(refused.err().as_deref(), (!is_right).then_some(expected));
    }
}

/// Answers come in the order of the questions: one node of Redis that hangs would make those of all others late as well.
#[test]
fn an_operation_of_the_pool_has_less_time_than_a_lookup() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/redis.yaml");
    let template = std::fs::read_to_string(file).unwrap();
    let (_, rest) = template.split_once("op_timeout: ").unwrap();
    let (seconds, _) = rest.split_once('s').unwrap();
    let operation_ms = seconds.parse::<f64>().unwrap() * 1_000.0;
    let redis = parse(&json!({"mode": "pooled"})).unwrap();
    assert!(operation_ms < redis.lookups.timeout_ms as f64);
}
