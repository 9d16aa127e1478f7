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
    login_when_first_is_by_key_and_then_by_password: without_edge("tour.mjs", "first_login");
    role_when_logged_in_is_offered_only_its_rights: without_edge("tour.mjs", "roles");
    reader_when_logged_in_is_refused_all_changes: without_edge("tour.mjs", "a_reader");
    login_when_its_key_is_revoked_ends: without_edge("tour.mjs", "a_login_that_ends");
    link_when_made_and_changed_has_all_its_fields: without_edge("tour.mjs", "every_field");
    errors_when_fields_are_wrong_stand_beside_them: without_edge("tour.mjs", "errors_at_every_field");
    code_when_named_like_a_page_has_its_own_pages: without_edge("tour.mjs", "codes_that_are_names_of_pages");
    links_when_many_are_given_are_made_at_once: without_edge("tour.mjs", "many_at_once");
    links_when_selected_are_changed_at_once: without_edge("tour.mjs", "bulk");
    link_when_moved_is_at_its_new_code: without_edge("tour.mjs", "moved");
    link_when_deleted_can_be_restored: without_edge("tour.mjs", "restore");
    view_when_paged_or_filtered_has_an_address: without_edge("tour.mjs", "addresses");
    console_when_used_by_keyboard_alone_works: without_edge("tour.mjs", "keyboard_only");
    single_keys_when_pressed_do_as_the_page_says: without_edge("tour.mjs", "single_keys");
    forms_when_without_script_work: without_edge("tour.mjs", "without_script");
    tags_when_renamed_or_deleted_are_changed: without_edge("tour.mjs", "tags");
    keys_and_users_when_made_and_changed_are_listed: without_edge("tour.mjs", "keys_and_users");
    key_when_rotated_gets_another_secret: without_edge("tour.mjs", "rotation");
    import_when_tried_out_is_then_made: without_edge("tour.mjs", "imports");
    domain_when_edited_and_deleted_follows_the_form: without_edge("tour.mjs", "domains");
    rules_when_tried_out_are_followed_alike: with_edge("tour.mjs", "rules_and_dry_run");
    link_when_just_made_is_followed: with_edge("tour.mjs", "followed_by_envoy");
    clicks_when_they_come_move_the_chart: with_edge("tour.mjs", "clicks_as_they_come");
    edges_when_they_report_show_their_health: with_edge("tour.mjs", "edges_and_how_they_are_doing");
    pages_when_audited_are_accessible: without_edge("accessible.mjs");
    text_when_hostile_stays_text_on_pages_and_in_csv: with_edge("hostile.mjs");
    overview_when_loaded_is_light: without_edge("weight.mjs");
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
async fn browser_when_given_2000_random_inputs_judges_as_the_api() {
    with_blocked_hosts("verdicts.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn script_when_under_the_security_policy_obeys_data_attributes() {
    with_blocked_hosts("script.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_when_certified_logs_people_in() {
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
