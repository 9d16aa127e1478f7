//! `envoy/run.sh` and the bootstrap that it fills in.

use edgelink_tests::stack::{ControlPlane, Deployment, EnvoyOptions, Stats};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn run_sh(state: &Path, settings: &[(&str, &str)]) -> Output {
    with_arguments(&["--mode", "validate"], state, settings)
}

fn with_arguments(arguments: &[&str], state: &Path, settings: &[(&str, &str)]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy/run.sh");
    Command::new(script)
        .args(arguments)
        .env("EDGELINK_STATE_DIR", state)
        .env("EDGELINK_WASM", edgelink_tests::stack::filter_module())
        .envs(settings.iter().copied())
        .output()
        .expect("envoy/run.sh")
}

#[test]
fn envoy_takes_the_filled_bootstrap() {
    let token = "a-\"token\"-with-\\-&-${EDGE_PORT}";
    let escaped = r#"a-\\\"token\\\"-with-\\\\-&-${EDGE_PORT}"#;
    for in_plugin in ["false", "true"] {
        let state = TempDir::new().expect("a folder");
        let output = run_sh(
            state.path(),
            &[
                ("EDGELINK_EDGE_TOKEN", token),
                ("EDGELINK_TOKEN_IN_PLUGIN", in_plugin),
                ("EDGELINK_DOMAINS", "go.example,[::1]:8080"),
                (
                    "EDGELINK_CONTROL_PLANES",
                    "127.0.0.1:1,[::1]:2,cp.example:3",
                ),
                ("EDGELINK_EDGE_ADDRESS", "::"),
            ],
        );
        assert!(output.status.success(), "{output:?}");
        let read = |name: &str| std::fs::read_to_string(state.path().join("envoy").join(name));
        let filled = read("bootstrap.yaml").expect("the bootstrap");
        assert_eq!(filled.contains(escaped), in_plugin == "true", "{filled}");
        if in_plugin == "false" {
            // Older Envoys would send a line end along.
            assert_eq!(read("edge-token").expect("the token"), token);
        }
    }
}

#[test]
fn of_a_file_with_several_tokens_envoy_gets_the_first() {
    let state = TempDir::new().expect("a folder");
    let file = state.path().join("tokens");
    let settings = [("EDGELINK_EDGE_TOKEN_FILE", file.to_str().expect("a path"))];
    let read = || std::fs::read_to_string(state.path().join("envoy/edge-token"));
    let replace = || with_arguments(&["--token"], state.path(), &settings);
    std::fs::write(&file, "first\n").expect("a file");
    assert!(!replace().status.success(), "there is no Envoy");
    for (text, token) in [("first\n", "first"), ("\n one,two \r\nthree\n", "one")] {
        std::fs::write(&file, text).expect("a file");
        let output = run_sh(state.path(), &settings);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(read().expect("the token"), token);
    }
    std::fs::write(&file, "new\nfirst\n").expect("a file");
    assert_eq!(read().expect("the token"), "one", "nothing is read by itself");
    assert!(replace().status.success());
    assert_eq!(read().expect("the token"), "new");
    std::fs::write(&file, "\n").expect("a file");
    let output = run_sh(state.path(), &settings);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is empty"));
}

#[test]
fn settings_that_make_no_sense_stop_the_start_with_their_name() {
    let state = TempDir::new().expect("a folder");
    let token = ("EDGELINK_EDGE_TOKEN", "0123456789abcdef");
    for (name, value) in [
        ("EDGELINK_EDGE_PORT", "http"),
        ("EDGELINK_LRU_BYTES", "64MB"),
        ("EDGELINK_TIER_HEADER", "yes"),
        ("EDGELINK_RATE_PER_SECOND", "-1"),
        ("EDGELINK_RATE_BURST", "0"),
        ("EDGELINK_CONTROL_PLANES", "control-plane"),
        ("EDGELINK_ENVOY", "/bin/true"),
        ("EDGELINK_TOKEN_IN_PLUGIN", "yes"),
        ("EDGELINK_PAGES", "control-plane"),
        ("EDGELINK_CONTROL_PLANE_CA", "/nowhere/ca.pem"),
        ("EDGELINK_CLIENT_KEY", "/nowhere/key.pem"),
    ] {
        let output = run_sh(state.path(), &[token, (name, value)]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{name}");
        assert!(message.contains(name), "{name}: {message}");
    }
    let output = run_sh(state.path(), &[]);
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("edge token"),
        "{output:?}"
    );
}

#[cfg(unix)]
#[test]
fn no_other_user_can_read_the_token() {
    use std::os::unix::fs::PermissionsExt;
    let state = TempDir::new().expect("a folder");
    run_sh(state.path(), &[("EDGELINK_EDGE_TOKEN", "0123456789abcdef")]);
    for name in ["bootstrap.yaml", "edge-token"] {
        let file = state.path().join("envoy").join(name);
        let file = std::fs::metadata(file).expect("a filled file");
        assert_eq!(file.permissions().mode() & 0o077, 0, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn envoy_has_no_secret_in_its_environment() {
    use std::os::unix::fs::PermissionsExt;
    const SECRET: &str = "0123456789abcdef";
    const ENVOY: &str = "#!/bin/sh\ncase $1 in\n--version) echo 'envoy  version: 0/1.40.0/Clean' ;;\n*) env ;;\nesac\n";
    let state = TempDir::new().expect("a folder");
    let envoy = state.path().join("prints-its-environment");
    std::fs::write(&envoy, ENVOY).expect("a script");
    std::fs::set_permissions(&envoy, PermissionsExt::from_mode(0o755)).expect("a script");
    let output = run_sh(
        state.path(),
        &[
            ("EDGELINK_ENVOY", envoy.to_str().expect("a path")),
            ("EDGELINK_EDGE_TOKEN", SECRET),
            ("EDGELINK_AUTH_EDGE_TOKENS", SECRET),
            ("EDGELINK_REDIS_PASSWORD", SECRET),
        ],
    );
    let environment = String::from_utf8_lossy(&output.stdout);
    assert!(environment.contains("EDGELINK_STATE_DIR="), "{output:?}");
    assert!(!environment.contains(SECRET), "{environment}");
}

/// A setting that is renamed must not leave tests behind that set nothing.
#[tokio::test]
#[should_panic(expected = "unknown EDGELINK_ variable")]
async fn a_variable_of_no_setting_fails_the_test_that_sets_it() {
    ControlPlane::with_variables(&[("EDGELINK_SERVER_MOST_CONNECTIONS", "1")]).await;
}

#[tokio::test]
async fn metrics_have_labels_in_prometheus() {
    let edgelink = Deployment::start(&EnvoyOptions::default()).await;
    let path = edgelink.create_to("https://example.com/").await;
    edgelink.envoy.follow(&path).await;
    edgelink.envoy.follow(&path).await;
    edgelink.envoy.follow("/nowhere").await;

    let is_reported = |stats: &Stats| stats.sum_of("wasmcustom.edgelink.requests.") == 3;
    edgelink.envoy.await_figures(is_reported).await;
    let metrics = edgelink.envoy.admin("/stats/prometheus").await;

    for line in [
        r#"edgelink_requests{edgelink_tier="lru",edgelink_outcome="redirect"} 1"#,
        r#"edgelink_requests{edgelink_tier="control_plane",edgelink_outcome="not_found"} 1"#,
        r#"edgelink_callouts{edgelink_outcome="ok"} 1"#,
        r#"edgelink_callouts{edgelink_outcome="absent"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}
