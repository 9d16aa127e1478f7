//! What the console's pages run in the browser: Debian's Chromium loads it from the control plane, by playwright-core.

use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::stack::{ControlPlane, root};
use tokio::process::Command;

/// Runs a script of tests/console against a control plane.
async fn run(script: &str, control_plane: &ControlPlane) {
    let output = Command::new("node")
        .arg(root().join("tests/console").join(script))
        .env("API", format!("http://{}", control_plane.address()))
        .env("API_KEY", control_plane.admin_key())
        .output()
        .await
        .expect("node: run `make setup`");
    let said = [&output.stdout[..], &output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(output.status.success(), "{}", output.status);
}

async fn control_plane() -> ControlPlane {
    let variables = [
        (
            "EDGELINK_LINKS_DOMAINS",
            [DOMAIN, "127.0.0.1:8080"].join(","),
        ),
        (
            "EDGELINK_LINKS_BLOCKED_HOSTS",
            "blocked.example,*.evil.example,192.0.2.66".to_owned(),
        ),
    ];
    let variables = variables.each_ref().map(|(name, value)| (*name, &**value));
    ControlPlane::with_variables(&variables).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_browser_judges_2000_random_inputs_as_the_api_does() {
    run("verdicts.mjs", &control_plane().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_does_what_data_attributes_say_under_the_content_security_policy() {
    run("script.mjs", &control_plane().await).await;
}
