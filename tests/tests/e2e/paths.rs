//! Paths that are not those of a link, and must not become one on their way.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Deployment, EnvoyOptions, Filter};

async fn with_a_known_link() -> Deployment {
    let edgelink = Deployment::start(&EnvoyOptions::default()).await;
    edgelink.link("known").create().await;
    edgelink
}

#[tokio::test]
async fn link_when_spelt_otherwise_is_404() {
    let edgelink = with_a_known_link().await;
    for (path, status) in [
        ("/known", 302),
        ("/known?", 302),
        ("/known?a=%2F&b=//", 302),
        ("/Known", 404),
        ("/known/", 404),
        ("//known", 404),
        ("///known", 404),
        ("/./known", 404),
        ("/x/../known", 404),
        ("/%2e%2e/known", 404),
        ("/known/..", 404),
        ("/known;a=b", 404),
        ("/known%20", 404),
        ("/known%00", 404),
        ("/%00", 404),
        ("/%6bnown", 404),
        ("/%zz", 404),
        ("/known%2F", 400),
        ("/%2Fknown", 400),
        ("/x%5Cknown", 400),
        ("/", 404),
        ("/.", 404),
        ("/..", 404),
        ("/api", 404),
        ("/robots.txt", 404),
        ("/known.html", 404),
    ] {
        let answer = edgelink.envoy.follow(path).await;
        // nginx refuses others: what leads above the root, and zeros, but no slashes that are encoded.
        let is_refused =
            edgelink.envoy.filter() == Filter::Nginx && [400, 404].contains(&answer.status);
        assert!(answer.status == status || is_refused, "{path}: {answer:?}");
    }
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn path_when_too_long_is_431() {
    if Filter::lacks("Envoy's reading of HTTP") {
        return;
    }
    let edgelink = with_a_known_link().await;
    let long = |length| format!("/{}", "a".repeat(length));
    for (path, status) in [
        (long(64), 404),
        (long(65), 404),
        (long(30_000), 404),
        (long(65_536), 431),
        (format!("/known?q={}", "a".repeat(65_536)), 431),
    ] {
        let answer = edgelink.envoy.follow(&path).await;
        assert_eq!(answer.status, status, "{} bytes", path.len());
    }
    // A target that would become too long goes out without the query.
    for (length, is_merged) in [(15_000, true), (20_000, false)] {
        let query = "a".repeat(length);
        let answer = edgelink.envoy.follow(&format!("/known?q={query}")).await;
        let merged = format!("https://example.com/?q={query}");
        let expected = if is_merged {
            &merged
        } else {
            "https://example.com/"
        };
        assert!(answer.location() == Some(expected), "{length} bytes");
    }
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn bytes_when_not_http_are_refused() {
    if Filter::lacks("Envoy's reading of HTTP") {
        return;
    }
    let edgelink = with_a_known_link().await;
    for (bytes, status) in [
        (
            &b"GET /kno wn HTTP/1.1\r\nhost: go.example\r\n\r\n"[..],
            400,
        ),
        (b"GET /known\0 HTTP/1.1\r\nhost: go.example\r\n\r\n", 400),
        (b"GET known HTTP/1.1\r\nhost: go.example\r\n\r\n", 400),
        (b"GET /known HTTP/1.1\r\n\r\n", 400),
        (
            b"GET /known HTTP/1.1\r\nhost: go.example\r\na\0b: c\r\n\r\n",
            400,
        ),
        (
            b"GET /known HTTP/1.1\r\nhost: go.example\r\nx: a\0b\r\n\r\n",
            400,
        ),
        (b"GET /known HTTP/1.0\r\nhost: go.example\r\n\r\n", 426),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ] {
        let mut connection = edgelink.envoy.connect().await;
        connection.send(bytes).await.expect("a connection");
        let answer = connection.receive("GET").await.expect("an answer");
        assert_eq!(answer.status, status, "{}", bytes.escape_ascii());
    }
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn headers_when_lying_about_the_visitor_change_nothing() {
    let edgelink = with_a_known_link().await;
    for (name, value) in [
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "gopher"),
        ("x-envoy-original-path", "/other"),
        ("x-envoy-internal", "true"),
        ("x-edgelink-tier", "lru"),
        ("x_known", "underscore"),
        ("host", "known.example:99999"),
    ] {
        let request = Request::get("/known").header(name, value.as_bytes());
        let answer = edgelink.envoy.visit(&request).await;
        assert_eq!(
            answer.location(),
            Some("https://example.com/"),
            "{name}: {answer:?}"
        );
    }
}
