//! Requests that the filter answers, and the form of its answers.

use super::{Edge, Reply, Request, link};
use edgelink_wire::RedirectStatus;

/// Longer than a code, more than one segment, or bytes that no code has.
pub async fn path_when_no_code_passes_through(edge: &mut impl Edge) {
    let long = format!("/{}", "a".repeat(65));
    let paths = [
        "/",
        "/a.b/c",
        "/a%2eb/c",
        "/api/v1/links",
        "/a.b",
        "/a~b",
        "/a;b",
        "/?a=b",
        "/robots.txt",
        "/favicon.ico",
        "/a+",
        "/a+?b=c",
        "/a%2B",
        "/+/report",
        &long,
    ];
    for path in paths {
        let answer = edge.visit(Request::get(path)).await;
        assert!(answer.passed_through(), "{path}: {answer:?}");
    }
}

/// Links are followed with GET and HEAD; other methods belong to the upstream where there is no link.
pub async fn method_when_there_is_no_link_passes_through(edge: &mut impl Edge) {
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["/method1", "/api", "/a.b"] {
            let answer = edge.visit(Request::new(method, path.as_bytes())).await;
            assert!(answer.passed_through(), "{method} {path}: {answer:?}");
        }
    }
    assert_eq!(edge.lookups("method1").await, 1);
    let get = edge.follow("method1").await;
    assert_eq!(get.status, 404);
}

/// 307 and 308 keep the method and so work for every method; 301 and 302 do not.
pub async fn method_when_status_keeps_it_is_redirected(edge: &mut impl Edge) {
    for (redirect, status) in [
        (RedirectStatus::Found, 405),
        (RedirectStatus::MovedPermanently, 405),
        (RedirectStatus::TemporaryRedirect, 307),
        (RedirectStatus::PermanentRedirect, 308),
    ] {
        let code = format!("method{}", redirect.code());
        let mut record = link("https://example.com/m");
        record.redirect = redirect;
        edge.script(&code, Reply::Link(record)).await;
        let path = format!("/{code}?a=1");
        for method in ["POST", "PUT", "DELETE", "POST"] {
            let answer = edge.visit(Request::new(method, path.as_bytes())).await;
            assert_eq!(answer.status, status, "{method} {code}: {answer:?}");
            match status {
                405 => assert_eq!(answer.header("allow"), Some("GET, HEAD")),
                _ => assert_eq!(answer.location(), Some("https://example.com/m?a=1")),
            }
        }
        let get = edge.follow(&code).await;
        assert_eq!(get.status, redirect.code());
        assert_eq!(edge.lookups(&code).await, 1);
    }
}

/// Same status and headers.
pub async fn head_when_answered_equals_get_without_body(edge: &mut impl Edge) {
    edge.script("head1", Reply::Link(link("https://example.com/h")))
        .await;

    for _ in 0..2 {
        let answer = edge.visit(Request::new("HEAD", b"/head1")).await;
        assert_eq!(answer.status, 302);
        assert_eq!(answer.location(), Some("https://example.com/h"));
        assert!(answer.body.is_empty(), "{answer:?}");
    }
    let absent = edge.visit(Request::new("HEAD", b"/head2")).await;
    assert_eq!(absent.status, 404);
    assert!(absent.body.is_empty(), "{absent:?}");
}

/// Nothing is decoded, encoded or reordered.
pub async fn target_when_sent_is_unchanged(edge: &mut impl Edge) {
    for (index, url) in [
        "https://example.com",
        "http://EXAMPLE.com:80/%7Ea/../b//c?x=%2F&x=+&y#frag?",
        "https://example.com/?%E2%82%AC=%zz&&a",
    ]
    .into_iter()
    .enumerate()
    {
        let code = format!("bytes{index}");
        edge.script(&code, Reply::Link(link(url))).await;
        assert_eq!(edge.follow(&code).await.location(), Some(url));
        assert_eq!(edge.follow(&code).await.location(), Some(url));
    }
}

/// The visitor's parameters win over those of the target, and the fragment stays last.
pub async fn query_when_link_forwards_it_is_merged(edge: &mut impl Edge) {
    let url = "https://example.com/p?utm=x&keep=1#f";
    edge.script("query1", Reply::Link(link(url))).await;
    let mut plain = link(url);
    plain.forward_query = false;
    edge.script("query2", Reply::Link(plain)).await;

    for _ in 0..2 {
        let merged = edge.visit(Request::get("/query1?utm=y&z")).await;
        assert_eq!(
            merged.location(),
            Some("https://example.com/p?keep=1&utm=y&z#f")
        );
        let untouched = edge.visit(Request::get("/query2?utm=y&z")).await;
        assert_eq!(untouched.location(), Some(url));
    }
    assert_eq!(edge.lookups("query1").await, 1);
}

/// Non-UTF-8 bytes in any header pass through and do not trap the filter.
pub async fn header_when_bytes_are_arbitrary_does_no_harm(edge: &mut impl Edge) {
    edge.script("bytes9", Reply::Link(link("https://example.com/")))
        .await;
    for byte in 0x80..=0xff_u8 {
        let value = [b'a', byte, byte, b'b'];
        let answer = edge
            .visit(
                Request::get("/bytes9")
                    .header("user-agent", &value)
                    .header("cookie", &value)
                    .header("x-forwarded-for", &value),
            )
            .await;
        assert_eq!(answer.status, 302, "{byte:#x}");
    }
}

/// Browsers cache nothing that may change.
pub async fn answer_when_sent_is_private_and_not_cached(edge: &mut impl Edge) {
    edge.script("cache1", Reply::Link(link("https://example.com/")))
        .await;
    let answer = edge.follow("cache1").await;
    assert_eq!(answer.header("cache-control"), Some("private, max-age=0"));
}
