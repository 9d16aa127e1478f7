//! Rate limits, their headers, and requests of other origins.

use crate::helpers::{Answer, Running, send, until};
use reqwest::Method;
use serde_json::json;

const ACCOUNTING: &str = "/clicks/accounting";

/// Asks until it is refused, which it is unless a second passes between two requests.
async fn refusal(ask: impl AsyncFn() -> Answer) -> Answer {
    let mut answer = ask().await;
    until("a refusal", async || {
        answer = ask().await;
        answer.status == 429
    })
    .await;
    answer.problem(429, "rate-limited");
    answer
}

#[tokio::test]
async fn answer_when_no_limits_are_set_names_none() {
    let server = Running::start().await;
    let answer = server.get(ACCOUNTING).await;
    answer.expect(200);
    assert_eq!(
        (
            answer.header("ratelimit"),
            answer.header("ratelimit-policy")
        ),
        ("", "")
    );
}

#[tokio::test]
async fn answer_when_limits_are_set_names_them_and_what_is_left() {
    let server = Running::with(&[
        ("EDGELINK_LIMITS_ADDRESS_CAPACITY", "5"),
        ("EDGELINK_LIMITS_ADDRESS_PER_SECOND", "1"),
        ("EDGELINK_LIMITS_KEY_CAPACITY", "2"),
        ("EDGELINK_LIMITS_KEY_PER_SECOND", "1"),
    ])
    .await;
    let fields = |answer: &Answer| {
        ["ratelimit-policy", "ratelimit"].map(|name| answer.header(name).to_owned())
    };
    let policy = r#""address";q=5;w=5, "key";q=2;w=2"#;
    let first = server.get(ACCOUNTING).await;
    first.expect(200);
    assert_eq!(
        fields(&first),
        [policy, r#""address";r=4;t=1, "key";r=1;t=1"#]
    );
    let refused = refusal(async || server.get(ACCOUNTING).await).await;
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(fields(&refused)[0], policy);
    assert!(
        refused.header("ratelimit").ends_with(r#""key";r=0;t=1"#),
        "{refused:?}"
    );
    assert!(refused.json()["detail"].as_str().unwrap().contains("'key'"));
    let metrics = server.follow("/metrics").await;
    assert!(
        metrics
            .text()
            .contains("edgelink_requests_limited_total{policy=\"key\"}")
    );
}

#[tokio::test]
async fn request_when_its_key_is_invalid_counts_by_address() {
    let server = Running::with(&[
        ("EDGELINK_LIMITS_ADDRESS_CAPACITY", "2"),
        ("EDGELINK_LIMITS_ADDRESS_PER_SECOND", "1"),
        ("EDGELINK_LIMITS_GLOBAL_CAPACITY", "1"),
    ])
    .await;
    let guess = || {
        send(
            server
                .plain(Method::GET, "/api/v1/links")
                .header("x-api-key", "x"),
        )
    };
    let answer = guess().await;
    answer.problem(401, "unauthorized");
    assert_eq!(answer.header("ratelimit"), r#""address";r=1;t=1"#);
    refusal(guess).await;
    // The address has no token for the right key either; probes, redirects and edges are not limited.
    refusal(async || server.get("/links").await).await;
    assert_eq!(server.follow("/health/live").await.status, 200);
    assert_eq!(server.follow("/x").await.status, 404);
    assert_eq!(server.resolve("go.example:8080/x").await.status, 404);
}

#[tokio::test]
async fn bulk_request_when_limited_counts_as_one() {
    let server = Running::with(&[
        ("EDGELINK_LIMITS_KEY_CAPACITY", "1"),
        ("EDGELINK_LIMITS_KEY_PER_SECOND", "1"),
    ])
    .await;
    let links =
        json!([{ "longUrl": "https://example.com/1" }, { "longUrl": "https://example.com/2" }]);
    let bulk = || send(server.api(Method::POST, "/links/bulk").json(&links));
    assert_eq!(bulk().await.expect(200)["created"], 2);
    refusal(bulk).await;
}

const ORIGIN: &str = "https://console.example";

async fn preflight(server: &Running, origin: &str) -> Answer {
    let request = server
        .plain(Method::OPTIONS, "/api/v1/links/bulk")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,x-api-key");
    send(request).await
}

#[tokio::test]
async fn origin_when_configured_may_use_the_api() {
    let server = Running::with(&[("EDGELINK_SERVER_CORS_ORIGINS", ORIGIN)]).await;
    let allowed = preflight(&server, ORIGIN).await;
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("access-control-allow-origin"), ORIGIN);
    assert!(
        allowed
            .header("access-control-allow-methods")
            .contains("PATCH")
    );
    assert!(
        allowed
            .header("access-control-allow-headers")
            .contains("x-api-key")
    );
    assert_eq!(allowed.header("access-control-allow-credentials"), "");
    let other = preflight(&server, "https://evil.example").await;
    assert_eq!(other.header("access-control-allow-origin"), "");

    // Errors can be read as well.
    let request = server
        .plain(Method::GET, "/api/v1/links")
        .header("origin", ORIGIN);
    let answer = send(request).await;
    answer.problem(401, "unauthorized");
    assert_eq!(answer.header("access-control-allow-origin"), ORIGIN);
    assert!(
        answer
            .header("access-control-expose-headers")
            .contains("ratelimit")
    );
    let redirect = send(server.plain(Method::GET, "/x").header("origin", ORIGIN)).await;
    assert_eq!(redirect.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn origin_when_not_configured_may_not_use_the_api() {
    let server = Running::start().await;
    let answer = preflight(&server, ORIGIN).await;
    answer.problem(401, "unauthorized");
    assert_eq!(answer.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn api_answer_when_sent_forbids_caching_and_sniffing() {
    let server = Running::start().await;
    let without_key = send(server.plain(Method::GET, "/api/v1/nowhere")).await;
    for answer in [server.get("/links").await, without_key] {
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(
            answer
                .header("content-security-policy")
                .contains("default-src 'none'")
        );
    }
}

#[tokio::test]
async fn target_when_its_host_is_blocked_is_refused() {
    let blocked = "evil.example,*.evil.example";
    let server = Running::with(&[("EDGELINK_LINKS_BLOCKED_HOSTS", blocked)]).await;
    let code = server.link("").create().await.code().to_owned();
    for target in ["https://evil.example/x", "http://a.EVIL.example:8080/"] {
        let link = json!({ "longUrl": target });
        let refused = server.post(&link).await.problem(422, "validation");
        assert_eq!(refused, ["longUrl"]);
        let refused = server.patch(&format!("/links/{code}"), &link).await;
        assert_eq!(refused.problem(422, "validation"), ["longUrl"]);
        let bulk = server.api(Method::POST, "/links/bulk").json(&json!([link]));
        assert_eq!(send(bulk).await.expect(200)["results"][0]["status"], 422);
    }
}
