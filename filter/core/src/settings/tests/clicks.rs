use crate::settings::*;
use serde_json::{Value, json};

fn parse(clicks: &Value) -> Result<Option<ClicksSection>, SettingsError> {
    let config = json!({
        "domains": ["go.example"],
        "controlPlane": {"cluster": "cp", "token": "t"},
        "clicks": clicks,
    });
    Settings::parse(config.to_string().as_bytes()).map(|settings| settings.clicks)
}

#[test]
fn what_is_not_said_has_the_documented_default() {
    assert_eq!(parse(&json!(null)).unwrap(), None);
    let clicks = ClicksSection {
        flush_millis: 1_000,
        timeout_millis: 2_000,
        max_backoff_millis: 5_000,
        max_bytes: 1_048_576,
        max_unsent: 512,
        max_unsent_bytes: 8_388_608,
    };
    assert_eq!(parse(&json!({})).unwrap(), Some(clicks));
}

#[test]
fn every_bad_field_is_named() {
    for (field, value) in [
        ("flushMs", json!(99)),
        ("timeoutMs", json!(60_001)),
        ("maxBackoffMs", json!(99)),
        ("maxBytes", json!(1_023)),
        ("maxUnsent", json!(63)),
        ("maxUnsentBytes", json!(1_048_575)),
        ("url", json!("x")),
    ] {
        let mut clicks = json!({});
        clicks[field] = value;
        let error = parse(&clicks).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("field 'clicks.{field}'")),
            "{error}"
        );
    }
    let error = parse(&json!({"maxBytes": 2_000_000, "maxUnsentBytes": 1_999_999})).unwrap_err();
    let expected = "field 'clicks.maxUnsentBytes': must be at least clicks.maxBytes";
    assert_eq!(error.to_string(), expected);
}
