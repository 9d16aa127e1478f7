//! What `nginx/run.sh` and `nginx/canary.sh` say of settings.

use edgelink_tests::stack::{Nginx, root};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// `nginx/run.sh -t` with a certificate and these variables.
fn check(folder: &Path, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(root().join("nginx/run.sh"));
    command
        .arg("-t")
        .env("EDGELINK_STATE_DIR", folder)
        .env("EDGELINK_FRONT_USER", "root")
        .env("EDGELINK_CERTIFICATE", folder.join("certificate.pem"))
        .env("EDGELINK_CERTIFICATE_KEY", folder.join("key.pem"))
        .envs(variables.iter().copied());
    said(&command.output().expect("nginx/run.sh"))
}

fn said(output: &Output) -> (bool, String) {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), errors)
}

fn with_certificate() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let mut script = Command::new(root().join("nginx/certificate.sh"));
    let output = script.arg(folder.path()).output().expect("the script");
    assert!(output.status.success(), "{output:?}");
    folder
}

#[test]
fn setting_when_impossible_is_refused_by_name() {
    let folder = with_certificate();
    for (variable, wrong) in [
        ("EDGELINK_HTTPS_PORT", "https"),
        ("EDGELINK_HTTP_PORT", "65536"),
        ("EDGELINK_FRONT_STATUS_PORT", "0"),
        ("EDGELINK_FRONT_ADDRESS", "example.com"),
        ("EDGELINK_FRONT_ADDRESS", "::1"),
        ("EDGELINK_FRONT_USER", "a user"),
        ("EDGELINK_FRONT_WORKERS", "0"),
        ("EDGELINK_FRONT_CONNECTIONS", "1"),
        ("EDGELINK_FRONT_CLIENT_SECONDS", "0"),
        ("EDGELINK_FRONT_ANSWER_SECONDS", "1.5"),
        ("EDGELINK_FRONT_SHUTDOWN_SECONDS", "0"),
        ("EDGELINK_FRONT_MAX_BODY_BYTES", "1023"),
        ("EDGELINK_FRONT_RATE_PER_SECOND", "0"),
        ("EDGELINK_FRONT_RATE_BURST", "-1"),
        ("EDGELINK_FRONT_CLIENT_CONNECTIONS", "0"),
        ("EDGELINK_FRONT_EVENT_LOG", "/tmp/$host"),
        ("EDGELINK_HSTS_SECONDS", "a year"),
        ("EDGELINK_STALE_SECONDS", "0"),
        ("EDGELINK_EDGES", "envoy"),
        ("EDGELINK_CONTROL_PLANES", "http://127.0.0.1:8081"),
        ("EDGELINK_CANARIES", "127.0.0.1:8080;}"),
        ("EDGELINK_CANARY_PERCENT", "10"),
        ("EDGELINK_CANARY_PERCENT", "100.01"),
        ("EDGELINK_CANARY_PERCENT", "a tenth"),
        ("EDGELINK_PROXIES", "10.0.0.0/8;"),
        ("EDGELINK_COUNTRY_HEADER", "cf ipcountry"),
        ("EDGELINK_CITY_HEADER", "city;"),
        ("EDGELINK_CERTIFICATE", ""),
        ("EDGELINK_CERTIFICATE_KEY", ""),
        ("EDGELINK_CONTROL_PLANE_CA", "/nowhere/ca.pem"),
        ("EDGELINK_CONTROL_PLANE_NAME", "control-plane.example"),
    ] {
        let (is_taken, errors) = check(folder.path(), &[(variable, wrong)]);
        assert!(
            !is_taken && errors.contains(variable),
            "{variable}={wrong}: {errors}"
        );
    }
}

#[test]
fn setting_when_possible_is_taken() {
    let folder = with_certificate();
    for variables in [
        &[][..],
        &[("EDGELINK_FRONT_ADDRESS", "127.0.0.1,[::1]")],
        &[("EDGELINK_EDGES", "127.0.0.1:8080,[::1]:8080,localhost:8080")],
        &[
            ("EDGELINK_CANARIES", "127.0.0.1:8090"),
            ("EDGELINK_CANARY_PERCENT", "0.5"),
        ],
        &[
            ("EDGELINK_CANARIES", "127.0.0.1:8090"),
            ("EDGELINK_CANARY_PERCENT", "100"),
        ],
        &[
            ("EDGELINK_PROXIES", "10.0.0.0/8,2001:db8::/32,192.0.2.1"),
            ("EDGELINK_CITY_HEADER", "x-city"),
        ],
    ] {
        let (is_taken, errors) = check(folder.path(), variables);
        assert!(is_taken, "{variables:?}: {errors}");
    }
}

#[tokio::test]
async fn share_when_there_is_no_canary_is_refused() {
    let folder = with_certificate();
    assert!(check(folder.path(), &[]).0);
    let mut command = Command::new(root().join("nginx/canary.sh"));
    let command = command.arg("10").env("EDGELINK_STATE_DIR", folder.path());
    let (is_taken, errors) = said(&command.output().expect("nginx/canary.sh"));
    let expected = "no nginx was started with EDGELINK_STATE_DIR";
    assert!(!is_taken && errors.contains(expected), "{errors}");
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let nginx = Nginx::start(&[nowhere], &[nowhere], &[]).await;
    let (is_taken, errors) = said(&nginx.set_canary("10"));
    assert!(
        !is_taken && errors.contains("EDGELINK_CANARIES"),
        "{errors}"
    );
}

#[tokio::test]
async fn configuration_when_nginx_refuses_it_changes_nothing() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let nginx = Nginx::start(&[nowhere], &[nowhere], &[]).await;
    let before = nginx.configuration();
    let refused = nginx.run(
        &["-s", "reload"],
        &[("EDGELINK_CERTIFICATE", "/absent.pem")],
    );
    let (is_taken, errors) = said(&refused);
    assert!(!is_taken && errors.contains("/absent.pem"), "{errors}");
    assert_eq!(nginx.configuration(), before);
    let (is_taken, errors) = said(&nginx.run(&["-t"], &[("EDGELINK_STALE_SECONDS", "7")]));
    assert!(is_taken, "{errors}");
    assert_eq!(nginx.configuration(), before);
    let (is_taken, errors) =
        said(&nginx.run(&["-s", "reload"], &[("EDGELINK_STALE_SECONDS", "7")]));
    assert!(is_taken, "{errors}");
    let reloaded = nginx.configuration();
    assert!(reloaded.contains("inactive=7s"));
    for signal in ["reopen", "quit"] {
        // Settings that are others by now, or not possible, do not matter to them. The first quit ends nginx.
        for other in [
            ("EDGELINK_STALE_SECONDS", "8"),
            ("EDGELINK_CERTIFICATE", ""),
        ] {
            let output = nginx.run(&["-s", signal], &[other]);
            assert!(signal == "quit" || output.status.success(), "{output:?}");
            assert_eq!(nginx.configuration(), reloaded, "{signal}");
        }
    }
}
