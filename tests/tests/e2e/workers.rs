//! Several workers in one Envoy.

use edgelink_tests::stack::{Deployment, EnvoyOptions, Stats, until};
use std::time::Duration;

async fn two_workers() -> Deployment {
    Deployment::start(&EnvoyOptions {
        workers: 2,
        fresh_seconds: 3600,
        ..EnvoyOptions::default()
    })
    .await
}

#[tokio::test]
async fn what_one_worker_has_looked_up_the_other_finds_in_shared_data() {
    let edgelink = two_workers().await;
    let path = edgelink.create_to("https://example.com/shared").await;
    assert_eq!(
        edgelink.envoy.follow(&path).await.tier(),
        Some("control-plane")
    );

    // The system spreads connections over the workers, so that sooner or later the other one has one.
    until(
        "the other worker answers",
        Duration::from_secs(10),
        async || {
            let answer = edgelink.envoy.follow(&path).await;
            assert_eq!(answer.location(), Some("https://example.com/shared"));
            assert_ne!(answer.tier(), Some("control-plane"));
            (answer.tier() == Some("shared-data")).then_some(())
        },
    )
    .await;

    let figures = |stats: &Stats| {
        (
            stats.answered_from("control-plane"),
            stats.answered_from("shared-data"),
        )
    };
    edgelink
        .envoy
        .await_figures(|stats| figures(stats) == (1, 1))
        .await;
}

#[tokio::test]
async fn an_absence_is_shared_too() {
    let edgelink = two_workers().await;
    assert_eq!(edgelink.envoy.follow("/nowhere").await.status, 404);

    until(
        "the other worker answers",
        Duration::from_secs(10),
        async || {
            let answer = edgelink.envoy.follow("/nowhere").await;
            assert_eq!(answer.status, 404);
            assert_ne!(answer.tier(), Some("control-plane"));
            (answer.tier() == Some("shared-data")).then_some(())
        },
    )
    .await;
}
