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
fn setting_when_omitted_has_the_documented_default() {
    assert_eq!(parse(&json!(null)).unwrap(), None);
    let clicks = ClicksSection {
        flush_millis: 1_000,
        timeout_millis: 2_000,
        max_backoff_millis: 5_000,
        max_bytes: 1_048_576,
        max_unsent: 512,
        max_unsent_bytes: 8_388_608,
        attributes: Vec::new(),
        max_event_bytes: 524_288,
        orphans: false,
        max_orphan_bytes: 65_536,
    };
    assert_eq!(parse(&json!({})).unwrap(), Some(clicks));
}

#[test]
fn field_when_bad_is_named() {
    for (field, value) in [
        ("flushMs", json!(99)),
        ("timeoutMs", json!(60_001)),
        ("maxBackoffMs", json!(99)),
        ("maxBytes", json!(1_023)),
        ("maxUnsent", json!(63)),
        ("maxUnsentBytes", json!(1_048_575)),
        ("attributes", json!("city")),
        ("attributes[0]", json!(["cities"])),
        ("maxEventBytes", json!(16_383)),
        ("orphans", json!(1)),
        ("maxOrphanBytes", json!(1_048_577)),
        ("url", json!("x")),
    ] {
        let mut clicks = json!({});
        clicks[field.trim_end_matches("[0]")] = value;
        let error = parse(&clicks).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("field 'clicks.{field}'")),
            "{error}"
        );
    }
    let error = parse(&json!({"maxBytes": 2_000_000, "maxUnsentBytes": 1_999_999})).unwrap_err();
    let expected = "field 'clicks.maxUnsentBytes': must be at least clicks.maxBytes";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn unsent_bound_when_below_a_batch_of_each_kind_is_refused() {
    let mut clicks = json!({"maxBytes": 1_024, "maxUnsentBytes": 1_048_576 + 65_536});
    assert!(parse(&clicks).is_ok());
    clicks["attributes"] = json!(["utm"]);
    assert!(parse(&clicks).is_ok());
    clicks["orphans"] = json!(true);
    assert!(parse(&clicks).is_err());
    clicks["maxUnsentBytes"] = json!(1_048_576 + 65_536 + 1_024);
    assert!(parse(&clicks).is_ok());
}

#[test]
fn header_when_it_has_two_meanings_is_refused() {
    for (country, city, field) in [
        ("x-country", "X-Country", Some("geo.cityHeader")),
        ("User-Agent", "x-city", Some("geo.countryHeader")),
        ("x-country", "dnt", Some("geo.cityHeader")),
        ("x-country", "x-city", None),
    ] {
        let config = json!({
            "domains": ["go.example"],
            "controlPlane": {"cluster": "cp", "token": "t"},
            "geo": {"countryHeader": country, "cityHeader": city},
        });
        let refused = Settings::parse(config.to_string().as_bytes()).err();
        let refused = refused.map(|error| error.to_string());
        assert_eq!(refused.is_some(), field.is_some(), "{refused:?}");
        if let Some((refused, field)) = refused.zip(field) {
            assert!(
                refused.starts_with(&format!("field '{field}'")),
                "{refused}"
            );
        }
    }
}

#[test]
fn attributes_when_their_header_is_not_named_are_refused() {
    let all = json!([
        "country",
        "city",
        "userAgent",
        "referrer",
        "language",
        "utm",
        "rule",
        "visitor"
    ]);
    let config = |geo: Value| {
        json!({
            "domains": ["go.example"],
            "controlPlane": {"cluster": "cp", "token": "t"},
            "clicks": {"attributes": all},
            "geo": geo,
        })
        .to_string()
    };
    let both = config(json!({"countryHeader": "x-country", "cityHeader": "x-city"}));
    let settings = Settings::parse(both.as_bytes()).unwrap();
    assert_eq!(settings.clicks.unwrap().attributes.len(), 8);
    let error = Settings::parse(config(json!({})).as_bytes()).unwrap_err();
    let expected = "field 'clicks.attributes': country requires geo.countryHeader; \
                    field 'clicks.attributes': city requires geo.cityHeader";
    assert_eq!(error.to_string(), expected);
}
