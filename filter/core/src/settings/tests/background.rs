use crate::settings::*;
use serde_json::{Value, json};

fn parse(more: &Value) -> Result<BackgroundSettings, SettingsError> {
    let mut config = json!({
        "domains": ["go.example"],
        "controlPlane": {"cluster": "cp", "token": "t"},
    });
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    Settings::parse(config.to_string().as_bytes()).map(|settings| settings.background)
}

fn error(more: &Value) -> String {
    parse(more).unwrap_err().to_string()
}

#[test]
fn setting_when_omitted_has_the_documented_default() {
    let background = parse(&json!({"snapshot": {}, "poll": {}, "admission": {}})).unwrap();
    let snapshot = SnapshotSection {
        timeout_millis: 5_000,
        max_bytes: 16_777_216,
        max_backoff_millis: 30_000,
    };
    let poll = PollSettings {
        wait_millis: 2_000,
        timeout_millis: 2_800,
        max_backoff_millis: 500,
    };
    assert_eq!(background.snapshot, Some(snapshot));
    assert_eq!(background.poll, Some(poll));
    assert_eq!(background.admission_silence_millis, Some(5_000));
}

#[test]
fn api_domains_when_without_snapshot_and_feed_are_refused() {
    assert!(parse(&json!({"apiDomains": true, "snapshot": {}, "poll": {}})).is_ok());
    for more in [
        json!({"apiDomains": true}),
        json!({"apiDomains": true, "snapshot": {}}),
        json!({"apiDomains": true, "poll": {}}),
    ] {
        let expected = "field 'apiDomains': must be left out, or given with snapshot and poll";
        assert_eq!(error(&more), expected);
    }
    let passes = json!({"apiDomains": true, "snapshot": {}, "poll": {}, "unknownHosts": "pass"});
    assert!(error(&passes).starts_with("field 'unknownHosts'"));
}

#[test]
fn field_when_bad_is_named() {
    for (section, field, value) in [
        ("snapshot", "timeoutMs", json!(99)),
        ("snapshot", "maxBytes", json!(1_023)),
        ("snapshot", "maxBytes", json!(67_108_865)),
        ("snapshot", "maxBackoffMs", json!(199)),
        ("snapshot", "url", json!("x")),
        ("poll", "waitMs", json!(99)),
        ("poll", "waitMs", json!(2_501)),
        ("poll", "maxBackoffMs", json!(49)),
        ("poll", "limit", json!(1)),
        ("admission", "maxSilenceSeconds", json!(0)),
        ("admission", "maxSilenceSeconds", json!(3)),
        ("admission", "maxSilenceSeconds", json!(56)),
        ("admission", "bound", json!(1)),
    ] {
        let mut config = json!({"snapshot": {}, "poll": {}, "admission": {}});
        config[section][field] = value;
        let error = error(&config);
        let expected = format!("field '{section}.{field}'");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn sections_when_they_do_not_fit_together_are_refused() {
    let needs = "field 'admission': must be left out, or given with snapshot and poll";
    assert_eq!(error(&json!({"admission": {}})), needs);
    assert_eq!(error(&json!({"admission": {}, "poll": {}})), needs);
    assert_eq!(error(&json!({"admission": {}, "snapshot": {}})), needs);
    let small = json!({"poll": {}, "lru": {"maxBytes": 1_048_575}});
    assert_eq!(
        error(&small),
        "field 'lru.maxBytes': must be at least 1048576 with poll"
    );
}
