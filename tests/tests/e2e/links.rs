//! What becomes of a link, from the API to the visitor.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Deployment, EnvoyOptions, Stats, until};
use serde_json::json;
use std::time::{Duration, Instant};

/// A change is at every visitor within `freshSeconds` without a feed; one second is for the lookup and a slow machine.
const CHANGE_BOUND: Duration = Duration::from_secs(6);

async fn deployment() -> Deployment {
    Deployment::start(&EnvoyOptions::default()).await
}

#[tokio::test]
async fn link_when_created_leads_to_its_exact_target() {
    let edgelink = deployment().await;
    let target = "https://example.com/a?b=1";
    let path = edgelink.link("").to(target).create().await.path();

    let first = edgelink.envoy.follow(&path).await;
    let second = edgelink.envoy.follow(&path).await;

    for answer in [&first, &second] {
        assert_eq!(answer.status, 302, "{answer:?}");
        assert_eq!(answer.location(), Some(target));
        assert_eq!(answer.header("cache-control"), Some("private, max-age=0"));
    }
    assert_eq!(first.tier(), Some("control-plane"));
    assert_eq!(second.tier(), Some("lru"));
    let figures = |stats: &Stats| {
        (
            stats.answered_from("control-plane"),
            stats.answered_from("lru"),
        )
    };
    edgelink
        .envoy
        .await_figures(|stats| figures(stats) == (1, 1))
        .await;
}

#[tokio::test]
async fn link_when_given_a_status_redirects_with_it() {
    let edgelink = deployment().await;
    for status in [301, 302, 307, 308] {
        let link = edgelink.link("").redirect_status(status);
        let path = link.create().await.path();
        assert_eq!(edgelink.envoy.follow(&path).await.status, status);
    }
}

#[tokio::test]
async fn alias_when_followed_is_case_sensitive() {
    let edgelink = deployment().await;
    for alias in ["Sale-2026", "sale-2026"] {
        let target = format!("https://example.com/{alias}");
        edgelink.link(alias).to(&target).create().await;
        let answer = edgelink.envoy.follow(&format!("/{alias}")).await;
        assert_eq!(answer.location(), Some(target.as_str()));
    }
}

#[tokio::test]
async fn change_when_made_is_seen_by_visitors_in_time() {
    let edgelink = deployment().await;
    let link = edgelink.link("change").to("https://example.com/old");
    let path = link.create().await.path();
    assert_eq!(edgelink.envoy.follow(&path).await.status, 302);

    let changes = [
        (
            "PATCH",
            json!({ "longUrl": "https://example.com/new" }),
            302,
        ),
        ("PATCH", json!({ "state": "disabled" }), 410),
        ("PATCH", json!({ "state": "active" }), 302),
        ("DELETE", json!(null), 404),
    ];
    for (method, body, status) in changes {
        let answer = edgelink
            .control_plane
            .api(method, "/links/change", &body)
            .await;
        assert!(answer.status < 300, "{method} {body}: {answer:?}");
        let changed = Instant::now();
        until(
            &format!("{method} {body} is seen"),
            CHANGE_BOUND,
            async || {
                let answer = edgelink.envoy.follow(&path).await;
                let is_new = answer.location().is_none_or(|url| url.ends_with("/new"));
                (answer.status == status && is_new).then_some(())
            },
        )
        .await;
        println!("{method} {body}: seen after {:?}", changed.elapsed());
    }
}

#[tokio::test]
async fn link_when_created_after_a_miss_is_found_in_time() {
    let edgelink = deployment().await;
    assert_eq!(edgelink.envoy.follow("/missed").await.status, 404);

    edgelink.link("missed").create().await;

    until("the link is found", CHANGE_BOUND, async || {
        (edgelink.envoy.follow("/missed").await.status == 302).then_some(())
    })
    .await;
}

#[tokio::test]
async fn link_when_outside_its_validity_does_not_redirect() {
    let edgelink = deployment().await;
    let early = edgelink.link("").valid_since("2100-01-01T00:00:00Z");
    let late = edgelink.link("late").valid_until("2100-01-01T00:00:00Z");

    let path = early.create().await.path();
    assert_eq!(edgelink.envoy.follow(&path).await.status, 404);

    late.create().await;
    let past = json!({ "validUntil": "2020-01-01T00:00:00Z" });
    let patched = edgelink
        .control_plane
        .api("PATCH", "/links/late", &past)
        .await;
    assert_eq!(patched.status, 200, "{patched:?}");
    assert_eq!(edgelink.envoy.follow("/late").await.status, 410);
}

#[tokio::test]
async fn query_when_the_link_forwards_it_goes_along() {
    let edgelink = deployment().await;
    let url = "https://example.com/p?a=1#top";
    let forwarding = edgelink.link("").to(url).create().await.path();
    let plain = edgelink.link("").to(url).with("forwardQuery", false);
    let plain = plain.create().await.path();

    let merged = edgelink.envoy.follow(&format!("{forwarding}?b=2")).await;
    let untouched = edgelink.envoy.follow(&format!("{plain}?b=2")).await;

    assert_eq!(merged.location(), Some("https://example.com/p?a=1&b=2#top"));
    assert_eq!(untouched.location(), Some(url));
}

#[tokio::test]
async fn method_when_not_get_or_head_is_405() {
    let edgelink = deployment().await;
    let path = edgelink.link("").create().await.path();

    let head = edgelink
        .envoy
        .visit(&Request::new("HEAD", path.as_bytes()))
        .await;
    assert_eq!(
        (head.status, head.location()),
        (302, Some("https://example.com/"))
    );

    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = edgelink
            .envoy
            .visit(&Request::new(method, path.as_bytes()))
            .await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"), "{method}");
    }
}

#[tokio::test]
async fn code_when_on_two_domains_leads_to_two_targets() {
    let edgelink = Deployment::start(&EnvoyOptions {
        domains: vec!["go.example".to_owned(), "other.example:8443".to_owned()],
        ..EnvoyOptions::default()
    })
    .await;
    for domain in ["go.example", "other.example:8443"] {
        let target = format!("https://example.com/{domain}");
        let link = edgelink.control_plane.link("same").to(&target).on(domain);
        link.create().await;
    }

    for (host, domain) in [
        ("go.example", "go.example"),
        ("GO.example", "go.example"),
        ("other.example:8443", "other.example:8443"),
        ("unknown.example", "go.example"),
    ] {
        let request = Request::get("/same").header("host", host.as_bytes());
        let answer = edgelink.envoy.visit(&request).await;
        let target = format!("https://example.com/{domain}");
        assert_eq!(answer.location(), Some(target.as_str()), "{host}");
    }
}
