//! How `envoy/run.sh` has Envoy load the native module.

use crate::configuration::{run_sh, with_arguments};
use edgelink_tests::certificates::Authority;
use edgelink_tests::stack::Filter;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

const TOKEN: (&str, &str) = ("EDGELINK_EDGE_TOKEN", "0123456789abcdef");

/// `envoy/run.sh` with the native module, and these settings.
fn settings(more: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let module = Filter::Native.variables().into_iter();
    let module = module.map(|(name, value)| (name, value.to_str().expect("a path").to_owned()));
    let token = (TOKEN.0, TOKEN.1.to_owned());
    module.chain([token]).chain(more.iter().cloned()).collect()
}

fn borrowed<'a>(settings: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    settings
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect()
}

/// The plugin configuration in a filled bootstrap.
fn plugin(bootstrap: &str) -> Value {
    let line = bootstrap.lines().find_map(|line| {
        let json = line.trim().strip_prefix("value: ")?;
        json.starts_with("\"{").then_some(json)
    });
    let json: String = serde_json::from_str(line.expect("a plugin")).expect("a quoted text");
    serde_json::from_str(&json).expect("JSON")
}

#[test]
fn native_module_when_redis_is_set_connects_by_itself() {
    let folder = TempDir::new().expect("a folder");
    let authority = Authority::new();
    let own = authority.issue("edge");
    let password = folder.path().join("password");
    fs::write(&password, "secret\n").expect("a file");
    let files = [&authority.file(), &own.certificate, &own.key, &password];
    let [ca, certificate, key, password] =
        files.map(|file| file.canonicalize().expect("a file").display().to_string());
    let settings = settings(&[
        ("EDGELINK_REDIS", "cluster".to_owned()),
        (
            "EDGELINK_REDIS_SERVERS",
            "10.0.0.1:6379,[::1]:6380".to_owned(),
        ),
        ("EDGELINK_REDIS_CA", ca.clone()),
        ("EDGELINK_REDIS_NAME", "redis.example".to_owned()),
        ("EDGELINK_REDIS_USER", "edge".to_owned()),
        ("EDGELINK_REDIS_PASSWORD_FILE", password.clone()),
        ("EDGELINK_CLIENT_CERTIFICATE", certificate.clone()),
        ("EDGELINK_CLIENT_KEY", key.clone()),
        ("EDGELINK_FEED", "poll".to_owned()),
        ("EDGELINK_OTLP", "127.0.0.1:4318".to_owned()),
    ]);
    let output = run_sh(folder.path(), &borrowed(&settings));
    assert!(output.status.success(), "{output:?}");
    let filled = fs::read_to_string(folder.path().join("envoy/bootstrap.yaml"));
    let filled = filled.expect("a bootstrap");
    for of_wasm in [
        "FILTER_STATE",
        "resp_bridge",
        "redis_proxy",
        ".wasm",
        "name: redis",
    ] {
        assert!(!filled.contains(of_wasm), "{of_wasm}: {filled}");
    }
    for said in ["outcome", "tier", "key"] {
        let said = format!("%DYNAMIC_METADATA(edgelink:{said})%");
        assert_eq!(filled.matches(&said).count(), 2, "{said}"); // in access logs and in spans
    }
    let expected = json!({
        "mode": "pooled", "servers": ["10.0.0.1:6379", "[::1]:6380"], "user": "edge", "passwordFile": password,
        "caFile": ca, "certificateFile": certificate, "keyFile": key, "serverName": "redis.example",
    });
    assert_eq!(plugin(&filled)["redis"], expected);
}

/// Where Envoy is rendered for another place, after it was for the Wasm module.
#[test]
fn bridge_when_rendered_for_the_native_module_is_removed() {
    let folder = TempDir::new().expect("a folder");
    let rendered = folder.path().join("rendered");
    let arguments = ["--render", rendered.to_str().expect("a path")];
    let redis = ("EDGELINK_REDIS", "direct".to_owned());
    let render = |settings: &[(&str, &str)]| {
        let output = with_arguments(&arguments, folder.path(), settings);
        assert!(output.status.success(), "{output:?}");
        rendered.join("redis.yaml").exists()
    };
    assert!(render(&[TOKEN, ("EDGELINK_REDIS", "direct")]));
    assert!(!render(&borrowed(&settings(&[redis]))));
}

#[test]
fn redis_setting_when_the_module_lacks_it_is_refused_by_name() {
    let folder = TempDir::new().expect("a folder");
    for (named, others) in [
        (("EDGELINK_REDIS", "pooled"), &[][..]),
        (
            ("EDGELINK_REDIS_SERVERS", "redis"),
            &[("EDGELINK_REDIS", "direct".to_owned())],
        ),
        (
            ("EDGELINK_REDIS_NAME", "redis.example"),
            &[("EDGELINK_REDIS", "direct".to_owned())],
        ),
    ] {
        let all = [others, &[(named.0, named.1.to_owned())]].concat();
        let output = run_sh(folder.path(), &borrowed(&settings(&all)));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{named:?}");
        assert!(message.contains(named.0), "{named:?}: {message}");
    }
}

/// `envoy --mode validate` loads whichever module it is, and hears what that has against its configuration.
#[test]
fn plugin_configuration_when_wrong_is_refused_by_its_field() {
    let folder = TempDir::new().expect("a folder");
    let template = include_str!("../../../envoy/plugin.json");
    let wrong = folder.path().join("wrong.json");
    for (from, to, field) in [
        ("\"tierHeader\"", "\"tierHeadr\"", "tierHeadr"),
        (
            "\"maxPending\": 1024",
            "\"maxPending\": 0",
            "controlPlane.maxPending",
        ),
        ("\"domains\": ${DOMAINS}", "\"domains\": []", "domains"),
    ] {
        assert!(template.contains(from), "{from}");
        fs::write(&wrong, template.replace(from, to)).expect("a file");
        let file = (
            "EDGELINK_ENVOY_PLUGIN",
            wrong.to_str().expect("a path").to_owned(),
        );
        let native = settings(&[file]);
        for settings in [&native[native.len() - 2..], &native] {
            let output = run_sh(folder.path(), &borrowed(settings));
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(!output.status.success(), "{field}: {settings:?}");
            assert!(said.contains(field), "{field}: {settings:?}: {said}");
        }
    }
}
