//! API keys and edge tokens.

use crate::helpers::{Running, send};
use reqwest::Method;

#[tokio::test]
async fn a_key_may_come_in_either_header() {
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
async fn without_a_valid_key_every_path_of_the_api_is_closed() {
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
async fn edges_have_tokens_of_their_own_and_several_while_they_are_rotated() {
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
async fn health_and_metrics_need_no_key() {
    let server = Running::start().await;
    for path in ["/health/live", "/health/ready", "/metrics"] {
        assert_eq!(server.follow(path).await.status, 200, "{path}");
    }
}
