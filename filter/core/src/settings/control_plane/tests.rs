use super::*;
use crate::settings::{Settings, SettingsError};
use serde_json::{Value, json};

fn parse(control_plane: &Value) -> Result<Settings, SettingsError> {
    let config = json!({"domains": ["go.example"], "controlPlane": control_plane});
    Settings::parse(config.to_string().as_bytes())
}

fn servers(control_plane: &Value) -> ControlPlaneServers {
    parse(control_plane).unwrap().control_plane.servers
}

#[test]
fn server_when_given_is_scheme_host_and_port() {
    for (text, is_encrypted, host, port) in [
        ("http://control-plane:8082", false, "control-plane", 8082),
        ("http://[::1]:1", false, "::1", 1),
        ("https://127.0.0.1:65535", true, "127.0.0.1", 65_535),
    ] {
        let mut section = json!({"servers": [text]});
        if is_encrypted {
            section["caFile"] = json!("/ca.pem");
        }
        let expected = ServerAddress {
            is_encrypted,
            host: host.to_owned(),
            port,
        };
        assert_eq!(servers(&section).addresses, [expected], "{text}");
    }
}

#[test]
fn setting_when_omitted_has_the_documented_default() {
    let servers = servers(&json!({}));
    assert_eq!(
        (servers.tls, servers.token_file, servers.addresses.len()),
        (None, None, 0)
    );
    assert_eq!(servers.connect_timeout_millis, 500);
    assert_eq!(servers.max_streams, 100);
    assert_eq!(servers.resolve_seconds, 5);
}

#[test]
fn tls_when_given_has_its_files() {
    let servers = servers(&json!({
        "servers": ["https://a:1"], "caFile": "/ca", "serverName": "n", "certificateFile": "/c", "keyFile": "/k",
        "tokenFile": "/token",
    }));
    let tls = Tls {
        ca_file: "/ca".to_owned(),
        server_name: Some("n".to_owned()),
        own: Some(["/c".to_owned(), "/k".to_owned()]),
    };
    assert_eq!(servers.tls, Some(tls));
    assert_eq!(servers.token_file.as_deref(), Some("/token"));
}

#[test]
fn field_when_bad_is_named() {
    let many = vec!["http://a:1"; 65];
    for (field, section) in [
        ("servers", json!({"servers": ["a:1"]})),
        ("servers", json!({"servers": ["http://a"]})),
        ("servers", json!({"servers": ["http://a:0"]})),
        ("servers", json!({"servers": ["http://a:65536"]})),
        ("servers", json!({"servers": ["http://:1"]})),
        ("servers", json!({"servers": ["http://a/b:1"]})),
        ("servers", json!({"servers": ["http://::1:1"]})),
        ("servers", json!({"servers": ["http://[a]:1"]})),
        ("servers", json!({"servers": ["ftp://a:1"]})),
        ("servers", json!({"servers": [""]})),
        ("servers", json!({"servers": many})),
        ("servers", json!({"servers": ["https://a:1"]})),
        (
            "servers",
            json!({"servers": ["http://a:1"], "caFile": "/ca"}),
        ),
        ("serverName", json!({"serverName": "n"})),
        ("keyFile", json!({"keyFile": "/k", "caFile": "/ca"})),
        ("certificateFile", json!({"certificateFile": "/c"})),
        ("tokenFile", json!({"token": "t", "tokenFile": "/t"})),
        ("connectTimeoutMs", json!({"connectTimeoutMs": 9})),
        ("maxStreams", json!({"maxStreams": 0})),
        ("resolveSeconds", json!({"resolveSeconds": 0})),
    ] {
        let error = parse(&section).unwrap_err().to_string();
        let field = format!("field 'controlPlane.{field}");
        assert!(error.contains(&field), "{section}: {error}");
    }
}

#[test]
fn access_when_missing_for_the_host_is_named() {
    let error = parse(&json!({"servers": ["http://a:1"]})).unwrap();
    let error = error.for_worker().unwrap_err().to_string();
    assert!(
        error.starts_with("field 'controlPlane.cluster': must be given"),
        "{error}"
    );
    assert!(
        parse(&json!({"cluster": "c"}))
            .unwrap()
            .for_worker()
            .is_ok()
    );
}
