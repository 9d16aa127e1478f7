//! Health, metrics and what every answer has.

use crate::helpers::{Running, send, until};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn server_when_its_store_answers_is_live_and_ready() {
    let server = Running::start().await;
    assert_eq!(
        server.follow("/health/live").await.expect(200),
        json!({ "status": "live" })
    );
    let ready = server.follow("/health/ready").await.expect(200);
    assert_eq!(ready["status"], "ready");
    until("a current feed", async || {
        let ready = server.follow("/health/ready").await.expect(200);
        ready["feed"]["publisher"] == "this" && ready["feed"]["current"] == true
    })
    .await;
    let age = server.follow("/health/ready").await.json()["feed"]["ageMs"].as_u64();
    assert!(age.unwrap() < 4000, "{age:?}");
}

#[tokio::test]
async fn metrics_when_requests_are_served_count_them() {
    let server = Running::start().await;
    server.link("x").create().await;
    server.link("").create().await;
    server
        .follow("/x")
        .await
        .redirects(302, "https://example.com/");
    server.resolve("go.example:8080/x").await;
    let answer = server.follow("/metrics").await;
    assert_eq!(
        answer.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    for series in [
        r#"edgelink_http_requests_total{route="/api/v1/links",method="POST",status="201"} "#,
        r#"edgelink_http_request_duration_seconds_bucket{route="/{code}",method="GET",le="0.005"} "#,
        r#"edgelink_store_call_duration_seconds_count{operation="create_links"} "#,
        "edgelink_numbers_issued_total ",
        r#"edgelink_links_created_total{kind="alias"} "#,
        r#"edgelink_links_created_total{kind="generated"} "#,
        r#"edgelink_redirects_total{outcome="redirect"} "#,
        r#"edgelink_edge_lookups_total{outcome="link"} "#,
    ] {
        assert!(
            answer.text().contains(series),
            "{series}\n{}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn path_when_unknown_has_no_series_of_its_own() {
    let server = Running::start().await;
    server.follow("/made-up-by-a-scanner/1").await;
    let metrics = server.follow("/metrics").await;
    assert!(!metrics.text().contains("made-up-by-a-scanner"));
    assert!(metrics.text().contains(r#"route="unmatched""#));
}

#[tokio::test]
async fn request_id_when_valid_is_kept() {
    let server = Running::start().await;
    let ask = |id: &'static str| {
        send(
            server
                .plain(Method::GET, "/health/live")
                .header("x-request-id", id),
        )
    };
    assert_eq!(ask("3e1f-A_b.c").await.header("x-request-id"), "3e1f-A_b.c");
    for bad in [
        "",
        "a b",
        "a\"b",
        "0123456789012345678901234567890123456789012345678901234567890123456789",
    ] {
        assert_eq!(ask(bad).await.header("x-request-id").len(), 16, "{bad}");
    }
}

#[tokio::test]
async fn path_when_unknown_in_the_apis_is_a_problem() {
    let server = Running::start().await;
    server.get("/nowhere").await.problem(404, "not-found");
    server.get("").await.problem(404, "not-found");
    let put = send(server.api(Method::PUT, "/links/x")).await;
    put.problem(405, "method-not-allowed");
    let mut allowed: Vec<&str> = put.header("allow").split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["DELETE", "GET", "HEAD", "PATCH"]);
    for path in ["/api/", "/api/v1/", "/api/v2/links", "/edge/v1/"] {
        server.follow(path).await.problem(404, "not-found");
    }
    send(server.plain(Method::POST, "/a/b"))
        .await
        .page(404, "not found");
}
