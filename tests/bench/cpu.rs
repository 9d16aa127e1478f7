//! What a redirect costs: the processor time of the whole Envoy for each, beside Envoy's own static redirect.

use crate::rounds::{Costs, Target, measure};
use edgelink_tests::stack::{Deployment, Envoy, EnvoyOptions};
use serde_json::json;
use std::time::Duration;

const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_secs(3);
const TARGET: &str = "https://example.com/a?b=1";

/// Measures, and prints a table.
pub(crate) async fn run() {
    // An hour, so that the worker answers from its own cache all the time.
    let options = EnvoyOptions {
        fresh_seconds: 3600,
        ..EnvoyOptions::default()
    };
    let mut edgelink = Deployment::start(&options).await;
    let path = edgelink.create(&json!({ "longUrl": TARGET })).await;
    let mut reference = Envoy::start(
        &EnvoyOptions {
            bootstrap: Some(static_redirect()),
            ..options
        },
        &[edgelink.control_plane.address()],
    )
    .await;
    for envoy in [&reference, &edgelink.envoy] {
        assert_eq!(envoy.follow(&path).await.location(), Some(TARGET));
    }

    let targets = [
        target("Envoy's static redirect", &mut reference, &path),
        target("edgelink, worker's cache", &mut edgelink.envoy, &path),
    ];
    let costs = tokio::task::spawn_blocking(move || measure(&targets, ROUNDS, TIME)).await;
    print_table(&costs.expect("measurements"));
    let stats = edgelink.envoy.stats("wasm").await;
    println!(
        "\nanswered from the worker's cache: {}",
        stats.answered_from("lru")
    );
}

/// The same Envoy without the filter, and with a redirect where the default route was.
fn static_redirect() -> String {
    let template = Envoy::bootstrap_template();
    let filter = template
        .find("          - name: edgelink\n")
        .expect("the filter");
    let router = template
        .find("          - name: envoy.filters.http.router\n")
        .expect("the router");
    let (start, rest) = (&template[..filter], &template[router..]);
    let (before, route) = rest
        .split_once("direct_response: { status: 404")
        .expect("the default route");
    let (_, after) = route.split_once('\n').expect("the end of the line");
    let redirect = "redirect: { https_redirect: true, host_redirect: example.com, path_redirect: '/a?b=1', response_code: FOUND }";
    format!("{start}{before}{redirect}\n{after}")
}

fn target(name: &'static str, envoy: &mut Envoy, path: &str) -> Target {
    Target {
        name,
        url: format!("http://{}{path}", envoy.edge()),
        process: envoy.process().id(),
    }
}

fn print_table(costs: &[Costs]) {
    println!("\n| target | CPU per request, median | least to largest | ratio, median |");
    println!("|---|---|---|---|");
    let Some(reference) = costs.first() else {
        return;
    };
    for each in costs {
        let (least, largest) = each.spread();
        println!(
            "| {} | {:.2} us | {least:.2} to {largest:.2} us | {:.2} |",
            each.name,
            each.median(),
            each.ratio(reference),
        );
    }
}
