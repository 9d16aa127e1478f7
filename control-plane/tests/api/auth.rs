//! API keys and edge tokens.

use crate::helpers::{Running, send, until};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn key_when_sent_in_either_header_is_accepted() {
    let server = Running::start().await;
    let path = "/api/v1/links";
    let bearer = server
        .plain(Method::GET, path)
        .bearer_auth(&server.admin_key);
    send(bearer).await.expect(200);
    let lower = format!("bearer {}", server.admin_key);
    send(
        server
            .plain(Method::GET, path)
            .header("authorization", lower),
    )
    .await
    .expect(200);
    send(
        server
            .plain(Method::GET, path)
            .header("x-api-key", &server.admin_key),
    )
    .await
    .expect(200);
}

#[tokio::test]
async fn api_path_when_key_is_invalid_is_closed() {
    let server = Running::start().await;
    let key = &server.admin_key;
    let (start, last) = key.split_at(key.len() - 1);
    let other = format!("{start}{}", if last == "0" { "1" } else { "0" });
    let unknown = key.replacen(&key[9..25], "0000000000000000", 1);
    let cases = [
        None,
        Some(""),
        Some("x"),
        Some(other.as_str()),
        Some(unknown.as_str()),
        Some("first-token-of-the-edges"),
    ];
    for key in cases {
        for (method, path) in [
            (Method::GET, "/links"),
            (Method::POST, "/links"),
            (Method::DELETE, "/links/x"),
            (Method::GET, "/nowhere"),
            (Method::PUT, "/links"),
        ] {
            let mut request = server.plain(method, &format!("/api/v1{path}"));
            if let Some(key) = key {
                request = request.header("x-api-key", key);
            }
            let answer = send(request).await;
            answer.problem(401, "unauthorized");
            assert_eq!(
                answer.header("www-authenticate"),
                "Bearer realm=\"edgelink\""
            );
        }
    }
    let basic = server
        .plain(Method::GET, "/api/v1/links")
        .basic_auth("admin", Some(key));
    send(basic).await.problem(401, "unauthorized");
    let bytes = server
        .plain(Method::GET, "/api/v1/links")
        .header("x-api-key", b"\xff\xfe".as_slice());
    send(bytes).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn keys_when_many_are_invented_are_refused_with_401() {
    let server = Running::start().await;
    for round in 0..20 {
        let invented = (0..50).map(|n| format!("edgelink_{:016x}_{:064x}", round * 50 + n, n));
        let requests = invented.map(|key| {
            send(
                server
                    .plain(Method::GET, "/api/v1/links")
                    .header("x-api-key", key),
            )
        });
        for answer in join_all(requests).await {
            answer.problem(401, "unauthorized");
        }
    }
    server.get("/links").await.expect(200);
}

#[tokio::test]
async fn key_when_created_or_revoked_by_other_replica_is_known() {
    let server = Running::start().await;
    let other = server.another().await;
    other.get("/links").await.expect(200);
    let made = server.api(Method::POST, "/keys");
    let made = send(made.json(&json!({ "name": "new" }))).await.expect(201);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let list = async |server: &Running| {
        let request = server.plain(Method::GET, "/api/v1/links");
        send(request.header("x-api-key", key)).await.status.as_u16()
    };
    for status in join_all((0..200).map(|_| list(&other))).await {
        assert_ne!(status, 503, "requests with one key wait together");
    }
    assert_eq!(list(&server).await, 200);
    until("the key is known", async || list(&other).await == 200).await;
    assert_eq!(server.delete(&format!("/keys/{id}")).await.status, 204);
    assert_eq!(list(&server).await, 401);
    until("the key is revoked", async || list(&other).await == 401).await;
}

#[tokio::test]
async fn edge_token_when_one_of_several_is_accepted() {
    let server = Running::start().await;
    let path = "/edge/v1/links/go.example:8080/absent";
    for token in ["first-token-of-the-edges", "second-token-of-the-edges"] {
        assert_eq!(
            send(server.plain(Method::GET, path).bearer_auth(token))
                .await
                .status,
            404
        );
    }
    for token in [
        "",
        "third-token-of-the-edges",
        "first-token-of-the-edges,second-token-of-the-edges",
        &server.admin_key,
    ] {
        send(server.plain(Method::GET, path).bearer_auth(token))
            .await
            .problem(401, "unauthorized");
    }
    send(server.plain(Method::GET, path))
        .await
        .problem(401, "unauthorized");
    send(server.plain(Method::GET, "/edge/v1/nowhere"))
        .await
        .problem(401, "unauthorized");
}

#[tokio::test]
async fn health_and_metrics_when_no_key_is_sent_are_answered() {
    let server = Running::start().await;
    for path in ["/health/live", "/health/ready", "/metrics"] {
        assert_eq!(server.follow(path).await.status, 200, "{path}");
    }
}
