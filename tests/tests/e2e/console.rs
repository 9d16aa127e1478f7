//! The console in a browser: Debian's Chromium, by playwright-core. What people do there is in `tests/console`.

use edgelink_tests::scenario::{CITY_HEADER, COUNTRY_HEADER, DOMAIN};
use edgelink_tests::stack::{ControlPlane, Deployment, EDGE_TOKEN, EnvoyOptions, free_port, root};
use tokio::process::Command;

/// Runs a script of `tests/console` against a control plane, and an Envoy where there is one.
async fn run(arguments: &[&str], control_plane: &ControlPlane, edge: &str) {
    run_with(arguments, control_plane, &[("EDGE", edge)]).await;
}

/// Runs a script with these environment variables.
async fn run_with(arguments: &[&str], control_plane: &ControlPlane, variables: &[(&str, &str)]) {
    let (script, arguments) = arguments.split_first().expect("a script");
    let output = Command::new("node")
        .envs(variables.iter().copied())
        .arg(root().join("tests/console").join(script))
        .args(arguments)
        .env("API", format!("http://{}", control_plane.address()))
        .env("API_KEY", control_plane.admin_key())
        .env("EDGE_TOKEN", EDGE_TOKEN)
        .output()
        .await
        .expect("node: run `make setup`");
    let said = [&output.stdout[..], &output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(output.status.success(), "{}", output.status);
}

async fn without_edge(arguments: &[&str]) {
    run(arguments, &ControlPlane::start().await, "").await;
}

/// With an Envoy that reports all that it knows of visitors.
async fn with_edge(arguments: &[&str]) {
    let options = EnvoyOptions {
        clicks: "true",
        click_attributes: "country,city,userAgent,referrer,language,utm,rule,visitor",
        orphans: "true",
        trusted_hops: 1,
        geo_headers: [COUNTRY_HEADER, CITY_HEADER],
        feed: "poll",
        ..EnvoyOptions::default()
    };
    let edgelink = Deployment::start(&options).await;
    let edge = format!("http://{}", edgelink.envoy.edge());
    run(arguments, &edgelink.control_plane, &edge).await;
}

/// A test for each script, or part of one.
macro_rules! tests {
    ($($name:ident: $start:ident($($argument:literal),+);)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $start(&[$($argument),+]).await;
        })+
    };
}

tests! {
    a_first_login_by_key_and_then_by_password: without_edge("tour.mjs", "first_login");
    each_role_is_offered_what_it_may: without_edge("tour.mjs", "roles");
    a_reader_is_offered_no_change_and_refused_all: without_edge("tour.mjs", "a_reader");
    a_login_ends_with_its_key: without_edge("tour.mjs", "a_login_that_ends");
    a_link_is_made_and_changed_with_every_field: without_edge("tour.mjs", "every_field");
    errors_stand_at_every_field: without_edge("tour.mjs", "errors_at_every_field");
    codes_may_be_the_names_of_pages: without_edge("tour.mjs", "codes_that_are_names_of_pages");
    many_links_are_made_at_once: without_edge("tour.mjs", "many_at_once");
    selected_links_are_changed_at_once: without_edge("tour.mjs", "bulk");
    a_link_is_moved: without_edge("tour.mjs", "moved");
    a_deleted_link_is_restored: without_edge("tour.mjs", "restore");
    views_have_addresses: without_edge("tour.mjs", "addresses");
    a_keyboard_is_enough: without_edge("tour.mjs", "keyboard_only");
    single_keys_do_what_the_page_says: without_edge("tour.mjs", "single_keys");
    forms_work_without_script: without_edge("tour.mjs", "without_script");
    tags_are_managed: without_edge("tour.mjs", "tags");
    keys_and_users_are_managed: without_edge("tour.mjs", "keys_and_users");
    a_key_gets_another_secret: without_edge("tour.mjs", "rotation");
    files_are_tried_out_and_imported: without_edge("tour.mjs", "imports");
    domains_are_managed: without_edge("tour.mjs", "domains");
    rules_are_tried_out_and_followed: with_edge("tour.mjs", "rules_and_dry_run");
    a_link_that_was_just_made_is_followed: with_edge("tour.mjs", "followed_by_envoy");
    clicks_come_live_and_move_the_chart: with_edge("tour.mjs", "clicks_as_they_come");
    edges_say_how_they_are_doing: with_edge("tour.mjs", "edges_and_how_they_are_doing");
    every_page_is_accessible: without_edge("accessible.mjs");
    hostile_texts_are_text_on_every_page_and_in_csv: with_edge("hostile.mjs");
    the_overview_is_light: without_edge("weight.mjs");
}

async fn with_blocked_hosts(script: &str) {
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
    run(
        &[script],
        &ControlPlane::with_variables(&variables).await,
        "",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_browser_judges_2000_random_inputs_as_the_api_does() {
    with_blocked_hosts("verdicts.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_does_what_data_attributes_say_under_the_content_security_policy() {
    with_blocked_hosts("script.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certified_provider_logs_people_in() {
    const SECRET: &str = "a secret: of +the% console";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, SECRET).expect("a file");
    // Another site than the console's, so that the browser tells them apart.
    let issuer = format!("http://localhost:{}", free_port());
    let control_plane = ControlPlane::with_address(|address| {
        let variables = [
            ("EDGELINK_LINKS_DOMAINS", DOMAIN.to_owned()),
            ("EDGELINK_OIDC_ISSUER", issuer.clone()),
            (
                "EDGELINK_OIDC_CLIENT_SECRET_FILE",
                secret.display().to_string(),
            ),
            ("EDGELINK_OIDC_CONSOLE_URL", format!("http://{address}")),
        ];
        variables
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    });
    let control_plane = control_plane.await;
    let variables = [("ISSUER", &*issuer), ("SECRET", SECRET)];
    run_with(&["oidc.mjs"], &control_plane, &variables).await;
}
