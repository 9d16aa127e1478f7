//! Purging links past their validity.

use crate::helpers::{Running, in_seconds, until};
use edgelink_wire::{LinkAnswer, Record};
use serde_json::json;

const EAGER: [(&str, &str); 3] = [
    ("EDGELINK_PURGE_INTERVAL_SECONDS", "1"),
    ("EDGELINK_PURGE_GRACE_SECONDS", "0"),
    ("EDGELINK_PURGE_BATCH", "2"),
];

/// The revision that an answer to an edge has.
fn rev(answer: &[u8]) -> u64 {
    let record = LinkAnswer::split(answer).unwrap().record;
    Record::decode(record).unwrap().rev()
}

#[tokio::test]
async fn link_when_long_expired_is_purged_and_frees_its_alias() {
    let server = Running::with(&EAGER).await;
    let (past, future) = ("2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z");
    for slug in ["a", "b", "c", "d", "e"] {
        server.link(slug).valid_until(past).create().await;
    }
    server.link("future").valid_until(future).create().await;
    until("all five are swept", async || {
        let page = server.get("/links").await.expect(200);
        page["links"].as_array().unwrap().len() == 1
    })
    .await;
    server.follow("/a").await.page(404, "");
    server
        .follow("/future")
        .await
        .redirects(302, "https://example.com/");
    // The tombstone has kept the revision: caches take the new link for newer.
    let deleted = server.resolve("go.example:8080/a").await;
    let deleted = rev(&deleted.body);
    server.link("a").valid_until(future).create().await;
    let entry = server.resolve("go.example:8080/a").await;
    assert!(rev(&entry.body) > deleted);
}

#[tokio::test]
async fn link_when_in_its_grace_period_is_kept() {
    let server = Running::with(&[("EDGELINK_PURGE_INTERVAL_SECONDS", "1")]).await;
    let link = server.link("a").valid_until(&in_seconds(-86_400));
    link.create().await;
    server.follow("/a").await.page(410, "");
    until("a purge has ended", async || {
        let metrics = server.plain(reqwest::Method::GET, "/metrics");
        let metrics = metrics.send().await.unwrap().text().await.unwrap();
        metrics.contains(r#"edgelink_purged_total{kind="receipts"}"#)
    })
    .await;
    server
        .patch("/links/a", &json!({ "validUntil": null }))
        .await
        .expect(200);
    server
        .follow("/a")
        .await
        .redirects(302, "https://example.com/");
}
