//! What nginx refuses: too much, too large, too slow.

use super::start;
use edgelink_tests::scenario::Reply;
use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{
    Behaviour, Connection, Envoy, EnvoyOptions, Nginx, ScriptedControlPlane, until,
};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn request_when_too_large_is_refused() {
    let (nginx, _edgelink) = start(EnvoyOptions::default(), &[]).await;
    let long = |length| "a".repeat(length);
    let headers = (0..8).fold(Request::get("/a"), |request, number| {
        request.header(&format!("x-{number}"), long(7_000).as_bytes())
    });
    for (what, request, status) in [
        ("a path", Request::get(&format!("/{}", long(9_000))), 414),
        (
            "a header",
            Request::get("/a").header("cookie", long(9_000).as_bytes()),
            431,
        ),
        ("headers", headers, 431),
        (
            "a long path that is none",
            Request::get(&format!("/{}", long(4_000))),
            404,
        ),
    ] {
        let answer = nginx.visit(&request).await;
        let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(answer.status, status, "{what}");
        assert!(
            answer.header("strict-transport-security").is_some(),
            "{what}: {answer:?}"
        );
    }
    let mut connection = nginx.connect().await.expect("TLS");
    let head = b"POST /a HTTP/1.1\r\nhost: go.example\r\ncontent-length: 65537\r\n\r\n";
    connection.send(head).await.expect("a connection");
    assert_eq!(
        connection.receive("POST").await.expect("an answer").status,
        413
    );
}

#[tokio::test]
async fn client_when_sending_slowly_is_cut_off() {
    let (nginx, _edgelink) = start(
        EnvoyOptions::default(),
        &[("EDGELINK_FRONT_CLIENT_SECONDS", "1")],
    )
    .await;
    for unfinished in [
        &b""[..],
        b"GET /a HTTP/1.1\r\nhost: go.ex",
        b"POST /a HTTP/1.1\r\nhost: go.example\r\ncontent-length: 10\r\n\r\nabc",
    ] {
        let mut connection = nginx.connect().await.expect("TLS");
        connection.send(unfinished).await.expect("a connection");
        let rest = connection.receive_rest().await.expect("an end within 30 s");
        let rest = String::from_utf8_lossy(&rest);
        assert!(
            rest.is_empty() || rest.starts_with("HTTP/1.1 408 "),
            "{rest}"
        );
    }
}

#[tokio::test]
async fn address_when_it_asks_too_often_is_429_alone() {
    let variables = [
        ("EDGELINK_FRONT_RATE_PER_SECOND", "1"),
        ("EDGELINK_FRONT_RATE_BURST", "10"),
    ];
    let (nginx, edgelink) = start(EnvoyOptions::default(), &variables).await;
    let path = edgelink.link("").create().await.path();
    let mut connection = nginx.connect().await.expect("TLS");
    let mut number = 0;
    let refused = until("a refusal", LIMIT, async || {
        number += 1;
        let forwarded = format!("203.0.113.{number}");
        let request = Request::get(&path).header("x-forwarded-for", forwarded.as_bytes());
        let answer = connection.exchange(&request, b"").await.expect("an answer");
        (answer.status != 302).then_some(answer)
    })
    .await;
    assert_eq!(refused.status, 429);
    for header in ["strict-transport-security", "x-content-type-options"] {
        assert!(refused.header(header).is_some(), "{header}: {refused:?}");
    }
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert!(number > 10, "refused after {number} requests");
    let stream = nginx
        .connect_from([127, 0, 0, 2], "http/1.1")
        .await
        .expect("TLS");
    let answer = Connection::over(stream)
        .exchange(&Request::get(&path), b"")
        .await;
    assert_eq!(answer.expect("an answer").status, 302);
    until("the refusal is noted", LIMIT, async || {
        let noted = r#""answered_by":"limit","status":"429""#;
        nginx.events().contains(noted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn address_when_it_has_too_many_open_requests_is_429() {
    let control_plane = ScriptedControlPlane::start().await;
    control_plane.script("slow", Behaviour::Reply(Reply::Hang));
    let options = EnvoyOptions {
        callout_timeout_ms: 20_000,
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    let limit = [("EDGELINK_FRONT_CLIENT_CONNECTIONS", "3")];
    let nginx = Nginx::start(&[envoy.edge()], &[control_plane.address()], &limit).await;
    let request = b"GET /slow HTTP/1.1\r\nhost: go.example\r\n\r\n";
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut connection = nginx.connect().await.expect("TLS");
        connection.send(request).await.expect("a connection");
        waiting.push(connection);
    }
    until("three requests are under way", LIMIT, async || {
        let active = "http.edge.downstream_rq_active";
        (envoy.stats(active).await.get(active) == 3).then_some(())
    })
    .await;

    assert_eq!(nginx.follow("/health/live").await.status, 429);
    let stream = nginx
        .connect_from([127, 0, 0, 2], "http/1.1")
        .await
        .expect("TLS");
    let answer = Connection::over(stream)
        .exchange(&Request::get("/health/live"), b"")
        .await;
    assert_eq!(answer.expect("an answer").status, 200);
    drop(waiting);
    until("there is room again", LIMIT, async || {
        (nginx.follow("/health/live").await.status == 200).then_some(())
    })
    .await;
}
