//! `envoy/run.sh` and the bootstrap that it fills in.

use edgelink_tests::certificates::Authority;
use edgelink_tests::stack::{ControlPlane, Deployment, EnvoyOptions, Filter, Stats};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

pub(crate) fn run_sh(state: &Path, settings: &[(&str, &str)]) -> Output {
    with_arguments(&["--mode", "validate"], state, settings)
}

pub(crate) fn with_arguments(
    arguments: &[&str],
    state: &Path,
    settings: &[(&str, &str)],
) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy/run.sh");
    Command::new(script)
        .args(arguments)
        .env("EDGELINK_STATE_DIR", state)
        .envs(Filter::Wasm.variables())
        .envs(settings.iter().copied())
        .output()
        .expect("envoy/run.sh")
}

#[test]
fn bootstrap_when_filled_is_taken_by_envoy() {
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
fn token_file_when_of_several_tokens_gives_envoy_the_first() {
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
    assert_eq!(
        read().expect("the token"),
        "one",
        "nothing is read by itself"
    );
    assert!(replace().status.success());
    assert_eq!(read().expect("the token"), "new");
    std::fs::write(&file, "\n").expect("a file");
    let output = run_sh(state.path(), &settings);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is empty"));
}

#[test]
fn setting_when_senseless_stops_the_start_with_its_name() {
    let state = TempDir::new().expect("a folder");
    let token = ("EDGELINK_EDGE_TOKEN", "0123456789abcdef");
    for (name, value) in [
        ("EDGELINK_EDGE_PORT", "http"),
        ("EDGELINK_LRU_BYTES", "64MB"),
        ("EDGELINK_FILTER", "lua"),
        ("EDGELINK_TIER_HEADER", "yes"),
        ("EDGELINK_RATE_PER_SECOND", "-1"),
        ("EDGELINK_RATE_BURST", "0"),
        ("EDGELINK_CONTROL_PLANES", "control-plane"),
        ("EDGELINK_ENVOY", "/bin/true"),
        ("EDGELINK_TOKEN_IN_PLUGIN", "yes"),
        ("EDGELINK_PAGES", "control-plane"),
        ("EDGELINK_TRACE_PARENTS", "yes"),
        ("EDGELINK_CONTROL_PLANE_CA", "/nowhere/ca.pem"),
        ("EDGELINK_CLIENT_KEY", "/nowhere/key.pem"),
        ("EDGELINK_CONTROL_PLANE_NAME", "control-plane.example"),
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

/// Without an authority Envoy would speak plain HTTP, and send the token along.
#[test]
fn tls_setting_when_without_an_authority_is_refused() {
    let state = TempDir::new().expect("a folder");
    let edges = Authority::new();
    let (edge, authority) = (edges.issue("edge"), edges.file());
    let [certificate, key, authority] =
        [&edge.certificate, &edge.key, &authority].map(|file| file.to_str().expect("a path"));
    let own = [
        ("EDGELINK_EDGE_TOKEN", "0123456789abcdef"),
        ("EDGELINK_CLIENT_CERTIFICATE", certificate),
        ("EDGELINK_CLIENT_KEY", key),
    ];
    let name = ("EDGELINK_REDIS_NAME", "redis.example");
    let of_redis = [
        ("EDGELINK_REDIS", "pooled"),
        ("EDGELINK_REDIS_CA", authority),
    ];
    for (more, named) in [
        (&[][..], "EDGELINK_CLIENT_CERTIFICATE"),
        (&of_redis[1..], "EDGELINK_CLIENT_CERTIFICATE"),
        (
            &[("EDGELINK_CONTROL_PLANE_CA", authority), of_redis[0], name],
            "EDGELINK_REDIS_NAME",
        ),
        (&of_redis, ""),
        (&[("EDGELINK_CONTROL_PLANE_CA", authority)], ""),
    ] {
        let output = run_sh(state.path(), &[&own[..], more].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), named.is_empty(), "{message}");
        assert!(message.contains(named), "{named}: {message}");
    }
}

/// Control planes that have names of their own, each with a certificate for it.
#[test]
fn certificate_when_for_any_control_plane_is_accepted() {
    let state = TempDir::new().expect("a folder");
    let authority = Authority::new();
    let authority = authority.file();
    let rendered = |control_planes: &str, name: &str| {
        let output = run_sh(
            state.path(),
            &[
                ("EDGELINK_EDGE_TOKEN", "0123456789abcdef"),
                ("EDGELINK_CONTROL_PLANES", control_planes),
                (
                    "EDGELINK_CONTROL_PLANE_CA",
                    authority.to_str().expect("a path"),
                ),
                ("EDGELINK_CONTROL_PLANE_NAME", name),
            ],
        );
        assert!(output.status.success(), "{output:?}");
        let filled = std::fs::read_to_string(state.path().join("envoy/bootstrap.yaml"));
        let filled = filled.expect("the bootstrap");
        let lines = filled.lines().map(str::trim);
        let wanted = ["match_typed", "sni:", "auto_host_sni:"];
        let is_wanted = |line: &&str| wanted.iter().any(|begin| line.starts_with(begin));
        lines
            .filter(is_wanted)
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let of = |kind: &str, name: &str| {
        format!("{{ san_type: {kind}, matcher: {{ exact: \"{name}\" }} }}")
    };
    let names = |names: &[String]| format!("match_typed_subject_alt_names: [{}]", names.join(", "));
    let [a, b] = ["a.example", "b.example"].map(|name| of("DNS", name));
    let several = rendered("a.example:1,b.example:1,a.example:2", "");
    assert_eq!(
        several,
        ["auto_host_sni: true".to_owned(), names(&[a.clone(), b])]
    );
    let one = [
        "sni: \"a.example\"".to_owned(),
        names(std::slice::from_ref(&a)),
    ];
    assert_eq!(rendered("a.example:1,a.example:2", ""), one);
    assert_eq!(rendered("127.0.0.1:1,b.example:1", "a.example"), one);
    let addresses = [a, of("IP_ADDRESS", "127.0.0.1"), of("IP_ADDRESS", "::1")];
    let mixed = rendered("a.example:1,127.0.0.1:1,[::1]:1", "");
    assert_eq!(mixed[0], names(&addresses));
}

#[cfg(unix)]
#[test]
fn token_file_when_written_is_closed_to_other_users() {
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
fn envoy_when_started_has_no_secret_in_its_environment() {
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
async fn variable_when_of_no_setting_fails_its_test() {
    ControlPlane::with_variables(&[("EDGELINK_SERVER_MOST_CONNECTIONS", "1")]).await;
}

#[tokio::test]
async fn metrics_when_scraped_by_prometheus_have_labels() {
    let edgelink = Deployment::start(&EnvoyOptions::default()).await;
    let path = edgelink.link("").create().await.path();
    edgelink.envoy.follow(&path).await;
    edgelink.envoy.follow(&path).await;
    edgelink.envoy.follow("/nowhere").await;

    let is_reported = |stats: &Stats| stats.sum_of("edgelink.requests.") == 3;
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
