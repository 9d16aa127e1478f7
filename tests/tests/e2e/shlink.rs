//! Shlink's clients: its SDK, as npm has it, calls the control plane.

use edgelink_tests::scenario::{CITY_HEADER, COUNTRY_HEADER, DOMAIN};
use edgelink_tests::stack::{Deployment, EnvoyOptions, root};
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shlink_sdk_when_it_calls_gets_expected_answers() {
    let options = EnvoyOptions {
        domains: vec![DOMAIN.to_owned(), "other.example".to_owned()],
        clicks: "true",
        click_attributes: "country,city,userAgent,referrer",
        orphans: "true",
        geo_headers: [COUNTRY_HEADER, CITY_HEADER],
        ..EnvoyOptions::default()
    };
    let edgelink = Deployment::start(&options).await;
    let script = root().join("tests/shlink/calls.mjs");
    let output = Command::new("node")
        .arg(script)
        .env(
            "API",
            format!("http://{}", edgelink.control_plane.address()),
        )
        .env("API_KEY", edgelink.control_plane.admin_key())
        .env("EDGE", format!("http://{}", edgelink.envoy.edge()))
        .output()
        .await
        .expect("node: run `make setup`");
    let said = [&output.stdout[..], &output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(output.status.success(), "{}", output.status);
}
