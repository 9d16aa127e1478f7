//! What a load balancer in front of Envoy sees while it drains.

use edgelink_tests::stack::{Deployment, EnvoyOptions, until};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_envoy_that_is_to_be_drained_is_not_healthy_but_answers() {
    let edgelink = Deployment::start(&EnvoyOptions::default()).await;
    let path = edgelink.create_to("https://example.com/").await;
    let envoy = &edgelink.envoy;
    assert_eq!(envoy.follow("/health/live").await.status, 200);

    envoy.admin_post("/healthcheck/fail").await;
    until("it is not healthy", LIMIT, async || {
        (envoy.follow("/health/live").await.status == 503).then_some(())
    })
    .await;
    let answer = envoy.follow(&path).await;
    assert_eq!(answer.status, 302, "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");

    envoy.admin_post("/healthcheck/ok").await;
    until("it is healthy again", LIMIT, async || {
        (envoy.follow("/health/live").await.status == 200).then_some(())
    })
    .await;
}

/// With `/healthcheck/fail` before it, as envoy/README.md says.
#[tokio::test]
async fn listeners_that_drain_answer_until_they_close_and_are_not_healthy() {
    let edgelink = Deployment::start(&EnvoyOptions::default()).await;
    let path = edgelink.create_to("https://example.com/").await;
    let envoy = &edgelink.envoy;

    envoy.admin_post("/healthcheck/fail").await;
    envoy.admin_post("/drain_listeners?graceful").await;

    until("it is not healthy", LIMIT, async || {
        (envoy.follow("/health/live").await.status == 503).then_some(())
    })
    .await;
    assert_eq!(envoy.follow(&path).await.status, 302);
}
