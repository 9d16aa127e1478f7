//! Links with rare properties.

use super::{Edge, Reply, Request, extended, link};
use edgelink_wire::LinkRecord;
use edgelink_wire::record::Extension;
use std::time::Duration;

const FORWARDING: Extension<'_> = Extension {
    forward_path: true,
    rules: None,
    expired_url: None,
    crawlable: false,
    track_conversions: false,
    hide_referrer: false,
    spares_bots: false,
    max_visits: None,
    domain: None,
    unlock_key: None,
};

/// From the end of its validity on; the visitor's query is dropped.
pub async fn link_when_expired_redirects_to_its_expired_url(edge: &mut impl Edge) {
    let over = Extension {
        expired_url: Some(b"https://example.com/over?x"),
        hide_referrer: true,
        ..Extension::default()
    };
    let link = LinkRecord {
        valid_until: Some(edge.now() + 2),
        ..extended("https://example.com/", &over)
    };
    edge.script("over1", Reply::Link(link)).await;
    let before = edge.follow("over1").await;
    assert_eq!(before.location(), Some("https://example.com/"));
    assert_eq!(before.header("referrer-policy"), Some("no-referrer"));
    edge.pass(Duration::from_secs(3)).await;
    for _ in 0..2 {
        let after = edge.visit(Request::get("/over1?y")).await;
        assert_eq!(after.status, 302);
        assert_eq!(after.location(), Some("https://example.com/over?x"));
    }
}

/// Applies to a waiter and then to the cache, with one lookup for all paths.
pub async fn path_when_link_forwards_it_joins_target(edge: &mut impl Edge) {
    let target = "https://example.com/docs/?v=1#top";
    let link = extended(target, &FORWARDING);
    edge.script("forward1", Reply::Link(link)).await;
    for (path, location) in [
        ("/forward1/a/b", "https://example.com/docs/a/b?v=1#top"),
        ("/forward1", target),
        ("/forward1/", target),
        ("/forward1/a/?w", "https://example.com/docs/a/?v=1&w#top"),
        ("/forward1//a", "https://example.com/docs//a?v=1#top"),
        (
            "/forward1/%61:@;",
            "https://example.com/docs/%61:@;?v=1#top",
        ),
    ] {
        let answer = edge.visit(Request::get(path)).await;
        assert_eq!(answer.location(), Some(location), "{path}");
    }
    assert_eq!(edge.lookups("forward1").await, 1);
}

/// For any path after the code, the visitor stays on the target's host and below its path.
pub async fn path_when_forwarded_never_leaves_target(edge: &mut impl Edge) {
    let bare = extended("https://example.com", &FORWARDING);
    edge.script("forward2", Reply::Link(bare)).await;
    let deep = extended("https://example.com/a/b", &FORWARDING);
    edge.script("forward3", Reply::Link(deep)).await;
    for path in [
        "/forward2//evil.example",
        "/forward2/@evil.example",
        "/forward2/:80@evil.example/",
        "/forward2/.evil.example",
        "/forward2/%0d%0alocation:%20https:%2e%2eevil.example",
    ] {
        let answer = edge.visit(Request::get(path)).await;
        let location = answer
            .location()
            .unwrap_or_else(|| panic!("{path}: {answer:?}"));
        let rest = location.strip_prefix("https://example.com/");
        assert!(rest.is_some(), "{path}: {location}");
    }
    for path in [
        "/forward3/..",
        "/forward3/./c",
        "/forward3/c/../../d",
        "/forward3/%2e%2E/c",
        "/forward3/.%2e;c/d",
    ] {
        let answer = edge.visit(Request::get(path)).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(!answer.passed_through(), "{path}");
    }
}

/// The filter's own 404, as for a code without a link.
pub async fn path_when_below_any_other_code_is_404(edge: &mut impl Edge) {
    let plain = link("https://example.com/");
    edge.script("forward4", Reply::Link(plain)).await;
    for path in ["/forward4/a", "/forward4/", "/forward5/a"] {
        for _ in 0..2 {
            let answer = edge.visit(Request::get(path)).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(!answer.passed_through(), "{path}");
        }
    }
    let link = edge.follow("forward4").await;
    assert_eq!(link.location(), Some("https://example.com/"));
}
